"""How fast the package is, measured against limits: ``python -m benchmarks``."""
