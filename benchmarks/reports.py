"""The report of 1,000 records: the published headline's, with further seeds that repeat the first.

Their numbers mean nothing; what is measured is reading, statistics, tables and drawing.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import yaml

from benchmarks.command import call
from benchmarks.timing import Measurement, interleave, wall
from cfq_bench.config.suite import expand, load_suite
from cfq_bench.files import run_id
from cfq_bench.record.archive import RowValidity, read_archive
from cfq_bench.record.store import RecordStore

SUITE = "headline"
ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "results" / SUITE / "records.jsonl.xz"
PUBLISHED, SEEDS = 5, 7
"""Seeds, of 144 runs each."""


def measure(repeats: int) -> Iterator[Measurement]:
    """The whole command, imports included."""
    if not ARCHIVE.is_file():
        print("skipped reports: the published records are not at hand", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = _write(folder)
        command = ("report", SUITE, "--conf-dir", name, "--results-dir", str(folder / "results"))
        seconds = interleave({"report": wall(lambda: call(*command))}, min(repeats, 3))
    yield Measurement(
        f"cfq-bench report, {count:,} records",
        statistics.median(seconds["report"]),
        "s",
        seconds,
        limit=10.0,
        note="the whole command: reading, statistics, tables, figures",
    )


def _write(folder: Path) -> int:
    """A suite of more seeds, and records and rows of all its runs."""
    source = ROOT / "conf" / "suite" / f"{SUITE}.yaml"
    suite = yaml.safe_load(source.read_text(encoding="utf-8"))
    for grid in (suite, *suite["include"]):
        grid["axes"]["seed"] = list(range(SEEDS))
    (folder / "suite").mkdir()
    (folder / "suite" / f"{SUITE}.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    archive, store = read_archive(ARCHIVE), RecordStore(folder / "results")
    known = {record.run_id: record for record in archive.records}
    runs = expand(load_suite(SUITE, folder), folder)
    for run in runs:
        config = run.settings.model_dump(mode="json")
        like = known[run_id({**config, "seed": config["seed"] % PUBLISHED})]
        record = like.model_copy(update={"run_id": run.run_id, "config": config})
        store.write(record, _rows(archive.rows[like.run_id]))
    return len(runs)


def _rows(validity: RowValidity) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"row_id": kept.row_ids, "direction": name, "valid_q": kept.held})
        for name, kept in validity.items()
    ]
    return pd.concat(parts, ignore_index=True)
