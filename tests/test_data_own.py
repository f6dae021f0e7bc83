"""Tables of one's own: missing values, unseen categories, formats, and awkward sizes."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import DataSettings
from cfq_bench.data.dataset import load_data
from cfq_bench.data.table import load_table
from cfq_bench.errors import UserError

FEATURES: dict[str, Any] = {
    "age": {"kind": "integer"},
    "income": {"kind": "numeric"},
    "level": {"kind": "ordinal", "order": ["1", "2", "3"]},
    "color": {"kind": "categorical"},
}


def frame_of(count: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, count),
            "income": rng.normal(30.0, 8.0, count).round(3),
            "level": rng.integers(1, 4, count),
            "color": [["blue", "green", "red"][i % 3] for i in range(count)],
            "good": np.arange(count) % 2,
        }
    )


def own(path: Path, frame: pd.DataFrame, **changes: Any) -> DataSettings:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    raw: dict[str, Any] = {
        "name": "own",
        "loader": str(path),
        "target": {"column": "good", "favourable": 1},
        "features": FEATURES,
        "protected": ["color"],
        "split": {"train": 40, "validation": 0.25},
        "fit": {"batch_size": 8, "teacher_epochs": 1, "epochs": 1, "weight_decay": 0.0},
        "actions": "none",
    }
    return DataSettings.model_validate({**raw, **changes})


def holes(frame: pd.DataFrame, rows: dict[str, int]) -> pd.DataFrame:
    frame = frame.copy()
    for column, row in rows.items():
        frame[column] = frame[column].astype(object)
        frame.loc[row, column] = None
    return frame


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "own.csv"


# --- missing values ---

HOLES = {"age": 3, "income": 4, "level": 5, "color": 7}


def test_missing_values_are_refused_unless_the_user_says_otherwise(csv: Path) -> None:
    words = "column 'age' has 1 missing values, the first in row 3: .*drop or impute"
    with pytest.raises(UserError, match=words):
        load_table(own(csv, holes(frame_of(), HOLES)))


def test_rows_with_missing_values_are_dropped(csv: Path) -> None:
    table = load_table(own(csv, holes(frame_of(), {**HOLES, "good": 9}), missing="drop"))
    assert sorted(set(range(60)) - set(table.frame.index)) == [3, 4, 5, 7, 9]
    data = load_data(own(csv, holes(frame_of(), HOLES), missing="drop"), 0)
    assert len(data.train) + len(data.validation) + len(data.test) == 56
    with pytest.raises(UserError, match="every row has a missing value"):
        load_table(own(csv, frame_of().assign(income=None), missing="drop"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_missing_values_are_imputed_from_the_train_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"own.{suffix}"
    frame = frame_of()
    train = load_data(own(path, frame), 0).train.row_ids
    empty = {column: [int(train[i]), 0 if i else 1] for i, column in enumerate(HOLES)}
    broken = frame.astype(object) if suffix == "csv" else frame.convert_dtypes()
    for column, rows in empty.items():
        broken.loc[rows, column] = None
    data = load_data(own(path, broken, missing="impute"), 0)
    everyone = torch.cat([data.train.x, data.validation.x, data.test.x])
    ids = np.concatenate([data.train.row_ids, data.validation.row_ids, data.test.row_ids])
    assert sorted(ids) == list(range(60))
    decoded = data.schema.decode(everyone).set_index(ids)
    known = {c: frame[c].loc[[r for r in train if r not in empty[c]]] for c in empty}
    expected = {
        "age": round(known["age"].median()),
        "income": pytest.approx(known["income"].median(), abs=1e-4),
        "level": str(known["level"].mode()[0]),
        "color": known["color"].mode()[0],
    }
    for column, rows in empty.items():
        for row in rows:
            assert decoded[column][row] == expected[column]
        others = [r for r in ids if r not in rows]
        if column != "income":
            assert decoded[column][others].astype(str).equals(frame[column][others].astype(str))


def test_test_rows_do_not_move_what_is_imputed(csv: Path) -> None:
    before = load_data(own(csv, holes(frame_of(), HOLES), missing="impute"), 0)
    other = frame_of()
    other.loc[before.test.row_ids, ["age", "income", "level"]] = [79, 99.0, 3]
    after = load_data(own(csv, holes(other, HOLES), missing="impute"), 0)
    assert torch.equal(before.train.x, after.train.x)


def test_nobody_gets_an_imputed_group(csv: Path) -> None:
    row = int(load_data(own(csv, frame_of()), 0).test.row_ids[2])
    data = load_data(own(csv, holes(frame_of(), {"color": row}), missing="impute"), 0)
    assert data.test_groups["color"][2] == "missing"


def test_what_cannot_be_imputed_is_named(csv: Path) -> None:
    with pytest.raises(UserError, match=r"column 'good' .*row 8: .*a label cannot be imputed"):
        load_table(own(csv, holes(frame_of(), {"good": 8}), missing="impute"))
    with pytest.raises(UserError, match="column 'income' has no value in the train split"):
        load_data(own(csv, frame_of().assign(income=None), missing="impute"), 0)
    frame = holes(frame_of(), {"age": 2})
    frame.loc[5, "age"] = "old"
    with pytest.raises(UserError, match="column 'age', row 5: expected a number, got 'old'"):
        load_table(own(csv, frame, missing="impute"))


# --- unseen categories ---


def test_an_unseen_category_is_refused_or_none_of_the_known(csv: Path) -> None:
    row = int(load_data(own(csv, frame_of()), 0).test.row_ids[2])
    frame = frame_of()
    frame.loc[row, "color"] = "mauve"
    with pytest.raises(UserError, match=rf"'color', row {row}: unknown category 'mauve'.*unseen"):
        load_data(own(csv, frame), 0)
    config = own(csv, frame, unseen="ignore")
    data = load_data(config, 0)
    assert data.test.x[2, -3:].tolist() == [0.0, 0.0, 0.0]
    assert (data.test.x[:, -3:].sum(1) == 1).sum() == len(data.test) - 1
    assert data.schema.decode(data.test.x)["color"].isna().tolist().count(True) == 1
    assert data.test_groups["color"][2] == "mauve"
    free = actions_for(config)
    space = ActionSet(data.schema, free, data.train.x)
    assert torch.equal(space.project(data.test.x, data.test.x), data.test.x)
    point = space.project(data.test.x, torch.randn_like(data.test.x))
    assert not space.violations(data.test.x, point).any()


def actions_for(config: DataSettings) -> ActionSettings:
    return ActionSettings.model_validate(
        {
            "name": "free",
            "max_features": None,
            "bounds": {"low": 0.0, "high": 1.0},
            "gamma": 1.0,
            "grid": True,
            "cost": "weighted_l1",
            "features": dict.fromkeys(config.features, "any"),
        }
    )


# --- formats ---


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    one = load_data(own(tmp_path / "own.csv", frame_of()), 0)
    other = load_data(own(tmp_path / "own.parquet", frame_of()), 0)
    assert one.fingerprint == other.fingerprint
    broken = tmp_path / "broken.parquet"
    config = own(broken, frame_of())
    broken.write_bytes(broken.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"broken\.parquet cannot be read as parquet") as caught:
        load_table(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_seen_in_the_header(csv: Path, separator: str) -> None:
    config = own(csv, frame_of())
    expected = load_data(config, 0).fingerprint
    frame_of().to_csv(csv, index=False, sep=separator)
    assert load_data(config, 0).fingerprint == expected


def test_a_date_is_no_number(tmp_path: Path) -> None:
    frame = frame_of().assign(age=pd.date_range("2020-01-01", periods=60))
    with pytest.raises(UserError, match="column 'age', row 0: expected a number, got Timestamp"):
        load_table(own(tmp_path / "own.parquet", frame))


def test_a_file_of_ones_own_stands_beside_its_yaml(tmp_path: Path) -> None:
    for name in ("own.parquet", "OWN.CSV"):
        config = own(tmp_path / name, frame_of())
        raw = config.model_dump(mode="json") | {"loader": name, "actions": "a.yaml"}
        del raw["name"]
        (tmp_path / "own.yaml").write_text(pd.Series(raw).to_json())  # JSON is YAML
        (tmp_path / "a.yaml").write_text(actions_for(config).model_dump_json(exclude={"name"}))
        found = load_settings(data=str(tmp_path / "own.yaml")).data
        assert load_data(found, 0).fingerprint == load_data(config, 0).fingerprint


# --- sizes and shapes ---


def test_codes_too_large_for_whole_numbers_are_categories(csv: Path) -> None:
    codes = np.where(np.arange(60) % 3, 1e300, np.inf)
    config = own(csv, frame_of().assign(color=codes), missing="drop")
    assert load_data(config, 0).schema.features[-1].categories == ("1e+300", "inf")


def test_a_constant_column_and_a_single_category_do_no_harm(csv: Path) -> None:
    config = own(csv, frame_of().assign(income=4.0, color="red"))
    data = load_data(config, 0)
    assert data.schema.features[1].scale_source == "one"
    assert data.schema.width == 4
    space = ActionSet(data.schema, actions_for(config), data.train.x)
    point = space.project(data.test.x, torch.randn(len(data.test), 4))
    assert torch.equal(point[:, 1], data.test.x[:, 1])
    assert not space.violations(data.test.x, point).any()


def test_a_thousand_categories(csv: Path) -> None:
    frame = frame_of(4000).assign(color=[f"c{i % 1000}" for i in range(4000)])
    config = own(csv, frame, split={"train": 3000, "validation": 0.1}, unseen="ignore")
    data = load_data(config, 0)
    assert 990 <= data.schema.width - 3 <= 1000
    space = ActionSet(data.schema, actions_for(config), data.train.x)
    point = space.project(data.test.x, torch.randn(len(data.test), data.schema.width))
    assert not space.violations(data.test.x, point).any()
    rare = own(csv, frame.assign(color=[f"c{i}" for i in range(4000)]))
    with pytest.raises(UserError, match=r"unknown category.*\(30 in all\)"):
        load_data(rare, 0)  # 40 train rows, 10 of them for validation


def test_two_hundred_columns(csv: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {f"n{i}": rng.normal(size=300).round(3) for i in range(120)}
    columns |= {f"c{i}": rng.choice(["a", "b", "c"], 300) for i in range(80)}
    frame = pd.DataFrame(columns).assign(good=np.arange(300) % 2)
    kinds = {n: {"kind": "numeric" if n[0] == "n" else "categorical"} for n in columns}
    config = own(csv, frame, features=kinds, protected=[], split={"train": 200, "validation": 0.2})
    data = load_data(config, 0)
    assert data.schema.width == 120 + 240
    with pytest.raises(UserError, match=r"column 'x' is missing.*\(201 in all\)") as caught:
        load_table(own(csv, frame, features={"x": {"kind": "numeric"}}, protected=[]))
    assert len(str(caught.value)) < 400


@pytest.mark.slow
def test_many_rows(tmp_path: Path) -> None:
    count = 200_000
    many = {f"n{i}": np.arange(count) % (7 + i) for i in range(17)}  # 17 columns: 3 million values
    frame = pd.DataFrame({**many, "color": np.array(["a", "b", "c"])[np.arange(count) % 3]})
    kinds = {name: {"kind": "integer"} for name in many} | {"color": {"kind": "categorical"}}
    config = own(
        tmp_path / "own.parquet",
        frame.assign(good=np.arange(count) % 2),
        features=kinds,
        split={"train": 199_000, "validation": 0.01},
    )
    start = time.perf_counter()
    data = load_data(config, 0)
    space = ActionSet(data.schema, actions_for(config), data.train.x)
    assert time.perf_counter() - start < 30
    assert space.high.shape == (17,)
    assert len(data.train) == 197_010
