"""Text files of one's own, well and badly written: the right value, or one line that says why."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from cfq_bench.config.tablefile import TableFile
from cfq_bench.data.numbers import numbers_in
from cfq_bench.data.reading import MISSING_WORDS, Reading, read_csv, read_file
from cfq_bench.errors import UserError


def reading(path: Path, content: str | bytes, **how: Any) -> Reading:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_file(path, TableFile(**how))


def refusal(path: Path, content: str | bytes, **how: Any) -> str:
    with pytest.raises(UserError) as caught:
        reading(path, content, **how)
    message = str(caught.value)
    assert message.isprintable()
    return message.removeprefix(f"data file {path}").removeprefix(":").strip()


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "one more comma in every row": (
        "a,b\n1,2,\n3,4,\n",
        "row 0 (line 2) has 3 fields, and the header has 2: a separator too many at the end of "
        "the line",
    ),
    "row names without a name, as R writes them": (
        "a,b\nr1,1,2\nr2,3,4\n",
        "row 0 (line 2) has 3 fields, and the header has 2: a separator too many, a value with "
        "one that is not quoted, or a name too few above",
    ),
    "a field too few": (
        "a,b,c\n1,2,3\n4,5\n",
        "row 1 (line 3) has 2 fields, and the header has 3: a separator or a quote too few",
    ),
    "one field": (
        "a,b\n1,2\n3\n",
        "row 1 (line 3) has 1 field, and the header has 2: a separator or a quote too few",
    ),
    "a field too many, far down": (
        "a,b\n" + "1,2\n" * 9000 + "1,2,3\n",
        "row 9000 (line 9002) has 3 fields, and the header has 2: a separator too many, a value "
        "with one that is not quoted, or a name too few above",
    ),
    "lines are not rows": (
        'a,b\n"two\nlines",1\n\nx\n',
        "row 1 (line 5) has 1 field, and the header has 2: a separator or a quote too few",
    ),
    "a name twice": ("a,b,a\n1,2,3\n", "the header names 'a' twice, in columns 1 and 3: rename"),
    "a name twice but for a space": ("a,b,a \n1,2,3\n", "the header names 'a' twice"),
    "no name": ("a,,c\n1,2,3\n", "column 2 has no name in the header: name it, or take it out"),
    "a header alone": ("a,b\n", "has no rows"),
    "nothing": ("", "is empty"),
    "blank lines": ("\n\n \n", "is empty"),
    "separators alone": (",,\n,,\n", "is empty"),
    "the header again": ("a,b\n1,2\na, b\n3,4\n", "row 1 (line 3) repeats the header: take it out"),
    "one column": ("a b\n1 2\n", "has one column only, 'a b': a table has at least two"),
    "a title": (
        "Loans of 2020\n\na;b;c\n1;2;3\n",
        "the header has one name, 'Loans of 2020', and the line below it 3 fields: take out",
    ),
    "a quote that stays open": (
        'a,b\n"1,2\n3,4\n',
        "line 3 cannot be split into fields: the file ends within quotes",
    ),
    "words after a quote": (
        'a,b\n1,2\n"3"x,4\n',
        "line 3 cannot be split into fields: something stands between a closing quote and",
    ),
    "a NUL byte": ("a,b\n1,2\n3,\0\n", "line 3 holds a NUL byte: the file is damaged"),
    "latin-1": (
        "a,b\nJosé,2\n".encode("latin-1"),
        "is not UTF-8 (byte 0xE9 in line 2): save it as UTF-8, or write `encoding: latin-1` in",
    ),
    "cp1252": ("a,b\n€,2\n".encode("cp1252"), "or write `encoding: cp1252` in its YAML file"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8: save it as UTF-8, or write `encoding"),
    "UTF-16 without a mark": ("a,b\n1,2\n".encode("utf-16-le"), "write `encoding: utf-16-le` in"),
    "a spreadsheet": (b"PK\x03\x04\x14", "is a spreadsheet or a zip archive and no text"),
    "gzip by another name": (gzip.compress(b"a,b\n1,2\n"), "is compressed by gzip and no text"),
    "parquet by another name": (b"PAR1\x15\x04", "is parquet and no text"),
    "a field of a megabyte": (
        "a,b\n" + "x" * 200_000 + ",1\n",
        "line 2 cannot be split into fields: field larger than field limit (131072)",
    ),
    "a name over two lines, twice": ('"a\nb","a\nb"\n1,2\n', "the header names 'a\\nb' twice"),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_table_is_refused_in_one_line(
    csv: Path, content: str | bytes, words: str
) -> None:
    assert refusal(csv, content).startswith(words) or words in refusal(csv, content)


@pytest.mark.parametrize(
    ("how", "content", "words"),
    [
        ({"encoding": "utf-16"}, b"a,b\n1,2\n3", "is not text of the encoding utf-16: save"),
        ({"encoding": "ascii"}, "a,b\né,2\n", "is not text of the encoding ascii: save"),
        ({"encoding": "idna"}, "a,b\n\u00ad..,2\n", "is not text of the encoding idna: save"),
        ({"separator": ";"}, "a,b\n1,2\n", "has one column only, 'a,b'"),
        ({"separator": ","}, "a;b\n1,5;2\n", "has one column only, 'a;b'"),
    ],
)
def test_what_the_settings_say_is_obeyed(
    csv: Path, how: dict[str, str], content: str | bytes, words: str
) -> None:
    assert words in refusal(csv, content, **how)


READ: dict[str, tuple[str | bytes, dict[str, Any], dict[str, list[Any]], list[str]]] = {
    "plain": ("a,b\n1,x\n2,y\n", {}, {"a": [1, 2], "b": ["x", "y"]}, []),
    "semicolons": ("a;b\n1,5;x\n2;y\n", {}, {"a": ["1,5", "2"], "b": ["x", "y"]}, []),
    "a comma in a semicolon header": (
        'x;a, %;b\n1;2;"3"\n',
        {},
        {"x": [1], "a, %": [2], "b": [3]},
        [],
    ),
    "tabs": ("a\tb\n1\tx\n", {}, {"a": [1], "b": ["x"]}, []),
    "bars": ("a|b\n1|x\n", {}, {"a": [1], "b": ["x"]}, []),
    "carriage returns": ("a,b\r1,2\r", {}, {"a": [1], "b": [2]}, []),
    "Windows": ("\ufeffa,b\r\n1,2\r\n\r\n", {}, {"a": [1], "b": [2]}, []),
    "blank lines": ("\na,b\n1,2\n\n  \n3,4", {}, {"a": [1, 3], "b": [2, 4]}, []),
    "a hint for spreadsheets": ("sep=;\r\na;b\r\n1;2\r\n", {}, {"a": [1], "b": [2]}, []),
    "no last line feed": ("a,b\n1,2", {}, {"a": [1], "b": [2]}, []),
    "quotes": ('a,b\n"1, ""2""",x\n', {}, {"a": ['1, "2"'], "b": ["x"]}, []),
    "a quote inside": ('a,b\n5" pipe,x\n', {}, {"a": ['5" pipe'], "b": ["x"]}, []),
    "spaces": (
        "a , b\n 1, x y \n2,z\n",
        {},
        {"a": [1, 2], "b": ["x y", "z"]},
        ["spaces around 2 column names and 2 values (a, b) are taken off"],
    ),
    "spaces before quotes": (
        'a,b\n1, "x, y"\n',
        {},
        {"a": [1], "b": ["x, y"]},
        ["spaces before quotes are taken off"],
    ),
    "row numbers": (
        ",a\n0,5\n1,6\n",
        {},
        {"Unnamed: 0": [0, 1], "a": [5, 6]},
        ["the first column has no name and is called 'Unnamed: 0'"],
    ),
    "a comma more in the header too": (
        "a,b,\n1,2,\n",
        {},
        {"a": [1], "b": [2]},
        ["column 3 has neither a name nor values: left out"],
    ),
    "no header": (
        "1,2\n3,4\n",
        {},
        {"1": [3], "2": [4]},
        ["all column names are numbers: is the first line a row?"],
    ),
    "leading zeros": (
        "zip,n\n01234,0\n98765,0.5\n",
        {},
        {"zip": ["01234", "98765"], "n": [0, 0.5]},
        [],
    ),
    "too many digits": ("a,b\n" + "9" * 400 + ",1\n", {}, {"a": ["9" * 400], "b": [1]}, []),
    "latin-1": (
        "a,b\nJosé,2\n".encode("latin-1"),
        {"encoding": "latin-1"},
        {"a": ["José"], "b": [2]},
        [],
    ),
    "UTF-16": ("a,b\né,2\n".encode("utf-16"), {"encoding": "utf-16"}, {"a": ["é"], "b": [2]}, []),
    "decimal comma": (
        "a;b\n1,5;1.5\n,5;2\n",
        {"decimal": ","},
        {"a": [1.5, 0.5], "b": ["1.5", "2"]},
        [],
    ),
    "words that are missing": (
        "a,b\n1,NA\n,x\n",
        {},
        {"a": [1.0, np.nan], "b": [np.nan, "x"]},
        [],
    ),
    "words that are none": (
        "a,b\n1,NA\nnan,x\n",
        {"missing_words": []},
        {"a": ["1", "nan"], "b": ["NA", "x"]},
        [],
    ),
    "words of one's own": (
        "a,b\n1,?\n?,NA\n",
        {"missing_words": ["?"]},
        {"a": [1.0, np.nan], "b": [np.nan, "NA"]},
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "how", "values", "notes"), READ.values(), ids=list(READ))
def test_a_text_file_is_read_as_it_is_written(
    csv: Path,
    content: str | bytes,
    how: dict[str, Any],
    values: dict[str, list[Any]],
    notes: list[str],
) -> None:
    found = reading(csv, content, **how)
    assert_frame_equal(found.frame, pd.DataFrame(values))
    assert found.notes == notes


def test_a_plain_file_is_what_pandas_reads(csv: Path) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["x", "y", "", "NA", "a,b", "None"])
    frame = pd.DataFrame(
        {
            "float": rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500),
            "rounded": rng.normal(size=500).round(3),
            "large": 2**60 + np.arange(500),
            "unsigned": np.uint64(2**63) + np.arange(500, dtype=np.uint64),
            "gaps": np.where(rng.random(500) < 0.2, np.nan, rng.integers(-9, 9, 500)),
            "words": rng.choice(words, 500),
            "bool": rng.random(500) < 0.5,
            "bool with gaps": rng.choice(np.array(["True", "FALSE", ""]), 500),
            "mixed": rng.choice(np.array(["1", "2.5", "x"]), 500),
            "infinite": rng.choice(np.array(["1", "inf", "-inf", "1e400"]), 500),
            "empty": "",
            "zip": rng.integers(10_000, 99_999, 500),
        }
    )
    frame.to_csv(csv, index=False)
    found = read_file(csv, TableFile())
    assert_frame_equal(found.frame, pd.read_csv(csv, low_memory=False), check_exact=True)
    assert found.notes == []


def test_the_words_that_are_missing_by_default_are_those_of_pandas(csv: Path) -> None:
    words = ["", *MISSING_WORDS, "none", "na", "-", "?", "N.A.", "Null", "nil"]
    csv.write_text("a,b\n" + "".join(f"{word},x\n" for word in words))
    assert pd.read_csv(csv)["a"].isna().tolist() == [word in ["", *MISSING_WORDS] for word in words]
    assert read_file(csv, TableFile()).frame["a"].isna().sum() == 1 + len(MISSING_WORDS)


@pytest.mark.parametrize(
    ("how", "values"),
    [
        (
            {},
            {"1,234": 1234, "1,234,567.5": 1234567.5, "-$1,200": -1200, "$-7": -7, "13.5 %": 13.5,
             "€5": 5, "5 EUR": 5, "1e3": 1000, ".5": 0.5, "5.": 5, "−3": -3, "007": 7,
             "1,5": None, "1,23": None, "0,123": None, "12,34,567": None, "(300)": None,
             "1 234": None, "1.234.567": None, "--5": None, "$": None, "٣": None, "5%%": None},
        ),
        (
            {"decimal": ","},
            {"1,5": 1.5, ",5": 0.5, "1200": 1200, "1,234": 1.234, "-1,5e2": -150,
             "1.5": None, "1.234": None, "1.234,5": None},
        ),
        (
            {"decimal": ",", "thousands": "."},
            {"1.234": 1234, "1.234,5": 1234.5, "1.234.567": 1234567, "1,5 %": 1.5,
             "€ 1.200,50": 1200.5, "1.5": None, "1,234.5": None, "12.34": None},
        ),
        (
            {"decimal": ",", "thousands": " "},
            {"1 234,5": 1234.5, "1\u202f234": 1234, "1\u00a0234": 1234, "1 23": None, "1.5": None},
        ),
        (
            {"thousands": "'"},
            {"1'234.50": 1234.5, "1’234": 1234, "1,234": None},
        ),
        (
            {"negative_brackets": True},
            {"(300)": -300, "($1,200.50)": -1200.5, "( 5 )": -5, "(3%)": -3, "300": 300,
             "(300": None, "300)": None, "(-300)": None, "()": None},
        ),
    ],
)  # fmt: skip
def test_numbers_are_read_by_the_lines_of_the_settings(
    how: dict[str, Any], values: dict[str, float | None]
) -> None:
    found = numbers_in(pd.Series(list(values)), TableFile(**how))
    expected = [np.nan if value is None else float(value) for value in values.values()]
    assert dict(zip(values, found, strict=True)) == pytest.approx(
        dict(zip(values, expected, strict=True)), nan_ok=True
    )


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip"])
@pytest.mark.parametrize("kind", ["csv", "TSV", "txt", "tab"])
def test_compressed_files_and_other_names(tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"t.{kind}{suffix}"
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_csv(path, index=False, sep="\t")
    assert_frame_equal(read_file(path, TableFile()).frame, frame)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"t\..* cannot be read as CSV: "):
        read_file(path, TableFile())


def test_a_published_file_with_rows_wider_than_its_header(csv: Path) -> None:
    csv.write_text("a,b\n1,2,\n3,4,\n")  # nothing is lost with the last field
    assert read_csv(csv).to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    csv.write_text("a,b\n1,2,5\n3,4,5\n")
    with pytest.raises(UserError, match="its rows have more fields than the header has names"):
        read_csv(csv)
