"""Make the embedded data files from the PyPI wheel ``fairness==0.1.8``.

Usage::

    pip download --no-deps fairness==0.1.8
    python scripts/embed_data.py fairness-0.1.8-*.whl

The wheel's raw files equal the originals (ProPublica, UCI). Names, birth dates, case numbers and
every column that no feature or filter needs are left out.
"""

import csv
import io
import lzma
import sys
import zipfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "cfq_bench" / "data" / "embedded"
COMPAS_COLUMNS = [
    "sex",
    "age",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
    "days_b_screening_arrest",
    "is_recid",
    "score_text",
    "decile_score",
    "two_year_recid",
]


def select(text: str, columns: list[str] | None) -> str:
    """Keep some columns of a CSV, by name; the first of a name that appears twice."""
    rows = list(csv.reader(io.StringIO(text)))
    header = rows[0]
    keep = [header.index(name) for name in columns or header]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([row[i] for i in keep] for row in rows)
    return out.getvalue()


def main(wheel: str) -> None:
    """Write ``compas.csv.xz``, ``german.csv.xz`` and ``german-codes.txt``."""
    with zipfile.ZipFile(wheel) as archive:
        for name, raw, columns in (
            ("compas", "propublica-recidivism.csv", COMPAS_COLUMNS),
            ("german", "german.csv", None),
        ):
            text = archive.read(f"fairness/data/raw/{raw}").decode("utf-8")
            packed = lzma.compress(select(text, columns).encode(), preset=9 | lzma.PRESET_EXTREME)
            (TARGET / f"{name}.csv.xz").write_bytes(packed)
        described = archive.read("fairness/data/raw/german.txt").decode("utf-8")
    codes = described[described.index("Attribute 1:") : described.index("8.  Cost Matrix")]
    lines = [line.expandtabs(8).rstrip() for line in codes.splitlines()]
    (TARGET / "german-codes.txt").write_text("\n".join(lines).strip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
