"""cfq-bench: does algorithmic recourse survive quantization?

The public Python API is one function for a run, one for a suite, and what they return::

    from cfq_bench import load_settings, run

    record = run(load_settings(method="cfq", data="compas"))
    print(record.metrics["recourse/boundary_error"])

    run_suite(expand(load_suite("table1")), SuiteOptions(workers=2))

The names are resolved on first use, so that importing the package costs nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "Record",
    "SuiteOptions",
    "__version__",
    "expand",
    "load_settings",
    "load_suite",
    "run",
    "run_suite",
]

if TYPE_CHECKING:
    from cfq_bench.config.loader import load_settings
    from cfq_bench.config.suite import expand, load_suite
    from cfq_bench.experiment import run
    from cfq_bench.record.record import Record
    from cfq_bench.suites.run import SuiteOptions, run_suite

_HOMES = {
    "run": "cfq_bench.experiment",
    "load_settings": "cfq_bench.config.loader",
    "Record": "cfq_bench.record.record",
    "load_suite": "cfq_bench.config.suite",
    "expand": "cfq_bench.config.suite",
    "run_suite": "cfq_bench.suites.run",
    "SuiteOptions": "cfq_bench.suites.run",
}


# Before torch is imported: large tensors in large pages, where Linux gives them on request. Fresh
# memory in small pages costs more than what is computed in it (36 MB: 23 ms instead of 5).
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
