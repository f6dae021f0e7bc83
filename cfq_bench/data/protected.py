"""The groups that results are reported by."""

from itertools import pairwise

import numpy as np
import pandas as pd

from cfq_bench.config.settings import DataSettings

MOST_NUMBERS = 10
"""A number with more values than this, such as an age, is reported in bands: a group a value would
hold a handful of people each."""


def protected_groups(
    frame: pd.DataFrame, train: np.ndarray, rows: np.ndarray, settings: DataSettings
) -> pd.DataFrame:
    """Groups of some rows by protected attribute, as text.

    Categories stand for themselves. Numbers with many values are cut at the quartiles of the train
    rows, so that the bands do not depend on who is tested. Absent values are a group of their own.

    Args:
        frame: raw rows.
        train: positions of the train rows.
        rows: positions of the rows wanted.
        settings: which features are protected, and their kinds.

    Returns:
        A column per attribute, a line per row, with a fresh index.
    """
    groups = {}
    for name in settings.protected:
        column = frame[name]
        text = column.astype(str)
        if settings.features[name].kind in ("numeric", "integer"):
            numbers = pd.to_numeric(column)
            known = numbers.iloc[train].dropna()
            if known.nunique() > MOST_NUMBERS:
                text = _bands(numbers, np.unique(np.quantile(known, [0.25, 0.5, 0.75])))
        groups[name] = text.where(column.notna(), "missing").iloc[rows].reset_index(drop=True)
    return pd.DataFrame(groups, columns=settings.protected)


def _bands(numbers: pd.Series, cuts: np.ndarray) -> pd.Series:
    """The band of each number; a cut belongs to the band below it."""
    names = [f"up to {cuts[0]:g}"]
    names += [f"over {a:g} to {b:g}" for a, b in pairwise(cuts)]
    names.append(f"over {cuts[-1]:g}")
    return pd.Series(np.array(names)[np.searchsorted(cuts, numbers)], index=numbers.index)
