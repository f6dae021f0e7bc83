"""Data flow one way: a layer imports only layers above it in this list."""

import ast
from pathlib import Path

import pytest

import cfq_bench
from tests.support.waiting import run_python

PACKAGE = Path(cfq_bench.__file__).parent
LAYERS = [
    "text",
    "errors",
    "seeds",
    "processes",
    "files",
    "config",
    "cache",
    "codebase",
    "data",
    "backbones",
    "training",
    "autoencoder",
    "quantization",
    "actions",
    "certificates",
    "teacher",
    "methods",
    "evaluation",
    "record",
    "tracking",
    "statistics",
    "results",
    "aggregate",
    "figures",
    "report",
    "dashboard",
    "experiment",
    "suites",
    "sweeps",
    "advice",
    "cli",
    "__main__",
]


def imported_layers(path: Path) -> set[str]:
    """Layers of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "cfq_bench" and len(parts) > 1 and parts[1] in LAYERS:
                found.add(parts[1])
    return found


def test_every_part_of_the_package_is_a_layer() -> None:
    parts = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert parts - {"__init__"} == set(LAYERS)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if layer == "__init__":
        return
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    assert imported_layers(path) <= allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import cfq_bench",
        "from cfq_bench.cli.main import main",
        "from cfq_bench.config.loader import load_settings; load_settings('cfq', 'compas')",
        "from cfq_bench.sweeps.settings import load_sweep",
        "import cfq_bench.cli.listing as l; l.listing(None, None)",
        "from cfq_bench.cli.suite import expand, load_suite; expand(load_suite('smoke'))",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(statement: str) -> None:
    heavy = {"torch", "lightning", "wandb", "pandas", "scipy", "optuna", "matplotlib"}
    check = f"{statement}\nimport sys; print(sorted({heavy} & set(sys.modules)))"
    assert run_python(check).strip() == "[]"
