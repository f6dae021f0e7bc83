"""The text of a file: unpacked, of a known encoding, without bytes that are none of a text."""

import bz2
import gzip
import io
import lzma
import re
import zipfile
import zlib
from pathlib import Path

from cfq_bench.data.words import shown
from cfq_bench.errors import UserError

_DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_OTHER_FILES = (
    (b"PK\x03\x04", "a spreadsheet or a zip archive"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\xfd7zXZ\x00", "compressed by xz"),
    (b"PAR1\x15", "parquet"),
    (b"%PDF-", "a PDF file"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old spreadsheet"),
)
_HINT = re.compile(r'"?sep=[^\r\n]"?(?=[\r\n])')
"""A first line that tells spreadsheets the separator."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: Path) -> bytes:
    """The bytes of a text file, unpacked as its name says.

    Raises:
        UserError: missing, unreadable, damaged, or another kind of file.
    """
    try:
        content = _unpacked(path)
    except FileNotFoundError:
        raise UserError(f"data file {path} does not exist") from None
    except _DAMAGED as error:
        reason = error.strerror if isinstance(error, OSError) else None
        why = reason or shown(error, 200) or type(error).__name__
        raise UserError(f"data file {path} cannot be read as CSV: {why}") from None
    for start, kind in _OTHER_FILES:
        if content.startswith(start):
            raise UserError(
                f"data file {path} is {kind} and no text: save it as CSV, or name it by its kind"
            )
    return content


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    match path.suffix.lower():
        case ".gz":
            return gzip.decompress(content)
        case ".bz2":
            return bz2.decompress(content)
        case ".xz":
            return lzma.decompress(content)
        case ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [name for name in archive.namelist() if not name.endswith("/")]
                if len(members) != 1:
                    raise ValueError(f"the archive holds {len(members)} files instead of one")
                return archive.read(members[0])
    return content


def guess_encoding(content: bytes) -> tuple[str, bool]:
    """The encoding of a text, and whether it is sure."""
    if content.startswith(_UTF16):
        return "utf-16", True
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        single = "latin-1" if not re.search(rb"[\x80-\x9f]", content) else "cp1252"
        undefined = single == "cp1252" and re.search(rb"[\x81\x8d\x8f\x90\x9d]", content)
        return ("latin-1" if undefined else single), False
    if b"\0" in content[:1000]:
        even, odd = content[:1000:2].count(0), content[1:1000:2].count(0)
        if max(even, odd) > 0.4 * len(content[:1000]) and min(even, odd) == 0:
            return ("utf-16-be" if even else "utf-16-le"), False
    return "utf-8", True


def decode(content: bytes, encoding: str, path: Path) -> str:
    """The text of a file.

    Raises:
        UserError: not text of that encoding, or with NUL bytes.
    """
    other, _ = guess_encoding(content)
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    if plain and other != "utf-8":
        raise UserError(
            f"data file {path} is not UTF-8{_place(content)}: save it as UTF-8, or write "
            f"`encoding: {other}` in its YAML file"
        )
    try:
        text = content.decode("utf-8-sig" if plain else encoding)
    except (UnicodeError, LookupError):
        raise UserError(
            f"data file {path} is not text of the encoding {shown(encoding)}: save it as UTF-8, "
            "and leave `encoding` out of its YAML file"
        ) from None
    text = text.removeprefix("\ufeff")
    hint = _HINT.match(text)
    text = text if hint is None else text[hint.end() :]
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UserError(f"data file {path}: line {line} holds a NUL byte: the file is damaged")
    return text


def _place(content: bytes) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        if not content.startswith(_UTF16):
            line = content.count(b"\n", 0, error.start) + 1
            return f" (byte 0x{content[error.start]:02X} in line {line})"
    return ""
