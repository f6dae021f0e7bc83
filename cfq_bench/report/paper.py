"""The numbers that the paper prints, to be set beside ours; nothing is computed from them."""

import csv
from dataclasses import dataclass
from pathlib import Path

from cfq_bench.errors import UserError

_FILE = Path(__file__).with_name("paper_tables.csv")


@dataclass(frozen=True)
class PaperValue:
    """One cell of one of the paper's tables.

    Attributes:
        table: its number.
        dataset: as `conf/data` names it; empty where the cell is of none.
        backbone: the same for the network.
        setting: what else tells rows apart, as ``key=value;key=value``.
        method: the row.
        metric: the column.
        mean: as printed.
        std: as printed; None where the paper has no spread.
        rounding: half a unit of the last digit of the mean, as printed.
    """

    table: int
    dataset: str
    backbone: str
    setting: str
    method: str
    metric: str
    mean: float
    std: float | None
    rounding: float


def paper_table(number: int) -> list[PaperValue]:
    """The cells of one table, in the paper's order.

    Raises:
        UserError: no numbers are kept of this table.

    >>> paper_table(13)[0].mean
    0.925
    """
    with _FILE.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["table"] == str(number)]
    if not lines:
        raise UserError(f"no numbers of the paper's Table {number} are kept: see {_FILE.name}")
    return [_value(line) for line in lines]


def _value(line: dict[str, str]) -> PaperValue:
    return PaperValue(
        table=int(line["table"]),
        dataset=line["dataset"],
        backbone=line["backbone"],
        setting=line["setting"],
        method=line["method"],
        metric=line["metric"],
        mean=float(line["mean"]),
        std=float(line["std"]) if line["std"] else None,
        rounding=0.5 * 10.0 ** -len(line["mean"].partition(".")[2]),
    )
