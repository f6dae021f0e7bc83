"""cfq-bench: does algorithmic recourse survive quantization?

The public Python API is one function and what it returns::

    from cfq_bench import load_settings, run

    record = run(load_settings(method="cfq", data="compas"))
    print(record.metrics["recourse/boundary_error"])

Both names are resolved on first use, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Record", "__version__", "load_settings", "run"]

if TYPE_CHECKING:
    from cfq_bench.config.loader import load_settings
    from cfq_bench.experiment import run
    from cfq_bench.record.record import Record


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "run":
        from cfq_bench.experiment import run

        return run
    if name == "load_settings":
        from cfq_bench.config.loader import load_settings

        return load_settings
    if name == "Record":
        from cfq_bench.record.record import Record

        return Record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
