"""In which order a suite's runs are taken, so that no worker waits for another one's teacher."""

from collections.abc import Iterable
from typing import Any

from cfq_bench.config.suite import SuiteRun
from cfq_bench.files import canonical_json

_OF_A_TEACHER = ("seed", "data", "backbone", "teacher")
_OF_A_METHOD = ("method", "allocator", "quantization", "budget", "policy", "training")


def in_order(runs: Iterable[SuiteRun]) -> list[SuiteRun]:
    """First one run of every group that shares a teacher and its actions, then the others.

    The first run of a group computes what the group has in the cache; were two of one group taken
    first, the second worker would wait for the first. First runs that share the teacher and not
    its actions (costs, regimes) are kept apart for the same reason.
    """
    groups: dict[str, list[SuiteRun]] = {}
    for run in runs:
        config = run.settings.model_dump(mode="json")
        shared = {key: value for key, value in config.items() if key not in _OF_A_METHOD}
        groups.setdefault(canonical_json(shared), []).append(run)
    turn: dict[str, int] = {}
    heads: list[tuple[int, SuiteRun]] = []
    for group in groups.values():
        teacher = canonical_json(_part(group[0], _OF_A_TEACHER))
        turn[teacher] = turn.get(teacher, -1) + 1
        heads.append((turn[teacher], group[0]))
    first = [run for _, run in sorted(heads, key=lambda head: head[0])]
    return first + [run for group in groups.values() for run in group[1:]]


def _part(run: SuiteRun, keys: tuple[str, ...]) -> dict[str, Any]:
    config = run.settings.model_dump(mode="json")
    return {key: config[key] for key in keys}
