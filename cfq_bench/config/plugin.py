"""Plug-in files: the Config class of a method, solver, backbone or teacher, read without torch.

A method is one file: its ``Config`` stands beside the LightningModule that uses it. Checking a
user's settings must not wait seconds for torch, so the ``Config`` class is taken out of the
file's syntax tree and executed alone, together with the file's imports from the standard library,
pydantic and ``cfq_bench.config``: a Config may use nothing else. The class itself is imported when
the run starts (`load_class`).
"""

import ast
import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cfq_bench.config.base import Frozen
from cfq_bench.errors import UserError
from cfq_bench.files import is_file
from cfq_bench.text import shortened

_LIGHT_ROOTS = sys.stdlib_module_names | {"pydantic"}


def source_file(module: str) -> Path:
    """Find the source of a dotted module name or .py path, without importing it.

    Raises:
        UserError: there is no such file.
    """
    if module.endswith(".py"):
        path = Path(module)
    else:
        try:
            spec = importlib.util.find_spec(module)
        except Exception:  # the search imports the packages that the module is in
            spec = None
        if spec is None or spec.origin is None:
            said = shortened(repr(module))
            raise UserError(f"module {said} does not exist: name a module or a .py file")
        path = Path(spec.origin)
    if not is_file(path):
        raise UserError(f"module file {path} does not exist")
    return path


@cache
def config_class(module: str) -> type[Frozen] | None:
    """The ``Config`` of a plug-in file, or None where the file defines none.

    Raises:
        UserError: the file is missing, not Python, or its Config needs a heavy import or is none.
    """
    path = source_file(module)
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: not valid Python: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path} cannot be read as Python: {error or 'it is too deep'}") from None
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Config"]
    if not found:
        return None
    light = [node for node in tree.body if _is_light(node)]
    holder = ModuleType(f"{module}:Config")
    sys.modules[holder.__name__] = holder  # pydantic resolves annotations through it
    body = ast.Module(body=[*light, found[0]], type_ignores=[])
    try:
        exec(compile(body, str(path), "exec"), vars(holder))
    except NameError as error:
        raise UserError(
            f"{path}: Config may use only the standard library, pydantic and cfq_bench.config "
            f"({error})"
        ) from None
    except Exception as error:  # whatever a class's body, its decorators or pydantic may raise
        raise UserError(f"{path}: its Config is none: {type(error).__name__}: {error}") from None
    config = vars(holder)["Config"]
    if not (isinstance(config, type) and issubclass(config, Frozen)):
        raise UserError(f"{path}: Config must be a subclass of a class of cfq_bench.config.base")
    return config


def _is_light(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(alias.name.split(".")[0] in _LIGHT_ROOTS for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return module.split(".")[0] in _LIGHT_ROOTS or module.startswith("cfq_bench.config")
    return False


def load_module(module: str) -> ModuleType:
    """Import a plug-in by its dotted name or .py path."""
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = source_file(module).resolve()
    name = f"cfq_bench_plugin_{path.stem}_{abs(hash(path))}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UserError(f"{path} cannot be imported as Python")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded
        spec.loader.exec_module(loaded)
    return sys.modules[name]


def load_class(module: str, base: type) -> type[Any]:
    """Import a plug-in and return its one public subclass of `base`.

    Raises:
        UserError: the file defines none, or several.
    """
    loaded = load_module(module)
    found = [
        value
        for name, value in vars(loaded).items()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == loaded.__name__
        and not name.startswith("_")
    ]
    if len(found) != 1:
        names = ", ".join(value.__name__ for value in found) or "none"
        raise UserError(
            f"{source_file(module)}: expected one public subclass of {base.__name__}, found {names}"
        )
    return found[0]
