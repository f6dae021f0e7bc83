"""The code that computes something, as one word: equal words mean that the same was computed.

For an installed release the version stands for the package. In a working tree, or a build of one
(`X.Y.dev0`), a digest does: of the modules that are reached by imports from where the computing
begins, and from the plug-in files that the settings name. A method's file is thus part of its own
runs alone, and a new method is part of no run that was there before.

The digest is of syntax trees without comments, docstrings, bare strings and positions: what
changes no result leaves it as it is, whatever the version of Python.
"""

import ast
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import cfq_bench
from cfq_bench.cache import SETTLED_S, Memo
from cfq_bench.config.plugin import source_file
from cfq_bench.config.tablefile import TABLE_FILES
from cfq_bench.errors import UserError

RUN = ("cfq_bench.experiment",)
"""Where a run's computing begins."""
PLUMBING = frozenset(
    f"cfq_bench.{name}"
    for name in (
        *("cache", "codebase", "errors", "files", "processes", "record", "text", "tracking"),
        *("config.explain", "config.loader", "config.plugin", "config.suite", "config.yaml"),
    )
)
"""What moves, stores and tells results and computes none; whoever changes it makes nothing stale.
Values of YAML files are in the settings already."""

_FORMAT = 1  # of the digest
Stamp = tuple[int, int, int]
"""Modification time in ns, size and inode of a file."""


class _Facts(NamedTuple):
    """What is to be known of a source file: the digest of its tree, and what it imports."""

    tree: str
    imports: tuple[tuple[int, str], ...]
    """(level, dotted name): level 0 is absolute, 1 the file's own folder, and so on."""


class _Place(NamedTuple):
    """A source file and what it is called in the digest."""

    name: str
    path: Path
    root: Path
    """The folder that its absolute imports may be found in."""


@dataclass
class Codebase:
    """A package in its place, and the plug-in files around it.

    Attributes:
        package: the folder of the package, resolved.
        version: what stands for it where it is an installed release.
    """

    package: Path
    version: str
    _facts: dict[Path, tuple[Stamp, _Facts]] = field(default_factory=dict, repr=False)
    _loaded: dict[Path, _Facts] = field(default_factory=dict, repr=False)
    _edges: dict[tuple[Path, str], list[_Place]] = field(default_factory=dict, repr=False)

    @property
    def is_release(self) -> bool:
        """Whether the version stands for the package: no working tree, and no build of one."""
        return not ((self.package.parent / "pyproject.toml").is_file() or "dev" in self.version)

    def identity(
        self, roots: Iterable[str], plugins: Iterable[str] = (), *, loaded: bool = False
    ) -> str:
        """The code that is reached from some modules and plug-in files.

        Args:
            roots: dotted names of the package's modules.
            plugins: dotted names, or paths of .py files, as YAML files name them.
            loaded: as this process first met each file, which is what it computes with, instead
                of as the files are now.

        Raises:
            UserError: a plug-in file is not here.
        """
        release = self.is_release
        begin = [] if release else [self._module(name) for name in roots]
        begin += self._plugins(plugins, release)
        found = list(self._closure(begin, release, loaded))
        if not found:
            return f"version {self.version}"
        lines = sorted(f"{name} {tree}" for name, tree in found)
        text = "\n".join([f"format {_FORMAT}", *lines])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"version {self.version} with files {digest}" if release else f"files {digest}"

    def _plugins(self, plugins: Iterable[str], release: bool) -> Iterator[_Place]:
        for name in sorted(set(plugins)):
            if name.partition(".")[0] == self.package.name:
                if not release:
                    yield self._module(name)
                continue
            path = source_file(name).resolve()
            if path.is_relative_to(self.package):  # named by its path
                if not release:
                    yield _Place(self._dotted(path), path, self.package.parent)
                continue
            depth = 0 if name.endswith(".py") else name.count(".")
            yield _Place(f"plug-in {path.name}", path, path.parents[depth])

    def _module(self, name: str) -> _Place:
        path = _source(self.package.parent, name)
        if path is None:
            raise UserError(f"module {name!r} does not exist: name a module or a .py file")
        return _Place(self._dotted(path), path, self.package.parent)

    def _dotted(self, path: Path) -> str:
        relative = path.relative_to(self.package.parent).with_suffix("")
        return ".".join(relative.parts).removesuffix(".__init__")

    def _closure(
        self, begin: list[_Place], release: bool, loaded: bool
    ) -> Iterator[tuple[str, str]]:
        """Name and digest of each file that is reached, the beginning included."""
        seen, todo = set[Path](), begin
        memo = Memo("code", _FORMAT)
        sources: dict[tuple[Path, str], Path | None] = {}
        while todo:
            place = todo.pop()
            if place.path in seen:
                continue
            seen.add(place.path)
            facts = self._facts_of(place.path, memo)
            if loaded:
                facts = self._loaded.setdefault(place.path, facts)
            yield place.name, facts.tree
            edges = self._edges.get((place.path, facts.tree))
            if edges is None:
                edges = list(self._imports(place, facts, release, sources))
                self._edges[place.path, facts.tree] = edges
            todo += edges
        memo.save()

    def _imports(
        self,
        place: _Place,
        facts: _Facts,
        release: bool,
        sources: dict[tuple[Path, str], Path | None],
    ) -> Iterator[_Place]:
        home, parents = self.package.parent, place.path.parents
        for level, name in facts.imports:
            if level > len(parents):
                continue  # nothing can be imported from there
            if level == 0:
                ours = name.partition(".")[0] == self.package.name
                if not ours and place.root == home:
                    continue  # a library
                base = root = home if ours else place.root
            else:
                base, root = parents[level - 1], place.root
            if release and root == home:
                continue
            path = sources.get((base, name), home)
            if path == home:  # not looked up yet
                path = sources[base, name] = _source(base, name)
            if path is None or path == self.package / "__init__.py":
                continue
            dotted = self._dotted(path) if root == home else f"beside {name}"
            if not _is_plumbing(dotted):
                yield _Place(dotted, path, root)

    def _facts_of(self, path: Path, memo: Memo) -> _Facts:
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            known = self._facts.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            source = path.read_bytes()
            settled = time.time() - stat.st_mtime > SETTLED_S
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from None
        raw = hashlib.sha256(source).hexdigest()
        facts = _stored(memo.get(raw))
        if facts is None:
            facts = _read(source)
            memo.put(raw, [facts.tree, [list(one) for one in facts.imports]])
        if settled:
            self._facts[path] = (stamp, facts)
        return facts


@cache
def codebase() -> Codebase:
    """This package."""
    return Codebase(Path(cfq_bench.__file__).resolve().parent, cfq_bench.__version__)


def plugins_of(config: Mapping[str, Any]) -> list[str]:
    """The plug-in files that settings name: every ``module`` and ``loader``, wherever it stands."""
    found = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            found += plugins_of(value)
        elif key in ("module", "loader") and isinstance(value, str):
            found += [] if value.lower().endswith(TABLE_FILES) else [value]
    return sorted(set(found))


def run_code(config: Mapping[str, Any], *, loaded: bool = False) -> str:
    """The code that computes a run with these settings; see `Codebase.identity`."""
    return codebase().identity(RUN, plugins_of(config), loaded=loaded)


def entry_code(roots: Iterable[str], *plugins: str) -> str:
    """The code of this process that computes an entry of the cache."""
    return codebase().identity(roots, plugins, loaded=True)


def tree_digest(source: bytes) -> str:
    r"""Digest of Python source that comments, docstrings and formatting leave as it is.

    >>> tree_digest(b"def f(x):\n    return x") == tree_digest(b"def f( x ): return (x)  # same")
    True
    """
    return _read(source).tree


def _read(source: bytes) -> _Facts:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # it cannot be imported either, which is told there
        return _Facts(hashlib.sha256(source).hexdigest(), ())
    digest = hashlib.sha256("".join(_tokens(tree)).encode("utf-8", "surrogatepass")).hexdigest()
    return _Facts(digest, tuple(dict.fromkeys(_imported(tree))))


def _tokens(node: object) -> Iterator[str]:
    """A node as text. `ast.dump` would tell versions of Python apart.

    Empty fields are left out, since new versions add fields; strings stand in f-strings as they
    are read, since versions cut them differently.
    """
    if isinstance(node, ast.Constant):
        yield f"{type(node.value).__name__}:{_literal(node.value)};"
    elif isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for name, value in ast.iter_fields(node):
            if name in ("type_comment", "type_ignores") or value is None or value == []:
                continue
            yield f"{name}="
            yield from _tokens(_joined(value) if isinstance(node, ast.JoinedStr) else value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            if not _is_idle(item):
                yield from _tokens(item)
                yield ","
        yield "]"
    else:
        yield _literal(node)


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _is_idle(item: object) -> bool:
    """Statements without effect: docstrings, those of fields included, and `pass`."""
    if isinstance(item, ast.Pass):
        return True
    text = isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
    return text and isinstance(item.value.value, str)  # type: ignore[attr-defined]


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighbouring texts as one, and without empty ones."""
    parts: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            if value.value == "":
                continue
            last = parts[-1] if parts else None
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                parts[-1] = ast.Constant(last.value + value.value)
                continue
        parts.append(value)
    return parts


def _imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module that a file may import, anywhere in it; names that are none do no harm."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module:
                yield node.level, module
            for alias in node.names:
                yield node.level, f"{module}.{alias.name}" if module else alias.name


def _source(folder: Path, name: str) -> Path | None:
    """The file of a module, if there is one below the folder."""
    place = folder.joinpath(*name.split("."))
    files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((file.resolve() for file in files if file.is_file()), None)


def _is_plumbing(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in PLUMBING for count in range(2, len(parts) + 1))


def _stored(value: object) -> _Facts | None:
    """What the memo holds, if it is what this version writes."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], list)):
        return None
    tree, imports = value
    return _Facts(str(tree), tuple((int(level), str(name)) for level, name in imports))
