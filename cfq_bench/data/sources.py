"""Where raw files come from: the user's folder, the user cache, or a verified download.

Data sets that are embedded in the package need none of this. The others name their raw files as
`RawFile`; a file is looked for in this order:

1. ``<data_dir>/<folder>/<name>``, where the data folder is ``--data-dir`` or ``CFQ_BENCH_DATA``.
   It is the user's own and is taken as it is (`cfq-bench data check` tells where it differs).
2. the user cache, where only files with the published content ever stand.
3. the canonical address. The download is verified before it is stored, so that a file that was cut
   off, or replaced by a login page, never becomes data.
"""

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cfq_bench.cache import default_cache_dir
from cfq_bench.config.plugin import load_module
from cfq_bench.config.tablefile import TABLE_FILES
from cfq_bench.errors import UserError
from cfq_bench.files import TEMP_PREFIX, ensure_writable, named_folder, write_atomic
from cfq_bench.processes import maker

TIMEOUT_S = 20.0
"""Silence of a server after which a download is given up."""


@dataclass(frozen=True)
class RawFile:
    """One published file.

    Attributes:
        folder: its folder below the data folder.
        name: its published name.
        sha256: of the file itself. Where the address gives an archive it is checked after
            extraction, because archives are repacked and their checksums change.
        page: a web page for people, where the file can be had by hand.
        url: the canonical address of the file or of the zip archive around it; None where there is
            none without an account.
        member: the address gives a zip archive, and this is its member; None: it gives the file.
        convert: makes the file of what was downloaded, where the published form is another one. It
            is verified after that, as any file.
    """

    folder: str
    name: str
    sha256: str
    page: str
    url: str | None = None
    member: str | None = None
    convert: Callable[[bytes], bytes] | None = None

    @property
    def relative(self) -> str:
        """Its place below a data folder."""
        return f"{self.folder}/{self.name}"

    def cached(self) -> Path:
        """Its place in the user cache."""
        return default_cache_dir() / "data" / self.folder / self.name


def raw_files(loader: str) -> tuple[RawFile, ...]:
    """The raw files of a data set's loader; none where it is embedded or a user's own table."""
    if loader.lower().endswith(TABLE_FILES):
        return ()
    files: tuple[RawFile, ...] = getattr(load_module(loader), "FILES", ())
    return files


def own_search(loader: str) -> Callable[[Path | None], Path | None] | None:
    """How a loader finds a folder that no list of files describes; None: its `FILES` do."""
    if loader.lower().endswith(TABLE_FILES):
        return None
    find: Callable[[Path | None], Path | None] | None = getattr(load_module(loader), "find", None)
    return find


def obtain_all(loader: str, data_dir: Path | None) -> dict[str, Path]:
    """All raw files of a data set by their names, or the folder that its loader finds by itself.

    Raises:
        UserError: something cannot be had; says what to do.
    """
    find = own_search(loader)
    if find is None:
        return {raw.name: obtain(raw, data_dir) for raw in raw_files(loader)}
    folder = find(data_dir)
    if folder is None:
        raise UserError(load_module(loader).MANUAL)
    return {folder.name: folder}


def named_data_dir(given: Path | None) -> Path | None:
    """The folder of raw files: as given, else ``CFQ_BENCH_DATA`` (unless blank), else None.

    Raises:
        UserError: there is no such folder.
    """
    folder = given if given is not None else named_folder("CFQ_BENCH_DATA")
    if folder is not None and not folder.is_dir():
        said = "CFQ_BENCH_DATA" if given is None else "--data-dir"
        raise UserError(f"{folder}, which {said} names, is no folder: name the one with the data")
    return folder


def locate(raw: RawFile, data_dir: Path | None) -> Path | None:
    """The file where it is on this machine already, or None.

    Raises:
        UserError: the file in the cache is damaged.
    """
    if data_dir is not None and (data_dir / raw.relative).is_file():
        return data_dir / raw.relative
    if not raw.cached().is_file():
        return None
    if not is_published(raw, raw.cached()):
        raise UserError(f"cached file {raw.cached()} is damaged: delete it and run again")
    return raw.cached()


def is_published(raw: RawFile, path: Path) -> bool:
    """Whether a file has exactly the published content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == raw.sha256


def obtain(raw: RawFile, data_dir: Path | None) -> Path:
    """The file, from the data folder, the cache or its canonical address.

    Raises:
        UserError: it cannot be had; the message says how to get it by hand.
    """
    return locate(raw, data_dir) or download(raw)


def download(raw: RawFile) -> Path:
    """Download a file into the user cache and verify it.

    Raises:
        UserError: no network, no such address, or other content than the published.
    """
    if raw.url is None:
        raise UserError(f"{raw.name} is not here and has no open address: {_manual(raw)}")
    place = raw.cached().parent  # beside the file, where the next download sweeps
    ensure_writable(place, "raw data")
    with tempfile.TemporaryDirectory(prefix=f"{TEMP_PREFIX}{maker()}-", dir=place) as folder:
        path = _fetch(raw, raw.url, Path(folder))
        if raw.member is not None:
            path = _member(raw, raw.url, path, raw.member)
        if raw.convert is not None:
            path.write_bytes(_converted(raw, raw.url, path, raw.convert))
        if not is_published(raw, path):
            raise UserError(
                f"{raw.url} gave a {raw.name} of {path.stat().st_size} bytes that is not the "
                f"published file (its sha256 differs): {_manual(raw)}"
            )
        write_atomic(raw.cached(), path.read_bytes())
    return raw.cached()


def _fetch(raw: RawFile, url: str, folder: Path) -> Path:
    import pooch  # only where something is downloaded: it takes longer than all else here
    import requests

    fetcher = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT_S)
    target = folder / "download"
    try:
        fetcher(url, str(target), None)
    except (requests.RequestException, OSError) as error:
        raise UserError(f"cannot download {url} ({_reason(error)}): {_manual(raw)}") from None
    return target


def _member(raw: RawFile, url: str, archive: Path, member: str) -> Path:
    target = archive.with_name("member")
    try:
        with zipfile.ZipFile(archive) as opened:
            target.write_bytes(opened.read(member))
    except (zipfile.BadZipFile, KeyError):
        raise UserError(f"{url} is not a zip archive with {member}: {_manual(raw)}") from None
    return target


def _converted(raw: RawFile, url: str, path: Path, convert: Callable[[bytes], bytes]) -> bytes:
    try:
        return convert(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{url} cannot be read ({error}): {_manual(raw)}") from None


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _manual(raw: RawFile) -> str:
    return (
        f"get {raw.name} from {raw.page} by hand and save it as {raw.cached()}, or as "
        f"{raw.relative} in a folder that --data-dir or CFQ_BENCH_DATA names"
    )
