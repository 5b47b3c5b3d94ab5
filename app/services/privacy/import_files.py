"""Keep the uploaded files of imports: encrypted in parts, readable until the import ends, searched by erasures.

A file is sealed with a key of its own, which the tenant's key wraps. Ending an import destroys the key and deletes the
objects; the nightly sweep deletes what a failure left.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Final, NamedTuple, cast
from uuid import UUID, uuid4

import msgspec

from app.clients.object_store import cold_store
from app.domain.imports.formats import FORMATS
from app.domain.imports.items import (
    DumpedMemory,
    FileRefused,
    ImportOptions,
    Item,
    Memory,
    Reading,
    decode_options,
    find_zone,
)
from app.domain.privacy.audit_chain import SYSTEM, Detail
from app.domain.privacy.erasure import is_whole
from app.domain.privacy.late_arrivals import matches_scope
from app.domain.privacy.legal_hold import Scope
from app.domain.tiers import encryption
from app.services.security import audit, encryption_keys
from app.settings import settings
from app.store.core import database
from app.store.ingest import imports
from app.store.ingest.imports import Import, Status
from app.store.tiers import wrapped_keys

PART_BYTES: Final = 4 << 20
"""Size of each part of a file except the last one, before encryption."""
BUFFER_BYTES: Final = 1 << 18
ENDED_BY_ERASURE: Final = (
    "ended by an erasure that covers records of the file: remove them from the file and import it again"
)
CANCELLED: Final = "cancelled"
_KEPT_DAYS: Final = 90
"""Days for which the reports of ended imports are retained."""
_ORPHANED_HOURS: Final = 24
"""Age from which an object without an import is deleted; an upload under way is younger."""


class FileWriter:
    """Writes an uploaded file in encrypted parts; part 0 has the options."""

    def __init__(self, tenant_id: UUID, options: ImportOptions) -> None:
        """Create the key, and store the options."""
        self.tenant_id: Final = tenant_id
        self.import_id: Final = uuid4()
        self.key: Final = os.urandom(encryption.KEY_BYTES)
        self.objects: Final[list[str]] = []
        self.size_bytes = 0
        self._put(msgspec.json.encode(options))

    def write(self, part: bytes) -> None:
        """Store the next part: `PART_BYTES`, except for the last one."""
        self.size_bytes += len(part)
        self._put(part)

    def discard(self) -> None:
        """Delete the parts of an upload that failed."""
        delete_objects(self.tenant_id, [self.import_id])

    def _put(self, part: bytes) -> None:
        number, name = len(self.objects), f"{len(self.objects):06}-{uuid4().hex}"
        bound = _associated_data(self.tenant_id, self.import_id, number)
        sealed = encryption.seal(self.key, os.urandom(encryption.NONCE_BYTES), part, bound)
        cold_store().put(f"{folder(self.tenant_id, self.import_id)}/{name}", sealed)
        self.objects.append(name)


class _SealedFile(io.RawIOBase):
    """A seekable file over encrypted parts, of which one is decrypted at a time."""

    def __init__(self, tenant_id: UUID, found: Import, key: bytes) -> None:
        self._tenant_id, self._found, self._key = tenant_id, found, key
        self._position = 0
        self._held: tuple[int, bytes] = (-1, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._found.size_bytes}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._found.size_bytes:
            return 0
        number, offset = divmod(self._position, PART_BYTES)
        if self._held[0] != number:
            self._held = (number, read_part(self._tenant_id, self._found, self._key, number + 1))
        piece = self._held[1][offset : offset + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


def folder(tenant_id: UUID, import_id: UUID | None = None) -> str:
    """Return the object store path of a tenant's uploaded files, or of one of them."""
    return f"imports/{tenant_id}" + (f"/{import_id}" if import_id else "")


def read_part(tenant_id: UUID, found: Import, key: bytes, number: int) -> bytes:
    """Return a decrypted part; part 0 has the options.

    Raises:
        StoreFailed: The object store is unreachable, or the object is missing.
        DamagedSegment: The object was modified.
    """
    sealed = cold_store().get(f"{folder(tenant_id, found.import_id)}/{found.objects[number]}")
    return encryption.unseal(key, sealed, _associated_data(tenant_id, found.import_id, number))


def _associated_data(tenant_id: UUID, import_id: UUID, number: int) -> bytes:
    return b"import" + tenant_id.bytes + import_id.bytes + number.to_bytes(4, "big")


class OpenFile(NamedTuple):
    """An uploaded file that is being read."""

    options: ImportOptions
    items: Iterator[Item]


def open_file(tenant_id: UUID, found: Import) -> OpenFile | None:
    """Return the options and the records of a file; None if its key was destroyed.

    Raises:
        StoreFailed: The object store is unreachable, or an object is missing.
    """
    with database.tenant(tenant_id) as tx:
        key = encryption_keys.open_record_keys(tx, tenant_id, [found.import_id]).get(found.import_id)
    if key is None or not found.objects:
        return None
    options = decode_options(read_part(tenant_id, found, key, 0))
    reading = Reading(options, find_zone(options), found.requested_at.timestamp())
    source = io.BufferedReader(_SealedFile(tenant_id, found, key), BUFFER_BYTES)
    return OpenFile(options, FORMATS[found.format].read(cast("BinaryIO", source), reading))


def end_imports(
    tenant_id: UUID, import_ids: Collection[UUID], status: Status, failure: str | None = None
) -> list[UUID]:
    """End imports, destroy their keys and delete their files. Return those that were running. Idempotent.

    The audit entry's number of items counts the memories that the imports stored and updated; its details count the
    records by outcome.

    Raises:
        StoreFailed: The object store is unreachable. The keys are destroyed already, so the files are unreadable; the
            nightly sweep deletes them.
    """
    with database.tenant(tenant_id) as tx:
        ended = imports.end(tx, tenant_id, import_ids, status, failure)
        ids = [each.import_id for each in ended]
        if ended:
            wrapped_keys.remove_records(tx, tenant_id, ids)
            done = sum((Counter(each.counts) for each in ended if not each.dry_run), Counter[str]())
            details: dict[str, Detail] = {"status": status, "imports": len(ids), **done}
            items = done["stored"] + done["updated"]
            audit.append(tx, tenant_id, "import_ended", SYSTEM, ids=ids, items=items, details=details)
    delete_objects(tenant_id, ids)
    return ids


def delete_objects(tenant_id: UUID, import_ids: Collection[UUID]) -> None:
    """Delete the objects of these imports."""
    for import_id in import_ids:
        for stored in list(cold_store().list_folder(folder(tenant_id, import_id))):
            cold_store().delete(stored.path)


# --- Erasures ---


def find_covered(
    tenant_id: UUID, scope: Scope, memory_ids: Sequence[UUID], until: datetime | None = None
) -> list[UUID]:
    """Return the imports whose file has records that an erasure covers, or can't be parsed and so may have some.

    A record is covered if it matches the scope, or has the external id of one of the erased memories.

    Args:
        scope: The erasure's scope.
        memory_ids: The erased memories.
        until: Time of the erasure's watermark, which doesn't cover files that were uploaded later; None for no limit.

    Raises:
        StoreFailed: The object store is unreachable.
    """
    with database.tenant(tenant_id) as tx:
        open_imports = imports.list_open(tx, tenant_id)
        names = imports.list_external_of(tx, tenant_id, memory_ids) if open_imports else set()
    names |= {str(memory_id) for memory_id in memory_ids}
    return [
        found.import_id
        for found in open_imports
        if (until is None or found.requested_at <= until) and _has_covered(tenant_id, found, scope, names)
    ]


def _has_covered(tenant_id: UUID, found: Import, scope: Scope, names: set[str]) -> bool:
    opened = open_file(tenant_id, found)
    accepted_ms = int(found.requested_at.timestamp() * 1000)
    try:
        return any(
            (isinstance(item, Memory | DumpedMemory) and _is_covered(item, scope, names, accepted_ms))
            for item in (opened.items if opened else ())
        )
    except FileRefused:
        return is_whole(scope, "subject") or bool(names)  # unparsable, so it may have covered records


def _is_covered(item: Memory | DumpedMemory, scope: Scope, names: set[str], accepted_ms: int) -> bool:
    if isinstance(item, DumpedMemory) and str(item.memory_id) in names:
        return True
    return item.given.external_id in names or matches_scope(scope, item.given, accepted_ms)


def erase_covered(tenant_id: UUID, scope: Scope, memory_ids: Sequence[UUID], until: datetime | None) -> int:
    """End the imports that `find_covered` returns. Return their number."""
    covered = find_covered(tenant_id, scope, memory_ids, until)
    return len(end_imports(tenant_id, covered, "ended", ENDED_BY_ERASURE))


# --- Clean-up ---


def sweep(tenant_id: UUID, as_of: datetime) -> int:
    """End imports whose job has failed, and delete old reports and orphaned objects. Return the number of objects."""
    with database.tenant(tenant_id) as tx:
        failed = [found.import_id for found in imports.list_open(tx, tenant_id) if found.status == "failed"]
        imports.delete_before(tx, tenant_id, as_of - timedelta(days=_KEPT_DAYS))
    end_imports(tenant_id, failed, "failed", "the job failed or was cancelled")
    if settings().master_key is None:
        return 0  # without a master key, no file was ever stored
    objects = list(cold_store().list_folder(folder(tenant_id)))
    with database.tenant(tenant_id) as tx:
        known = {str(found.import_id) for found in imports.list_open(tx, tenant_id)}
    latest = as_of - timedelta(hours=_ORPHANED_HOURS)
    orphans = [
        stored.path for stored in objects if stored.path.split("/")[2] not in known and stored.modified_at < latest
    ]
    for path in orphans:
        cold_store().delete(path)
    return len(orphans)
