"""`cfq-bench reproduce`: which metrics agree, to how many digits, and what a report says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cfq_bench.experiment
from cfq_bench.cli.main import main
from cfq_bench.config.suite import expand, load_suite
from cfq_bench.errors import UserError
from cfq_bench.record.archive import Archive, pack
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.report.build import build_report
from cfq_bench.report.reproduced import REPRODUCED, Reproduced, compare
from cfq_bench.results.collect import collect
from tests.support.light_suite import light_record, many_configs

MACHINE = {
    "version": "0.1.0",
    "cpu": "Some CPU",
    "arithmetic": {"instructions": "AVX2", "blas": "mkl"},
    "libraries": {"torch": "2.9"},
}


def record_of(config: dict[str, Any], vd: float | None, **changes: Any) -> Record:
    metrics = {"recourse/vd": vd, "task/acc": 0.5, "time/fit_s": 1.0}
    return light_record(config, **{"metrics": metrics, "provenance": MACHINE, **changes})


@pytest.fixture
def seeds() -> list[Record]:
    """Three seeds of one row: the standard deviation of VD is 0.1."""
    return [record_of(c, 0.1 * (i + 1)) for i, c in enumerate(many_configs(3))]


@pytest.mark.parametrize(
    ("after", "agreement"),
    [
        (0.2, None),
        (0.2000001, "printed"),
        (0.25, "within"),
        (0.399, "within"),
        (0.401, "beyond"),
        (None, "beyond"),
    ],
)
def test_a_metric_agrees_as_far_as_it_does(
    seeds: list[Record], after: float | None, agreement: str | None
) -> None:
    new = record_of(seeds[1].config, after, provenance={})
    again = compare(seeds[1], new, seeds)
    assert again.metrics == 2  # no time
    assert again.count("equal") == (2 if agreement is None else 1)
    assert {k: one.agreement for k, one in again.differences.items()} == (
        {} if agreement is None else {"recourse/vd": agreement}
    )
    assert again.agrees == (agreement != "beyond")
    if agreement is not None:
        assert again.differences["recourse/vd"].spread == pytest.approx(0.1)


def test_a_single_seed_has_no_spread_to_agree_within(seeds: list[Record]) -> None:
    again = compare(seeds[1], record_of(seeds[1].config, 0.21), seeds[1:2])
    assert again.differences["recourse/vd"].spread is None
    assert not again.agrees


def test_another_end_is_no_agreement(seeds: list[Record]) -> None:
    failed = record_of(seeds[0].config, 0.1, status="failed", reason="no")
    again = compare(seeds[0], failed, seeds)
    assert (again.before, again.after, again.agrees) == ("ok", "failed: no", False)


Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, seeds: list[Record], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command on an archive of the three, where seed 1 comes out otherwise."""
    path = tmp_path / "light" / "records.jsonl.xz"
    path.parent.mkdir()
    path.write_bytes(pack(Archive(tuple(seeds), {})))

    def run(settings: Any, options: Any) -> Record:
        config = settings.model_dump(mode="json")
        assert options.results_dir != tmp_path
        assert options.cache_dir.is_relative_to(options.results_dir)
        vd = {0: 0.1, 1: 0.26, 2: 0.9}[config["seed"]]
        return record_of(config, vd, provenance={**MACHINE, "cpu": "Another CPU"})

    monkeypatch.setattr(cfq_bench.experiment, "run", run)

    def call(*arguments: str) -> Result:
        words = ["reproduce", "--results-dir", str(tmp_path), *arguments]
        return CliRunner().invoke(main, words)

    return call


def test_an_archive_s_records_are_run_again(
    call: Call, seeds: list[Record], tmp_path: Path
) -> None:
    first, second, third = (record.run_id for record in seeds)
    done = call("--archive", "light", first, second)
    assert done.exit_code == 0, done.output
    assert "lsq on german, 3.5 bits, seed 1" in done.stdout
    assert "here: Another CPU (AVX2, mkl, torch 2.9)" in done.stdout
    assert "records: Some CPU (AVX2, mkl, torch 2.9)" in done.stdout
    done = call("--archive", str(tmp_path / "light" / "records.jsonl.xz"), third[:6])
    assert done.exit_code == 1
    assert f"{third[:8]}: recourse/vd was 0.300, is 0.900 (spread 0.1)" in done.stdout


def test_what_is_written_is_what_a_report_says(
    call: Call, seeds: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "light" / REPRODUCED
    done = call("--archive", "light", "--sample", "9", "--json", "--write", str(path))
    assert done.exit_code == 1
    found = Reproduced.read(path)
    assert found is not None
    assert json.loads(done.stdout) == found.model_dump()
    assert {run.run_id for run in found.runs} == {record.run_id for record in seeds}
    sentence = (
        "Run again elsewhere: 3 of 3 records by cfq-bench 0.1.0 on Another CPU (AVX2, mkl, torch "
        "2.9); of 6 metrics 4 are equal to the last bit, 0 more to the printed digits, 1 within "
        "2 standard deviations over seeds, 1 beyond."
    )
    assert found.sentence() == sentence
    suite = load_suite("smoke")
    records = [light_record(run.settings.model_dump(mode="json")) for run in expand(suite)]
    results = collect("smoke", expand(suite), records)
    assert sentence in build_report(suite, results, {}, reproduced=found).state


def test_runs_of_the_results_folder_are_found_too(
    call: Call, seeds: list[Record], tmp_path: Path
) -> None:
    for record in seeds:
        RecordStore(tmp_path).write(record, None)
    assert call(seeds[0].run_id[:8]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name runs, or give --sample N"),
        (["--archive", "light", "--sample", "1", "abc"], "one of the two"),
        (["--archive", "light", "none"], "none of 3 records start with 'none'"),
        (["--archive", "light", ""], "3 of 3 records start with ''"),
        (["--archive", "nowhere", "abc"], "does not exist"),
    ],
)
def test_a_slip_is_one_line(call: Call, arguments: list[str], words: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"of": 1}'])
def test_a_damaged_comparison_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / REPRODUCED
    assert Reproduced.read(path) is None
    path.write_text(text)
    with pytest.raises(UserError, match="nothing that `cfq-bench reproduce --write` wrote"):
        Reproduced.read(path)
