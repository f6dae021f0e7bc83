"""A cache of tensors that many processes may share: each entry is computed once, whole or absent.

An entry's name is the hash of everything that it depends on, code included, so nothing ever has to
be invalidated: a different key is a different file.
"""

import contextlib
import hashlib
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from cfq_bench.errors import UserError
from cfq_bench.files import canonical_json, explain, named_folder, sweep_leftovers, write_atomic

if TYPE_CHECKING:
    from filelock import FileLock
    from torch import Tensor

FORMAT = 2  # part of every hash: raise it when the meaning of what is stored changes
MEMO_MOST = 4000
"""Facts in one memo."""
SETTLED_S = 2.0
"""Age of a file from which another content of it also has another time of modification."""
_MAGIC = b"cfq-bench cache"


def default_cache_dir() -> Path:
    """Return the folder in ``CFQ_BENCH_CACHE``, or else (where blank) the user's cache folder."""
    named = named_folder("CFQ_BENCH_CACHE")
    return platformdirs.user_cache_path("cfq-bench") if named is None else named


class Cache:
    """Named tensors by the content of their key, in ``<root>/<kind>/<hash>.pt``.

    Args:
        root: folder of the cache; made when the first entry is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, kind: str, key: Mapping[str, object]) -> Path:
        """Return where the entry is or would be.

        Raises:
            TypeError: the key holds something that is not JSON data.
            ValueError: the key holds NaN or an infinity, or ``kind`` is no plain folder name.
        """
        if re.fullmatch(r"[a-z0-9_-]+", kind) is None:
            raise ValueError(f"cache kind {kind!r}: expected lower-case letters, digits, _ and -")
        text = canonical_json({"kind": kind, "format": FORMAT, "key": dict(key)})
        return self.root / kind / f"{hashlib.sha256(text.encode()).hexdigest()}.pt"

    def get_or_make(
        self,
        kind: str,
        key: Mapping[str, object],
        make: Callable[[], "dict[str, Tensor]"],
    ) -> "dict[str, Tensor]":
        """Return the entry of ``key``; if there is none, make it and store it first.

        Of several processes that ask for one missing entry, one makes it and the others wait.

        Args:
            kind: what is stored, for example ``"teacher"``: a folder of the cache.
            key: everything that the tensors depend on, as JSON data, with the code that computes
                them (`codebase.entry_code`): another one may have mended a solver or a fit.
            make: computes the tensors; any device, dtype and shape.

        Returns:
            The tensors on the CPU, contiguous and without gradient, the same whether they were
            just made or read.

        Raises:
            UserError: the stored file is corrupt, or the cache cannot be read or written.
        """
        path = self.path(kind, key)
        found = _read(path)  # no lock: a file that is there is whole
        if found is not None:
            return found
        lock = _locked(path)
        try:
            found = _read(path)  # another process may have made it while this one waited
            if found is None:
                sweep_leftovers(path.parent)
                found = _storable(make())
                write_atomic(path, _to_bytes(found))
            return found
        finally:
            lock.release()


class Memo:
    """Small facts about files by what names their content, kept between processes to save time.

    Losing them costs nothing but time: a folder that cannot be written and a damaged file are
    passed over, and of two processes that store at once the later one stays.

    Args:
        name: the file's, ``<cache>/memo/<name>.json``.
        format: of the facts; those of another one are forgotten.
    """

    def __init__(self, name: str, format: int) -> None:
        self.path = default_cache_dir() / "memo" / f"{name}-{format}.json"
        self._found: dict[str, object] | None = None
        self._new: dict[str, object] = {}

    def get(self, key: str) -> object | None:
        """The fact, or None."""
        if self._found is None:
            self._found = self._read()
        return self._new.get(key, self._found.get(key))

    def put(self, key: str, fact: object) -> None:
        """Remember a fact; `save` writes it."""
        self._new[key] = fact

    def save(self) -> None:
        """Write what is new, in place of what is oldest."""
        if not self._new:
            return
        facts = list({**self._read(), **self._new}.items())[-MEMO_MOST:]
        self._new = {}
        self._found = dict(facts)
        with contextlib.suppress(UserError):
            write_atomic(self.path, json.dumps(self._found).encode())

    def _read(self) -> dict[str, object]:
        try:
            facts = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return facts if isinstance(facts, dict) else {}


def _locked(path: Path) -> "FileLock":
    from filelock import FileLock  # only where something is made: it takes longer than a look

    # The lock's own file stays: removing it would let two processes hold "the" lock at once.
    lock = FileLock(path.with_suffix(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise explain(f"write to the cache {path.parent}", error) from error
    except NotImplementedError as error:
        raise UserError(
            f"cannot lock files in the cache {path.parent}: "
            "its file system has no locks; choose another folder with CFQ_BENCH_CACHE"
        ) from error
    return lock


def _storable(tensors: "dict[str, Tensor]") -> "dict[str, Tensor]":
    import torch

    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise TypeError(f"cache entry {name!r} is a {type(tensor).__name__}: expected a tensor")
    # The clone matters: torch.save writes the whole storage that a view looks at.
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def _to_bytes(tensors: "dict[str, Tensor]") -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    payload = buffer.getvalue()
    return _header(payload) + payload


def _header(payload: bytes) -> bytes:
    return b"%s %s\n" % (_MAGIC, hashlib.sha256(payload).hexdigest().encode())


def _read(path: Path) -> "dict[str, Tensor] | None":
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain(f"read {path}", error) from error
    header, _, payload = data.partition(b"\n")
    if not header.startswith(_MAGIC):
        raise _corrupt(path, "it does not start as a cache file does")
    if header + b"\n" != _header(payload):
        raise _corrupt(path, f"the checksum does not fit its {len(payload)} bytes")
    return _load(path, payload)


def _load(path: Path, payload: bytes) -> "dict[str, Tensor]":
    import torch

    try:
        tensors: dict[str, Tensor] = torch.load(
            io.BytesIO(payload), map_location="cpu", weights_only=True
        )
    except Exception as error:  # torch's unpickler lets struct.error, KeyError and more through
        raise _corrupt(path, f"torch {torch.__version__} cannot load it") from error
    return tensors


def _corrupt(path: Path, why: str) -> UserError:
    return UserError(f"cached file {path} is corrupt ({why}): delete it and run again")
