"""What the package says of itself: its libraries are declared, its version is a release's."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from cfq_bench import __version__

ROOT = Path(__file__).parents[1]
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d{2}-\d{2}\)$", re.MULTILINE)


@cache
def project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return content


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports, wherever in it; imports for types alone are not run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_every_library_that_is_imported_is_declared() -> None:
    extras = project()["optional-dependencies"]
    lines = [*project()["dependencies"], *(line for extra in extras.values() for line in extra)]
    declared = {re.split(r"[\[<>=!~ ;]", line)[0].lower().replace("_", "-") for line in lines}
    homes = metadata.packages_distributions()
    missing = {}
    for path in (ROOT / "cfq_bench").rglob("*.py"):
        for name in imported(path) - sys.stdlib_module_names - {"cfq_bench"}:
            dists = {dist.lower().replace("_", "-") for dist in homes.get(name, [name])}
            if not dists & declared:
                missing[name] = str(path.relative_to(ROOT))
    assert missing == {}


def test_the_version_is_that_of_the_newest_release_or_is_on_its_way_to_the_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = RELEASE.findall(text)
    ordered = [tuple(map(int, release.split("."))) for release in releases]
    assert ordered == sorted(set(ordered), reverse=True)
    release, dot, rest = __version__.partition(".dev")
    if dot == "":
        assert __version__ == releases[0]
        assert "## Unreleased" not in text
    else:
        assert tuple(map(int, release.split("."))) > ordered[0]
        assert rest.isdigit()
        assert "## Unreleased" in text
