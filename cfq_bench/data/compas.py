"""COMPAS: will this person be arrested again within two years?

ProPublica's two-year file for Broward County, with the filter of ProPublica's own analysis: the
charge lies within 30 days of the screening, recidivism is known, no ordinary traffic offences, a
score exists. Favourable outcome: no arrest within two years.

What differs from the paper's Tables 4 and 5:
- 6,172 rows survive the standard filter; the paper prints 6,500 (4,500 + 2,000). We train on 4,300.
- The favourable rate is 0.545. The paper prints a positive rate of 0.45, which is the share that
  *was* arrested again, beside the target "low risk".
- Its width, d = 12 with 3 categorical groups, is matched: five counts, sex (2), race (3: the groups
  below 10 % of the rows are pooled as Other), charge degree (2).
- "Immutable dims 3" can only count features (age, sex, race); as columns they are 6.
"""

from pathlib import Path

import pandas as pd

from cfq_bench.data.reading import read_embedded
from cfq_bench.data.table import Table

EMBEDDED = ("compas.csv.xz",)


def load(data_dir: Path | None) -> Table:
    """Read the embedded file and apply the standard filter; `data_dir` is not needed."""
    del data_dir
    raw = read_embedded(EMBEDDED[0])
    standard = (
        raw["days_b_screening_arrest"].between(-30, 30)
        & (raw["is_recid"] != -1)
        & (raw["c_charge_degree"] != "O")
        & raw["score_text"].notna()
    )
    frame = raw[standard].copy()
    large = frame["race"].isin(["African-American", "Caucasian"])
    frame["race"] = pd.Categorical(
        frame["race"].where(large, "Other"),
        categories=["African-American", "Caucasian", "Other"],
    )
    frame["sex"] = pd.Categorical(frame["sex"], categories=["Female", "Male"])
    frame["c_charge_degree"] = pd.Categorical(frame["c_charge_degree"], categories=["F", "M"])
    return Table(frame, f"embedded {EMBEDDED[0]}")
