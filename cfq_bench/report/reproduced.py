"""How runs that were run again agree with their records: one comparison, stored and read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from cfq_bench.aggregate.numbers import format_metric
from cfq_bench.errors import UserError
from cfq_bench.files import explain, write_atomic
from cfq_bench.record.identity import version_of
from cfq_bench.record.record import Record

REPRODUCED = "reproduced.json"
"""Beside an archive of records."""

SPREADS = 2.0
"""Standard deviations over seeds within which a metric agrees: two other seeds differ by less in
about 84 of 100 cases."""

Agreement = Literal["equal", "printed", "within", "beyond"]
"""To the last bit; to the digits that tables print; within the spread over seeds; beyond it."""


class Difference(BaseModel):
    """One metric that is not equal to the last bit.

    Attributes:
        before, after: the record's value and the new one; None where it is undefined.
        spread: standard deviation over the seeds of the record's row; None for a single seed.
        agreement: how far apart they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    before: float | None
    after: float | None
    spread: float | None
    agreement: Agreement


class Again(BaseModel):
    """A record beside the run of its settings here.

    Attributes:
        run_id: the run.
        what: method, data set, bits and seed in words.
        before, after: the status of both, with the reason where one is not ok.
        metrics: how many were compared; times never are.
        differences: by metric, those that are not equal to the last bit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    what: str
    before: str
    after: str
    metrics: int
    differences: dict[str, Difference]

    def count(self, agreement: Agreement) -> int:
        """How many metrics agree just so far."""
        if agreement == "equal":
            return self.metrics - len(self.differences)
        return sum(one.agreement == agreement for one in self.differences.values())

    @property
    def agrees(self) -> bool:
        """Whether the run ended alike, with every metric within the spread."""
        return self.before == self.after and self.count("beyond") == 0


class Reproduced(BaseModel):
    """Some of an archive's records, run again on one machine.

    Attributes:
        of: how many records there were to choose from.
        runs: those that were run again.
        made_by: the version that ran them.
        machine: its processor, instructions and arithmetic libraries.
        original: the same of the records, each different one once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: int
    runs: list[Again]
    made_by: str
    machine: str
    original: list[str]

    @property
    def agrees(self) -> bool:
        """Whether all of them do."""
        return all(run.agrees for run in self.runs)

    def sentence(self) -> str:
        """The whole in one line, for a report."""
        metrics = sum(run.metrics for run in self.runs)
        equal, printed, within, beyond = (
            sum(run.count(one) for run in self.runs)
            for one in ("equal", "printed", "within", "beyond")
        )
        return (
            f"Run again elsewhere: {len(self.runs)} of {self.of} records by {self.made_by} on "
            f"{self.machine}; of {metrics} metrics {equal} are equal to the last bit, {printed} "
            f"more to the printed digits, {within} within {SPREADS:g} standard deviations over "
            f"seeds, {beyond} beyond."
        )

    def write(self, path: Path) -> None:
        """Store it; the same comparison gives the same bytes."""
        text = json.dumps(self.model_dump(), indent=1, sort_keys=True, allow_nan=False)
        write_atomic(path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read what `write` stored; None where there is nothing.

        Raises:
            UserError: the file is damaged, or something else.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain(f"read {path}", error) from error
        except ValidationError as error:
            why = error.errors()[0]["msg"]
            raise UserError(
                f"{path} is nothing that `cfq-bench reproduce --write` wrote ({why}): delete it"
            ) from error


def compare(before: Record, after: Record, row: Sequence[Record]) -> Again:
    """A record beside the run of its settings here.

    Args:
        before: the record.
        after: the new one.
        row: the records of all seeds of the same settings, `before` among them.
    """
    keys = [key for key in {**before.metrics, **after.metrics} if not key.startswith("time/")]
    differences = {}
    for key in sorted(keys):
        old, new = before.metrics.get(key), after.metrics.get(key)
        if old != new:
            spread = _spread([record.metrics.get(key) for record in row])
            agreement = _agreement(key, old, new, spread)
            differences[key] = Difference(before=old, after=new, spread=spread, agreement=agreement)
    config = before.config
    what = (
        f"{config['method']['name']} on {config['data']['name']}, "
        f"{config['budget']['avg_bits']:g} bits, seed {config['seed']}"
    )
    ended = [
        one.status if one.reason is None else f"{one.status}: {one.reason}"
        for one in (before, after)
    ]
    return Again(
        run_id=before.run_id,
        what=what,
        before=ended[0],
        after=ended[1],
        metrics=len(keys),
        differences=differences,
    )


def row_of(record: Record, records: Sequence[Record]) -> list[Record]:
    """The records that differ from one in the seed alone, itself included."""
    mine = _without_seed(record)
    return [one for one in records if one.status == "ok" and _without_seed(one) == mine]


def gather(
    before: Sequence[Record], after: Sequence[Record], known: Sequence[Record]
) -> Reproduced:
    """All comparisons of one call; `known` are the records that `before` were chosen from."""
    pairs = zip(before, after, strict=True)
    return Reproduced(
        of=len(known),
        runs=[compare(old, new, row_of(old, known)) for old, new in pairs],
        made_by=", ".join(sorted({version_of(record.provenance) for record in after})),
        machine=", ".join(sorted({machine_of(record.provenance) for record in after})),
        original=sorted({machine_of(record.provenance) for record in before}),
    )


def machine_of(provenance: Mapping[str, Any]) -> str:
    """The processor, what is used of it, and the libraries that compute, in words."""
    arithmetic: Mapping[str, Any] = provenance.get("arithmetic") or {}
    libraries: Mapping[str, Any] = provenance.get("libraries") or {}
    cpu = provenance.get("cpu") or "a processor that was not recorded"
    used = [arithmetic.get("instructions"), arithmetic.get("blas")]
    words = [str(cpu), *(str(word) for word in used if word is not None)]
    if libraries.get("torch") is not None:
        words.append(f"torch {libraries['torch']}")
    return f"{words[0]} ({', '.join(words[1:])})" if len(words) > 1 else words[0]


def _without_seed(record: Record) -> dict[str, Any]:
    return {key: value for key, value in record.config.items() if key != "seed"}


def _spread(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return stdev(defined) if len(defined) > 1 else None


def _agreement(
    key: str, before: float | None, after: float | None, spread: float | None
) -> Agreement:
    if format_metric(key, before) == format_metric(key, after):
        return "printed"
    if before is None or after is None or spread is None:
        return "beyond"
    return "within" if abs(after - before) <= SPREADS * spread else "beyond"
