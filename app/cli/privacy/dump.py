"""`ebbing dump` and `ebbing load`: move a tenant to another installation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import msgspec
import typer

from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, count_of, examples, print_result
from app.cli.memories.imports import finish_import, upload_file
from app.domain.formatting import format_bytes
from app.domain.imports.dump_encryption import MAGIC, DumpUnreadable, decrypt, derive_key, encrypt
from app.domain.tiers.encryption import NONCE_BYTES

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/privacy/dump"
PATIENCE_SECONDS: Final = 60.0
READ_BYTES: Final = 1 << 18

router = typer.Typer()


class _LastLine:
    """Reader of the last line of a dump, whose pieces pass through `watch`."""

    def __init__(self) -> None:
        self._tail = b""

    def watch(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces unchanged."""
        for piece in pieces:
            self._tail = (self._tail + piece)[-READ_BYTES:]
            yield piece

    def read_counts(self) -> dict[str, int] | None:
        """Return the counts in the last line, or None if the dump is incomplete."""
        last = (self._tail.splitlines() or [b""])[-1]
        return _RECORD.decode(last)["end"] if last.startswith(b'{"end":') and last.endswith(b"}}") else None

    def describe_omitted(self) -> str:
        """Return how many memories in quarantine the dump leaves out; empty if none."""
        number = (self.read_counts() or {}).get("quarantined", 0)
        return f"{count_of(number, 'memory', 'memories')} in quarantine left out" if number else ""


_RECORD: Final = msgspec.json.Decoder(dict[str, Any])
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", help="File with the secret (at least 32 bytes) that encrypts and decrypts the dump."),
]


@router.command(
    epilog=examples("ebbing dump tenant.jsonl", "ebbing dump tenant.enc --key-file dump.key"),
)
def dump(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist yet.")],
    *,
    key_file: KeyFile = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Save the tenant to a file: its policies, its legal holds, and its memories with strength, history and merges.

    Memories in quarantine are left out and counted. Without --key-file, the file is not encrypted. It contains personal
    data: later erasures can't reach it, and their reports list dumps among the remaining copies.
    """
    from app.cli.core.client import Api

    key = _read_key(key_file)
    if output.exists():
        raise CommandFailure(f"{output} already exists: choose another file", Code.USAGE)
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        size, counts, omitted = _save(api, output, key)
    parts = [format_bytes(size), "encrypted" if key else "not encrypted", *([omitted] if omitted else [])]
    print_result(
        {"output": str(output), "bytes": size, "encrypted": key is not None, **counts},
        f"{output}: {', '.join(parts)}",
        as_json=as_json,
    )


def _read_key(key_file: Path | None) -> bytes | None:
    if key_file is None:
        return None
    try:
        return derive_key(key_file.read_bytes())
    except OSError as error:
        raise CommandFailure(f"{key_file} can't be read ({error.strerror})", Code.USAGE) from None
    except ValueError as error:
        raise CommandFailure(f"{key_file}: {error}", Code.USAGE) from None


def _save(api: Api, output: Path, key: bytes | None) -> tuple[int, dict[str, int], str]:
    """Write the dump to a file with mode 0600; delete the file on failure.

    Returns:
        The file's size in bytes, the counts of the dump's last line, and what it leaves out, in words.
    """
    last = _LastLine()
    pieces = _check_end(api.stream(PATH), last)
    if key is not None:
        pieces = encrypt(key, pieces, lambda: os.urandom(NONCE_BYTES))
    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            size = sum(file.write(piece) for piece in pieces)
        return size, last.read_counts() or {}, last.describe_omitted()
    except BaseException as error:
        output.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CommandFailure(f"{output} can't be written: {error.strerror}") from None
        raise


def _check_end(pieces: Iterable[bytes], last: _LastLine) -> Iterator[bytes]:
    """Yield the pieces of a dump.

    Raises:
        CommandFailure: The last line is missing.
    """
    yield from last.watch(pieces)
    if last.read_counts() is None:
        raise CommandFailure("the connection ended before the dump was complete: try again")


@router.command(
    epilog=examples(
        "ebbing load tenant.jsonl",
        "ebbing load tenant.enc --key-file dump.key --dry-run",
        "ebbing load tenant.jsonl --erased erased-since.txt",
        "ebbing load tenant.jsonl --accept",
    )
)
def load(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A dump that `ebbing dump` has written.")],
    *,
    key_file: KeyFile = None,
    erased: Annotated[
        Path | None,
        typer.Option("--erased", help="File with the subjects erased since the dump, one per line."),
    ] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="Load a dump of another installation; confirms that no subject was erased since the dump.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be stored.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Load a dump into the tenant of the API key: memories keep their ids, times, history and strength.

    Memories that exist already stay as they are. If the tenant has no memories and its policy has never
    been changed, the tenant gets the dump's policies. If you load the dump into the installation that wrote it, this
    installation leaves out subjects and memories that it has erased since the dump. In any other installation, list the
    erased subjects with --erased, or confirm with --accept that there are none.
    """
    from app.cli.core.client import Api

    if not file.is_file():
        raise CommandFailure(f"{file}: no such file", Code.USAGE)
    key = _read_key(key_file)
    subjects = _read_subjects(erased)
    params = {"format": "dump", "accept": "true" if accept or erased else "false"}
    if dry_run:
        params["dry_run"] = "true"
    with file.open("rb") as content, Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        last = _LastLine()
        pieces = last.watch(_read_pieces(file, content, key))
        if subjects:
            pieces = _leave_out(pieces, subjects)
        started = upload_file(api, pieces, params)
        if omitted := last.describe_omitted():
            typer.echo(f"{file}: {omitted} when the dump was written", err=True)
        finish_import(api, started, file, dry_run=dry_run, as_json=as_json)


def _read_subjects(erased: Path | None) -> frozenset[str]:
    if erased is None:
        return frozenset()
    try:
        return frozenset(line.strip() for line in erased.read_text().splitlines() if line.strip())
    except (OSError, UnicodeDecodeError):
        raise CommandFailure(f"{erased} can't be read as text in UTF-8", Code.USAGE) from None


def _read_pieces(path: Path, content: BinaryIO, key: bytes | None) -> Iterator[bytes]:
    start = content.read(len(MAGIC))
    is_encrypted = start == MAGIC
    if is_encrypted != (key is not None):
        need = "the dump is encrypted: give --key-file" if is_encrypted else "the dump isn't encrypted: omit --key-file"
        raise CommandFailure(f"{path}: {need}", Code.USAGE)
    if key is None:
        yield start
        yield from iter(lambda: content.read(READ_BYTES), b"")
        return
    try:
        yield from decrypt(key, content.read)
    except DumpUnreadable as error:
        raise CommandFailure(f"{path}: {error}") from None


def _leave_out(pieces: Iterable[bytes], subjects: frozenset[str]) -> Iterator[bytes]:
    """Yield the lines of a dump, except these subjects' memories, summaries, legal holds and retention periods."""
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        yield b"".join(line + b"\n" for line in lines if not _is_about(line, subjects))
    if held:
        yield held


def _is_about(line: bytes, subjects: frozenset[str]) -> bool:
    try:
        record: dict[str, Any] = _RECORD.decode(line)
    except msgspec.DecodeError:
        return False
    sources = record.get("sources")
    rows = [record.get("memory"), record.get("row"), *(sources if isinstance(sources, list) else ())]
    return any(isinstance(row, dict) and row.get("subject") in subjects for row in rows)
