"""No number in the README is typed by hand."""

import itertools
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    lines = "\n".join(blocks).splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith("cfq-bench run")]


@pytest.mark.slow
def test_the_main_table_and_the_reports_are_what_the_published_records_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (ROOT / "results" / "headline" / "records.jsonl.xz").exists()
    for name in ("to_svg", "to_pdf"):  # the check leaves the bytes of figures out
        monkeypatch.setattr(f"cfq_bench.figures.draw.{name}", lambda *_: b"<svg></svg>")
    check: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "publish.py"))
    assert check["stale"]() == []


def test_the_readme_has_run_commands() -> None:
    assert len(commands()) >= 5


@pytest.mark.parametrize("command", commands())
def test_every_run_command_is_understood(command: str) -> None:
    words = command.split()[2:]
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    options = dict(itertools.pairwise(words))
    names = {
        group: options[f"--{group}"]
        for group in ("method", "data", "backbone", "solver", "actions")
        if f"--{group}" in options and not options[f"--{group}"].endswith(".yaml")
    }
    load_settings(**names, overrides=overrides)  # type: ignore[arg-type]
    known = {opt for p in main.commands["run"].params for opt in p.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_the_makefile_has_the_commands_that_the_readme_names() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README, flags=re.MULTILINE)) <= targets


def test_help_names_every_command() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    for name in main.commands:
        assert name in text
