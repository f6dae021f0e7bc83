"""The W&B workspace, built offline and compared with the golden file.

After a wanted change: cfq-bench wandb-workspace --print > tests/golden/wandb_workspace.json
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cfq_bench.cli.main import main

GOLDEN = Path(__file__).parent / "golden" / "wandb_workspace.json"


def call(*arguments: str, **environment: str | None) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["wandb-workspace", *arguments], env=environment)
    return done.exit_code, done.output


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_workspace_is_the_golden_one() -> None:
    pytest.importorskip("wandb_workspaces", reason="the extra wandb-workspace is not installed")
    code, printed = call("--print", WANDB_ENTITY=None)
    assert code == 0
    assert printed == GOLDEN.read_text(encoding="utf-8")


def test_without_the_extra_or_an_entity_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, told = call(WANDB_ENTITY=None)
    assert (code, "--entity" in told) == (2, True)
    monkeypatch.setitem(sys.modules, "wandb_workspaces.workspaces", None)
    code, told = call("--print")
    assert (code, "pip install 'cfq-bench[wandb-workspace]'" in told) == (2, True)
    assert told.count("\n") == 1
