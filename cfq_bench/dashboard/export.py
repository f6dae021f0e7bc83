"""The page as one file, with the pages of its runs inside."""

from pathlib import Path

from cfq_bench.dashboard.index import RecordIndex
from cfq_bench.dashboard.page import Selection, overview
from cfq_bench.dashboard.run_page import run_page
from cfq_bench.dashboard.server import source_line
from cfq_bench.files import write_atomic

MOST_ROWS = 20
"""Rows that broke, of each run: a file of a thousand runs should still open."""


def export(results_dir: Path, path: Path) -> int:
    """Write the page of a folder's records.

    Args:
        results_dir: folder of the results.
        path: the HTML file.

    Returns:
        The number of runs in it.

    Raises:
        UserError: it cannot be read or written.
    """
    index = RecordIndex(results_dir)
    snapshot = index.refresh()
    articles = (run_page(index.store, run.run_id, run.title, MOST_ROWS) for run in snapshot.runs)
    page = overview(
        snapshot, Selection(), source=source_line(results_dir), articles=articles, exported=True
    )
    write_atomic(path, page.encode())
    return len(snapshot.runs)
