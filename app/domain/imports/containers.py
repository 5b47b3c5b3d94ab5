"""Open the containers of records: lines, JSON arrays, zip archives and SQLite databases, within limits.

Nothing is written to disk, paths in an archive are never used as paths on disk, and no code in a file is executed:
nothing is unpickled, and a database is read in memory with SQLite's `trusted_schema` off.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

import msgspec

from app.domain.imports.items import (
    DOCUMENT_MAX_BYTES,
    EXPANDED_MAX_BYTES,
    FILES_MAX,
    LINE_MAX_BYTES,
    RATIO_MAX,
    refuse,
)

SEEK_END: Final = 2
"""Reference point of `seek`: the end of the file."""
ZIP_START: Final = b"PK\x03\x04"
SQLITE_START: Final = b"SQLite format 3\0"
_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_ENCRYPTED: Final = 0x1
_SMALL_BYTES: Final = 1 << 20
"""Files up to this size may have any ratio of compression."""
_MODE_BYTES: Final = slice(18, 20)
_LOG_MODE: Final = b"\2\2"
_ROLLBACK_MODE: Final = b"\1\1"
_LOG_HINT: Final = "if its latest changes are in a -wal file, close the program that writes it"
_STEPS: Final = 1_000_000
_STEPS_MAX: Final = 20_000
"""Maximum number of times that SQLite's virtual machine may execute `_STEPS` instructions for one file."""


def read_start(source: BinaryIO, size: int = 64) -> bytes:
    """Return the first bytes of a file, without a byte order mark, and rewind it."""
    source.seek(0)
    start = source.read(size)
    source.seek(0)
    return start.removeprefix(_BOM)


def iterate_lines(source: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and the bytes of each line that isn't blank; None for a line over `LINE_MAX_BYTES`.

    Raises:
        FileRefused: The file is in UTF-16.
    """
    source.seek(0)
    start = source.read(3)
    if start.startswith(_UTF16):
        refuse("the file is in UTF-16: convert it to UTF-8")
    source.seek(len(_BOM) if start == _BOM else 0)
    number = 0
    while line := source.readline(LINE_MAX_BYTES + 1):
        number += 1
        if len(line) > LINE_MAX_BYTES and not line.endswith(b"\n"):
            while (rest := source.readline(LINE_MAX_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        elif not line.isspace():
            yield number, line


def read_document(source: BinaryIO) -> bytes:
    """Return the bytes of a JSON document in UTF-8.

    Raises:
        FileRefused: The file is in UTF-16, or larger than `DOCUMENT_MAX_BYTES`.
    """
    if (size := source.seek(0, SEEK_END)) > DOCUMENT_MAX_BYTES:
        refuse(f"the file has {size} bytes and isn't a file of lines (limit {DOCUMENT_MAX_BYTES})")
    source.seek(0)
    content = source.read()
    if content.startswith(_UTF16):
        refuse("the file is in UTF-16: convert it to UTF-8")
    return content.removeprefix(_BOM)


_raws: Final = msgspec.json.Decoder(list[msgspec.Raw])
_object: Final = msgspec.json.Decoder(dict[str, Any])
_raw_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def split_array(content: bytes) -> list[msgspec.Raw]:
    """Return the items of a JSON array, still encoded; an object counts as an array of one.

    Raises:
        FileRefused: The content is neither, isn't JSON, or isn't UTF-8.
    """
    try:
        return [msgspec.Raw(content)] if content.lstrip()[:1] == b"{" else _raws.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refuse("the file isn't a JSON array in UTF-8")


def split_object(content: bytes) -> dict[str, msgspec.Raw]:
    """Return the values of a JSON object, still encoded.

    Raises:
        FileRefused: The content is no object, isn't JSON, or isn't UTF-8.
    """
    try:
        return _raw_object.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refuse("the file isn't a JSON object in UTF-8")


def decode_object(line: bytes | msgspec.Raw) -> dict[str, Any] | str:
    """Return a JSON object, or the reason why the bytes aren't one."""
    if len(line) > LINE_MAX_BYTES:
        return f"the record is too large (limit {LINE_MAX_BYTES} bytes)"
    try:
        return _object.decode(line)
    except msgspec.ValidationError:
        return "the record isn't a JSON object"
    except UnicodeDecodeError:
        return "the record isn't UTF-8"
    except (msgspec.DecodeError, RecursionError):
        return "the record isn't JSON"


TOO_LONG: Final = f"the line is too long (limit {LINE_MAX_BYTES} bytes)"


class Archive:
    """A zip archive whose list of files was checked; files are decompressed within limits."""

    def __init__(self, archive: ZipFile, infos: Sequence[ZipInfo]) -> None:
        """Use `open_archive` instead."""
        self._archive = archive
        self._infos = {info.filename: info for info in infos}

    @property
    def names(self) -> list[str]:
        """The files' paths in the archive, sorted."""
        return sorted(self._infos)

    def find(self, *patterns: str) -> list[str]:
        """Return the files whose name without folders matches one of these patterns, sorted."""
        return [name for name in self.names if any(fnmatchcase(name.rsplit("/")[-1], each) for each in patterns)]

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for reading; reading more than the archive declares fails.

        Raises:
            FileRefused: The file is damaged.
        """
        try:
            with self._archive.open(self._infos[name]) as member:
                yield member  # type: ignore[misc]  # zipfile's IO[bytes] has the methods that readers call
        except (BadZipFile, EOFError, OSError, ValueError, RuntimeError):
            refuse("a file in the zip archive is damaged or compressed by an unknown method")

    def read(self, name: str) -> bytes:
        """Return a file's content without a byte order mark.

        Raises:
            FileRefused: The file is damaged, or larger than `DOCUMENT_MAX_BYTES`.
        """
        if (size := self._infos[name].file_size) > DOCUMENT_MAX_BYTES:
            refuse(f"a file in the zip archive has {size} bytes (limit {DOCUMENT_MAX_BYTES})")
        with self.open(name) as member:
            return member.read().removeprefix(_BOM)


@contextmanager
def open_archive(source: BinaryIO) -> Iterator[Archive]:
    """Open a zip archive after checking its list of files.

    Raises:
        FileRefused: The archive is damaged or encrypted, has too many files, files with paths outside of the archive,
            or expands to too much.
    """
    source.seek(0)
    try:
        archive = ZipFile(source)
    except (BadZipFile, LargeZipFile, OSError, ValueError):
        refuse("the file is a damaged zip archive")
    with archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        if len(infos) > FILES_MAX:
            refuse(f"the zip archive has {len(infos)} files (limit {FILES_MAX})")
        for info in infos:
            _check_member(info)
        total = sum(info.file_size for info in infos)
        if total > EXPANDED_MAX_BYTES:
            refuse(f"the zip archive expands to {total} bytes (limit {EXPANDED_MAX_BYTES})")
        if len({info.filename for info in infos}) < len(infos):
            refuse("the zip archive has two files of one name")
        yield Archive(archive, infos)


def _check_member(info: ZipInfo) -> None:
    parts = info.filename.split("/")
    if not parts[0] or ".." in parts or "\\" in info.filename or ":" in parts[0]:
        refuse("the zip archive has a file with a path outside of it")
    if stat.S_ISLNK(info.external_attr >> 16):
        refuse("the zip archive has a symbolic link")
    if info.flag_bits & _ENCRYPTED:
        refuse("the zip archive is encrypted: decrypt it first")
    if info.file_size > _SMALL_BYTES and info.file_size > RATIO_MAX * max(info.compress_size, 1):
        refuse(f"a file in the zip archive expands more than {RATIO_MAX} times")


@contextmanager
def open_database(source: BinaryIO, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """Open a copy of a SQLite database in memory, from which only these tables can be read.

    Raises:
        FileRefused: The file is no SQLite database, is damaged, or lacks one of the tables.
    """
    content = read_document(source)
    if not content.startswith(SQLITE_START):
        refuse("the file isn't a SQLite database")
    has_log = content[_MODE_BYTES] == _LOG_MODE
    content = content[: _MODE_BYTES.start] + _ROLLBACK_MODE + content[_MODE_BYTES.stop :]  # WAL mode requires a file
    connection = sqlite3.connect(":memory:")
    try:
        connection.row_factory = sqlite3.Row
        connection.deserialize(content)
        _restrict(connection)
        kinds = dict(connection.execute("SELECT name, type FROM sqlite_master WHERE sql NOT LIKE 'CREATE VIRTUAL%'"))
        for table in tables:
            if kinds.get(table) != "table":
                refuse(f"the database has no table `{table}`" + (f" ({_LOG_HINT})" if has_log else ""))
        allowed = frozenset(tables)
        connection.set_authorizer(lambda *call: _authorize(allowed, *call))
        yield connection
    except sqlite3.Error:
        refuse("the SQLite database is damaged, or has other tables than expected")
    finally:
        connection.close()


def _restrict(connection: sqlite3.Connection) -> None:
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LINE_MAX_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    steps = iter(range(_STEPS_MAX))
    connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
    connection.text_factory = lambda value: value.decode("utf-8", "surrogateescape")


_FUNCTIONS: Final = frozenset(("max", "count", "coalesce"))


def _authorize(tables: frozenset[str], action: int, first: str | None, second: str | None, *_: object) -> int:
    """Allow selects that read these tables, and nothing else."""
    if action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_READ and (first in tables or not first)):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    cursor = connection.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - names from code
    return {description[0] for description in cursor.description}
