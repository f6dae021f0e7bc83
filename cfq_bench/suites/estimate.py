"""How long runs take: measured where records of such runs exist, else from a small table."""

from collections.abc import Iterable

from cfq_bench.config.loader import packaged_conf_dir
from cfq_bench.config.suite import SuiteRun
from cfq_bench.config.yaml import read_yaml
from cfq_bench.record.store import RecordStore

_Key = tuple[str, ...]


class Estimates:
    """Seconds of runs.

    Args:
        store: records whose seconds count as measured.
    """

    def __init__(self, store: RecordStore) -> None:
        self._table = read_yaml(packaged_conf_dir() / "seconds.yaml")
        self._store = store
        self._measured: dict[_Key, float] | None = None

    def of(self, run: SuiteRun) -> float:
        """Seconds of one run whose teacher is in the cache."""
        measured = self._means().get(_key(run))
        if measured is not None:
            return measured
        return self._entry("data", run.settings.data.name) * self._entry(
            "method", run.settings.method.name
        )

    def is_measured(self, run: SuiteRun) -> bool:
        """Whether `of` is the mean of records."""
        return _key(run) in self._means()

    def all(self, runs: Iterable[SuiteRun]) -> float:
        """Seconds of runs on one core, their teachers included where nothing was measured."""
        every = list(runs)
        total = sum(self.of(run) for run in every)
        guessed = [run for run in every if not self.is_measured(run)]
        firsts = {
            (r.settings.data.name, r.settings.backbone.name, r.settings.seed) for r in guessed
        }
        return total + sum(self._entry("first", data) for data, _, _ in firsts)

    def _means(self) -> dict[_Key, float]:
        if self._measured is None:
            seconds: dict[_Key, list[float]] = {}
            for record in self._store.all():
                if record.status == "ok":
                    config = record.config
                    names = (config[part]["name"] for part in ("data", "backbone", "method"))
                    seconds.setdefault(tuple(names), []).append(record.seconds)
            self._measured = {key: sum(v) / len(v) for key, v in seconds.items()}
        return self._measured

    def _entry(self, table: str, name: str) -> float:
        return float(self._table[table].get(name, self._table["other"][table]))


def _key(run: SuiteRun) -> _Key:
    settings = run.settings
    return (settings.data.name, settings.backbone.name, settings.method.name)
