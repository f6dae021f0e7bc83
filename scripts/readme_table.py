"""Write the README's tables from the published records, or check that they are what these give.

Usage::

    python scripts/readme_table.py [--check]
"""

import sys
from pathlib import Path

from cfq_bench.record.store import RecordStore
from cfq_bench.report.compare import comparison

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- tables: begin (scripts/readme_table.py) -->", "<!-- tables: end -->"


def with_tables(readme: str) -> str:
    """The README with its tables made anew."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    tables = comparison(RecordStore(ROOT / "results" / "headline").all(), markdown=True)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def main() -> int:
    """Write or check; returns the exit code."""
    path = ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    made = with_tables(readme)
    if "--check" in sys.argv[1:]:
        if made != readme:
            print("README.md: the tables are not what results/headline gives", file=sys.stderr)
            return 1
        return 0
    path.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
