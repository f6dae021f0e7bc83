"""Parquet files of one's own: single values as text files give them, the rest named."""

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfq_bench.config.settings import DataSettings
from cfq_bench.config.yaml import parse_yaml
from cfq_bench.data.draft import Draft, draft
from cfq_bench.data.formats import look
from cfq_bench.data.parquet import read_parquet
from cfq_bench.data.table import load_table
from cfq_bench.errors import UserError

COUNT = 40
DAY = dt.date(2020, 1, 31)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.parquet"


def write(path: Path, **columns: Any) -> Path:
    """A file with these columns, and a number and a label beside them."""
    every = {**columns, "n": [i * 7 % 31 for i in range(COUNT)], "y": [i % 2 for i in range(COUNT)]}
    pq.write_table(pa.table(every), path)
    return path


def drafted(path: Path) -> tuple[Draft, DataSettings]:
    made = draft(look(path, "y"), path.name, "actions.yaml", "y", None)
    raw = parse_yaml(made.data, "the draft")
    config = DataSettings.model_validate({"name": "t", **raw, "loader": str(path)})
    load_table(config)
    return made, config


NESTED = {
    "lists": [[1, 2]] * COUNT,
    "structures": [{"a": 1}] * COUNT,
    "maps": pa.array([[("a", 1)]] * COUNT, pa.map_(pa.string(), pa.int64())),
    "bytes": [b"\x00"] * COUNT,
    "bytes of one length": pa.array([b"ab"] * COUNT, pa.binary(2)),
    "lists of one length": pa.array([[1, 2]] * COUNT, pa.list_(pa.int64(), 2)),
    "bytes in a dictionary": pa.array([b"a"] * COUNT).dictionary_encode(),
    "durations": [dt.timedelta(days=i) for i in range(COUNT)],
    "times of day": [dt.time(12, 30)] * COUNT,
}


@pytest.mark.parametrize(("kind", "values"), NESTED.items(), ids=list(NESTED))
def test_columns_without_single_values_are_named(path: Path, kind: str, values: Any) -> None:
    made, config = drafted(write(path, odd=values))
    kind = kind.split(" of one")[0].split(" in")[0]
    assert f"left out odd: holds {kind}, not one value a row" in made.notes
    assert "odd" not in config.features
    wrong = config.model_copy(update={"features": {"odd": config.features["n"]}})
    with pytest.raises(UserError) as caught:
        load_table(wrong)
    assert str(caught.value) == (
        f"{path}: column 'odd' holds {kind}, not one number, word or date a row: leave it out, or "
        "derive columns from it"
    )


def test_single_values_come_as_text_gives_them(path: Path) -> None:
    frame = pd.DataFrame(
        {
            "decimal": [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")],
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "bool": [True, False, True],
            "gaps": pd.array([True, None, False], dtype="boolean"),
            "half": np.array([0.5, 1, 2], dtype=np.float16),
            "words": [" a", "", None],
            "codes": pd.Categorical([3, 1, 3]),
            "date": [DAY, None, DAY],
            "time": pd.to_datetime([DAY, None, DAY]).tz_localize("UTC"),
            "month": pd.period_range("2020-01", periods=3, freq="M"),
            "null": [None, None, None],
        }
    )
    frame.to_parquet(path)
    found = read_parquet(path, [])
    assert found.frame["decimal"].tolist() == pytest.approx([1.5, np.nan, 2.25], nan_ok=True)
    assert found.frame["nullable"].isna().tolist() == [False, True, False]
    assert found.frame["bool"].dtype == bool
    assert found.frame["gaps"].tolist()[::2] == [True, False]
    assert found.frame["half"].dtype == np.float64
    assert found.frame["words"].fillna("missing").tolist() == ["a", "missing", "missing"]
    assert found.frame["codes"].tolist() == [3, 1, 3]
    for name in ("date", "time", "month"):
        assert pd.api.types.is_datetime64_any_dtype(found.frame[name])
    assert found.frame["null"].isna().all()
    assert found.notes == ["spaces around 1 value (words) are taken off"]
    assert found.unusable == {}


def test_kinds_that_are_drafted(path: Path) -> None:
    grades = pa.array([["low", "mid", "high"][i * 5 % 3] for i in range(COUNT)])
    made, config = drafted(
        write(
            path,
            money=[decimal.Decimal(i * 13 % 37) / 4 for i in range(COUNT)],
            grade=pd.Categorical(grades.to_pylist(), ["low", "mid", "high"], ordered=True),
            color=pd.Categorical(["red", "blue"] * (COUNT // 4) + ["blue", "red"] * (COUNT // 4)),
            day=[DAY + dt.timedelta(days=i) for i in range(COUNT)],
            rate=[f"{i % 7},5 %" for i in range(COUNT)],
            group=["None" if i % 4 == 0 else "ab"[i % 2] for i in range(COUNT)],
        )
    )
    kinds = {name: feature.kind for name, feature in config.features.items()}
    assert kinds == {
        "money": "numeric",
        "grade": "ordinal",
        "color": "categorical",
        "rate": "numeric",
        "group": "categorical",
        "n": "integer",
    }
    assert config.features["grade"].order == ["low", "mid", "high"]
    assert config.decimal == ","
    assert config.missing_words is None  # None is a category of these files until one says other
    assert "review group: None in 10 rows is kept as a category" in "\n".join(made.notes)
    assert "left out day: dates; turn them into numbers of days or months" in made.notes
    assert load_table(config).frame["rate"].iloc[1] == 1.5


def test_an_index_with_a_name_is_a_column(path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 9], name="age"))
    frame.to_parquet(path)
    assert read_parquet(path, []).frame.to_dict("list") == {"age": [7, 9], "a": [1, 2]}
    frame.rename_axis(None).to_parquet(path)
    assert read_parquet(path, []).frame.to_dict("list") == {"a": [1, 2]}


def test_what_is_no_sound_file_is_one_line(path: Path) -> None:
    good = write(path).read_bytes()
    for content in (b"", b"a,b\n1,2\n", good[:-9], good[: len(good) // 2], b"PAR1" * 3):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"t\.parquet cannot be read as parquet: ") as caught:
            read_parquet(path, [])
        assert str(caught.value).isprintable()
    for tables, words in (
        (pa.table([[1], [2]], names=["a", "a"]), "names column 'a' twice"),
        (pa.table([[1], [2]], names=["a", " a"]), "names column 'a' twice"),
        (pa.table([[1], [2]], names=["a", " "]), "column 2 has no name"),
        (pa.table({"a": pa.array([], pa.int64())}), "has no rows"),
        (pa.table({"a": [[1]]}), "has no columns to use"),
    ):
        pq.write_table(tables, path)
        with pytest.raises(UserError, match=words):
            read_parquet(path, [])
