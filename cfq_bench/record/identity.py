"""What a record was made by, and whether this code and these data would make it again.

A run's id is the hash of its settings: it names the cell of a table, and the file. A record is an
answer only for the code and the data that it was made by; any other is stale.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cfq_bench.codebase import plugins_of, run_code
from cfq_bench.data.prints import changed_file, data_prints
from cfq_bench.data.sources import named_data_dir
from cfq_bench.errors import UserError
from cfq_bench.record.record import MadeBy, Record
from cfq_bench.record.store import RecordStore

EDITED = "edited while it ran"
"""In place of the code, where nobody can say which lines were at work."""
ACCEPT = "--accept-stale takes it"


def begin(config: Mapping[str, Any]) -> str:
    """The code that is about to compute a run; give it to `made_by` when the run is over."""
    return run_code(config, loaded=True)


def made_by(config: Mapping[str, Any], code: str, data_dir: Path | None) -> MadeBy:
    """What made a run that is over.

    Args:
        config: the run's whole resolved settings.
        code: from `begin`.
        data_dir: the folder of raw files that it read.
    """
    same = code == run_code(config)
    return MadeBy(
        code=code if same else EDITED,
        data=data_prints(config["data"]["loader"], named_data_dir(data_dir)),
    )


def made_by_code(config: Mapping[str, Any]) -> MadeBy | None:
    """What made a run that failed before anybody knows whether it read its data.

    None: a plug-in file is not here, which may be why it failed.
    """
    try:
        return MadeBy(code=begin(config))
    except UserError:
        return None


class Judge:
    """Tells stale records from fresh ones, as code and data are when it is made.

    Two thousand records take it a fraction of a second: what is the same for many is asked once.

    Args:
        data_dir: the folder of raw files; default: ``CFQ_BENCH_DATA``. Files that are not on this
            machine are not judged.
    """

    def __init__(self, data_dir: Path | None = None) -> None:
        try:
            self._data_dir = named_data_dir(data_dir)
        except UserError:
            self._data_dir = None  # whoever reads the data says so
        self._codes: dict[tuple[str, ...], str | UserError] = {}
        self._changed: dict[tuple[tuple[str, str], ...], str | None] = {}

    def why_stale(self, record: Record) -> str | None:
        """Why a record is no answer for this code and these data, in words; None: it is one."""
        return self._why(record.config, record.made_by, record.provenance)

    def why_stale_content(self, content: Mapping[str, Any]) -> str | None:
        """As `why_stale`, of a record's file as it was read: any version's, whole or not."""
        try:
            made = MadeBy.model_validate(content.get("made_by"))
        except ValidationError:
            made = None
        return self._why(content.get("config") or {}, made, content.get("provenance") or {})

    def _why(
        self, config: Mapping[str, Any], made: MadeBy | None, provenance: Mapping[str, Any]
    ) -> str | None:
        if made is None:
            return "made by a version that did not record its code"
        if made.code == EDITED:
            return "its code was edited while it ran"
        code = self._code(tuple(plugins_of(config)))
        if isinstance(code, UserError):
            return f"made by code that is not here ({code})"
        if code != made.code:
            return f"made by other code ({version_of(provenance)})"
        changed = self._file(tuple(sorted((made.data or {}).items())))
        return None if changed is None else f"its data file {changed} has changed since"

    def stale(self, records: Iterable[Record]) -> dict[str, str]:
        """Why they are stale, by run id, for those that are."""
        reasons = ((record.run_id, self.why_stale(record)) for record in records)
        return {run_id: why for run_id, why in reasons if why is not None}

    def _code(self, plugins: tuple[str, ...]) -> str | UserError:
        if plugins not in self._codes:
            try:
                self._codes[plugins] = run_code({name: {"module": name} for name in plugins})
            except UserError as error:
                self._codes[plugins] = error
        return self._codes[plugins]

    def _file(self, prints: tuple[tuple[str, str], ...]) -> str | None:
        if prints not in self._changed:
            self._changed[prints] = changed_file(dict(prints), self._data_dir)
        return self._changed[prints]


def answering(
    store: RecordStore, config: Mapping[str, Any], data_dir: Path | None, accept_stale: bool
) -> tuple[Record | None, str | None]:
    """The record that answers for a configuration, and one line where it is stale.

    A failed record is no answer. A stale one is none either, unless it is accepted.
    """
    record = store.finished(config)
    why = None if record is None else Judge(data_dir).why_stale(record)
    if record is None or why is None:
        return record, None
    if accept_stale:
        return record, f"run {record.run_id} is stale, and taken: {why}"
    return None, f"run {record.run_id} is stale, and run again: {why} ({ACCEPT})"


def version_of(provenance: Mapping[str, Any]) -> str:
    """The package's version that made a record, and its commit where the record has one."""
    words = f"cfq-bench {provenance.get('version', 'of unknown version')}"
    commit = provenance.get("git_commit")
    if isinstance(commit, str):
        words += f" at {commit[:10]}"
    return f"{words}, with changes of its own" if provenance.get("git_dirty") else words


def stale_words(stale: Mapping[str, str], total: int) -> str | None:
    """One line on how many of some records are stale, and why; None where none is."""
    if not stale:
        return None
    reasons = sorted(set(stale.values()))
    others = len(reasons) - 1
    more = f", and {others} other reason{'s' if others > 1 else ''}" if others else ""
    return (
        f"Stale, and no answers for this code and data: {len(stale)} of {total} records "
        f"({reasons[0]}{more})."
    )
