"""A spool: buffered writes in a file, which survive restarts, `kill -9` and, with `fsync`, a power loss.

The file is an SQLite database, whose transactions add a write completely or not at all, and whose exclusive lock
refuses a second process. Each record has a checksum, or is encrypted and authenticated under a key.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ebbing_client.errors import (
    EbbingError,
    Misconfigured,
    SpoolCorrupt,
    SpoolError,
    SpoolFull,
    SpoolInUse,
    SpoolKeyWrong,
)
from ebbing_client.records import Record
from ebbing_client.stores import Rejected, limit_bytes

FORMAT: Final = 1
APPLICATION: Final = 0x45424253  # "EBBS"
DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
PROOF: Final = b"ebbing spool"

TABLES: Final = """
CREATE TABLE about (encrypted INTEGER NOT NULL, proof BLOB NOT NULL);
CREATE TABLE records (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, content BLOB NOT NULL, refusal TEXT
);
CREATE INDEX waiting ON records (place) WHERE refusal IS NULL;
"""


class Spool:
    """A bounded file of writes. Pass it, or just its path, as `Ebbing(spool=…)`.

    Args:
        path: The file; its folder must exist.
        key: 32 random bytes, or 64 hexadecimal digits; encrypts the memories (needs `ebbing-client[encryption]`).
        max_bytes: Maximum size of all waiting and refused memories together.
        fsync: Survive a power loss; without it, a write survives only the death of the process.

    Raises:
        SpoolInUse: Another client or process has the file open.
        SpoolCorrupt: The file is damaged, or isn't a spool.
        SpoolKeyWrong: The file was written under another key, or without one.
    """

    is_durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        fsync: bool = True,
    ) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._cipher = None if key is None else _Cipher(key)
        if not self.path.parent.is_dir():
            raise Misconfigured(f"the spool's folder {self.path.parent} doesn't exist")
        with self._explained():
            self._open(fsync=fsync)
        try:
            with self._explained():
                self._check()
        except BaseException:
            self._db.close()
            raise

    def __len__(self) -> int:
        return self._waiting

    def has_room(self, records: Sequence[Record]) -> bool:
        """Return true if the records fit within `max_bytes`."""
        return self._bytes + _size(records) <= self._max_bytes

    def full(self, records: Sequence[Record]) -> EbbingError:
        """Return the error for records that don't fit."""
        return SpoolFull(
            f"{_size(records)} bytes don't fit into {self.path}: {self._bytes} are used (limit {self._max_bytes})"
        )

    def append(self, records: Sequence[Record]) -> None:
        """Write records to the disk, all or none.

        Raises:
            SpoolFull: The disk is full.
        """
        rows = [(record.id, self._seal(record.id, record.delayed_content)) for record in records]
        with self._explained(), self._db:
            self._db.executemany("INSERT INTO records (id, content) VALUES (?, ?)", rows)
        self._waiting += len(records)
        self._bytes += _size(records)

    def first(self, count: int, max_bytes: int) -> list[Record]:
        """Return the oldest records."""
        with self._explained():
            rows = self._db.execute(
                "SELECT id, content FROM records WHERE refusal IS NULL ORDER BY place LIMIT ?", (count,)
            ).fetchall()
        return limit_bytes([Record(name, self._unseal(name, content)) for name, content in rows], max_bytes)

    def remove(self, records: Sequence[Record]) -> None:
        """Delete records; the file's pages are overwritten with zeros."""
        with self._explained(), self._db:
            self._db.executemany("DELETE FROM records WHERE id = ?", [(record.id,) for record in records])
        self._count()

    def reject(self, record: Record, reason: str) -> None:
        """Set a record aside that the service refuses; it is retained until `discard_rejected`."""
        with self._explained(), self._db:
            self._db.execute("UPDATE records SET refusal = ? WHERE id = ?", (reason, record.id))
        self._count()

    def rejected(self) -> list[Rejected]:
        """Return the records that were set aside, oldest first."""
        with self._explained():
            rows = self._db.execute(
                "SELECT id, content, refusal FROM records WHERE refusal IS NOT NULL ORDER BY place"
            ).fetchall()
        return [Rejected(Record(name, self._unseal(name, content)), why) for name, content, why in rows]

    def discard_rejected(self) -> None:
        """Delete the records that were set aside."""
        with self._explained(), self._db:
            self._db.execute("DELETE FROM records WHERE refusal IS NOT NULL")
        self._count()

    def purge(self, subject: str | None, thread: str | None) -> set[str]:
        """Delete the records of a person or conversation, also those set aside, and return their ids."""
        about = {record.id for record in self._read_all() if record.is_about(subject, thread)}
        with self._explained(), self._db:
            self._db.executemany("DELETE FROM records WHERE id = ?", [(name,) for name in about])
        self._count()
        return about

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def _open(self, *, fsync: bool) -> None:
        is_new = not self.path.exists()
        if is_new:
            self.path.touch(mode=0o600)
        self._db = sqlite3.connect(self.path, timeout=0, isolation_level="IMMEDIATE", check_same_thread=False)
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = TRUNCATE")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'OFF'}")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.execute("BEGIN EXCLUSIVE")  # takes the lock, which `locking_mode` then keeps
            if not self._db.execute("PRAGMA schema_version").fetchone()[0]:
                for statement in TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {FORMAT}")
                row = (self._cipher is not None, self._seal("", PROOF))
                self._db.execute("INSERT INTO about VALUES (?, ?)", row)
            self._db.commit()
        except BaseException:
            self._db.close()
            raise

    def _check(self) -> None:
        """Check the whole file, so that damage is an error here and not in the background."""
        if self._db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise SpoolCorrupt(f"{self.path} isn't a spool")
        if (found := self._db.execute("PRAGMA user_version").fetchone()[0]) != FORMAT:
            raise SpoolError(f"{self.path} has format {found}: this version of the client reads format {FORMAT}")
        faults = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if faults != "ok":
            raise SpoolCorrupt(self._damage())
        is_encrypted, proof = self._db.execute("SELECT encrypted, proof FROM about").fetchone()
        if bool(is_encrypted) != (self._cipher is not None):
            state = "encrypted: pass its key" if is_encrypted else "not encrypted: open it without a key and send it"
            raise SpoolKeyWrong(f"{self.path} is {state}")
        if self._cipher is not None and self._cipher.open("", proof) is None:
            raise SpoolKeyWrong(f"{self.path} was encrypted under another key")
        for _ in self._read_all():
            pass
        self._count()

    def _read_all(self) -> Iterator[Record]:
        for name, content in self._db.execute("SELECT id, content FROM records ORDER BY place"):
            yield Record(name, self._unseal(name, content))

    def _count(self) -> None:
        overhead = NONCE_BYTES + 16 if self._cipher is not None else 4
        with self._explained():
            row = self._db.execute(
                "SELECT count(*) FILTER (WHERE refusal IS NULL), COALESCE(sum(length(content)) - count(*) * ?, 0) "
                "FROM records",
                (overhead,),
            ).fetchone()
        self._waiting, self._bytes = int(row[0]), int(row[1])

    def _seal(self, name: str, content: bytes) -> bytes:
        """Return a record as stored: encrypted, or with its checksum."""
        if self._cipher is not None:
            return self._cipher.seal(name, content)
        return zlib.crc32(name.encode() + content).to_bytes(4, "big") + content

    def _unseal(self, name: str, stored: bytes) -> bytes:
        if self._cipher is not None:
            content = self._cipher.open(name, stored)
        else:
            sound = zlib.crc32(name.encode() + stored[4:]).to_bytes(4, "big") == stored[:4]
            content = stored[4:] if sound else None
        if content is None:
            raise SpoolCorrupt(self._damage())
        return content

    def _damage(self) -> str:
        return f"{self.path} is damaged: move it away and start with an empty spool, or restore a copy"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into the client's."""
        try:
            yield
        except sqlite3.OperationalError as error:
            said = str(error)
            if "locked" in said:
                raise SpoolInUse(f"{self.path} is open in another client or process") from None
            if "full" in said:
                raise SpoolFull(f"the disk of {self.path} is full") from None
            if "malformed" in said or "not a database" in said:
                raise SpoolCorrupt(self._damage()) from None
            raise SpoolError(f"{self.path} can't be used ({said})") from None
        except sqlite3.DatabaseError:
            raise SpoolCorrupt(self._damage()) from None
        except OSError as error:
            raise SpoolError(f"{self.path} can't be used ({os.strerror(error.errno or 0)})") from None


def _size(records: Sequence[Record]) -> int:
    return sum(len(record.delayed_content) for record in records)


class _Cipher:
    """AES-256-GCM with a random nonce per record; the record's id is authenticated with it."""

    def __init__(self, key: bytes | str) -> None:
        try:
            secret = bytes.fromhex(key) if isinstance(key, str) else key
        except ValueError:
            secret = b""
        if len(secret) != KEY_BYTES:
            raise Misconfigured(f"a spool's key has {KEY_BYTES} bytes, or twice as many hexadecimal digits")
        try:
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only encrypted spools need the package
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above
        except ImportError:
            raise Misconfigured("an encrypted spool needs `pip install ebbing-client[encryption]`") from None
        self._invalid: type[Exception] = InvalidTag
        self._aes: Any = AESGCM(secret)

    def seal(self, name: str, content: bytes) -> bytes:
        """Return nonce and ciphertext."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + bytes(self._aes.encrypt(nonce, content, name.encode()))

    def open(self, name: str, stored: bytes) -> bytes | None:
        """Return the content, or None if the key is wrong or the bytes were changed."""
        try:
            return bytes(self._aes.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], name.encode()))
        except (self._invalid, ValueError):
            return None
