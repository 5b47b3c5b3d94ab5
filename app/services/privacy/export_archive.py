"""Stream an export as a zip archive, decrypting one part at a time.

The last entry is the manifest, which lists the files with their checksums.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any, Final
from uuid import UUID
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec

from app.clients.object_store import cold_store
from app.domain.privacy import export_page
from app.domain.privacy.documents.texts import Texts
from app.domain.privacy.export import FORMAT, line_schema, part_associated_data
from app.domain.privacy.export_page import AnsweredRequest, PageContents
from app.domain.tiers import encryption
from app.errors import Conflict, Unavailable
from app.services.privacy import document_texts, export_requests
from app.services.security import audit, encryption_keys, recipients
from app.store.core import database
from app.store.privacy import request_log
from app.store.privacy.exports import Export

_PAGES: Final[dict[str, tuple[str, Callable[[Any, Texts], str]]]] = {
    "access": ("memories.jsonl", export_page.render_access_memory),
    "portable": ("given.jsonl", export_page.render_portable_memory),
}
"""By kind of export: the file that the HTML page shows, and the function that renders a line of the file."""
_PERMISSIONS: Final = 0o600 << 16


class _Sink(io.RawIOBase):
    """An unseekable buffer: the zip is written into it, and the written bytes are taken out piece by piece."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: Any) -> int:
        self._held += data
        return len(data)

    def drain(self) -> bytes:
        data = bytes(self._held)
        self._held.clear()
        return data


@dataclass(slots=True)
class _Bundle:
    """An export being streamed.

    Attributes:
        key: Key that decrypts the export's parts.
        recipients: Hosts that received the tenant's memories, for exports of kind `access` (GDPR Art. 15 (1) c).
        request: The request that the export answers.
        files: Manifest entries of the files written so far.
        damaged: Ids of memories whose text in cold storage can't be read.
        page: The sections of the readable page, known once the memories' file has been written.
    """

    tenant_id: UUID
    export: Export
    key: bytes
    recipients: list[dict[str, Any]]
    request: AnsweredRequest
    files: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    page: PageContents = field(default_factory=PageContents)

    def parts(self, file: str) -> Iterator[bytes]:
        """Yield the decrypted parts of a file."""
        objects = self.export.objects
        for number, (name, _) in enumerate(self.export.parts):
            if name == file:
                path = export_requests.part_path(self.tenant_id, self.export.export_id, objects[number])
                sealed = cold_store().get(path)
                associated_data = part_associated_data(self.tenant_id.bytes + self.export.export_id.bytes, number)
                yield encryption.unseal(self.key, sealed, associated_data)

    def read(self) -> Iterator[bytes]:
        """Yield the HTML page in pieces."""
        export, texts, page = self.export, document_texts.read(), self.page
        finished_at = texts.moment(export.finished_at)
        yield export_page.render_head(
            export.kind, export.subject or "", finished_at, page, self.request, texts
        ).encode()
        file, render_line = _PAGES[export.kind]
        numbers = count(1)
        for part in self.parts(file):
            lines = [msgspec.json.decode(line) for line in part.splitlines()]
            self.damaged += [line["memory"]["memory_id"] for line in lines if "damaged" in line]
            articles = (
                export_page.render_number(next(numbers), page, texts) + render_line(line, texts) for line in lines
            )
            yield "".join(articles).encode()
        files = {name: self.lines(name) for name in self.names()}
        recipients = self.recipients if export.kind == "access" else None
        yield export_page.render_foot(files, recipients, page, texts).encode()

    def counted(self, file: str) -> Iterator[bytes]:
        """Yield the decrypted parts of a file; the lines of the file that the page shows are counted in `page`."""
        for part in self.parts(file):
            if file == _PAGES[self.export.kind][0]:
                for line in part.splitlines():
                    self.page.count_line(line)
            yield part

    def names(self) -> list[str]:
        """Return the names of the JSON-lines files, in order."""
        return list(dict.fromkeys(name for name, _ in self.export.parts))

    def lines(self, file: str) -> int:
        """Return the number of lines in a file."""
        return sum(lines for name, lines in self.export.parts if name == file)

    def contents(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield every file except the manifest."""
        for name in self.names():
            yield name, self.counted(name)
        if self.export.kind == "portable":
            yield "given.schema.json", iter([msgspec.json.format(msgspec.json.encode(line_schema()), indent=2)])
        yield "index.html", self.read()

    def manifest(self) -> bytes:
        """Return the manifest: the export's description, its files and its unreadable memories."""
        export = self.export
        manifest = {
            "format": FORMAT,
            "export_id": export.export_id,
            "kind": export.kind,
            "subject": export.subject,
            "law": export.law,
            "controller": self.request.controller,
            "case_reference": self.request.case_reference,
            "requested_at": export.requested_at,
            "finished_at": export.finished_at,
            "files": self.files,
            "damaged": self.damaged,
        } | ({"recipients": self.recipients} if export.kind == "access" else {})
        return msgspec.json.format(msgspec.json.encode(manifest), indent=2)


def stream_archive(tenant_id: UUID, export_id: UUID, actor: str) -> Iterator[bytes]:
    """Check that an export is ready, write an audit entry, and return the export's zip as a stream.

    Args:
        actor: Id of the caller's key, for the audit log.

    Raises:
        NotFound: This tenant has no such export.
        Conflict: The export has expired or failed.
        Unavailable: The export isn't ready yet.
        Misconfigured: The master key is missing or has changed.
    """
    with database.tenant(tenant_id) as tx:
        export = export_requests.get_or_404(tx, tenant_id, export_id)
        key = encryption_keys.open_record_keys(tx, tenant_id, [export_id]).get(export_id)
        if export.status == "running":
            raise Unavailable("this export isn't ready yet", retry_after_seconds=2)
        if export.status != "ready" or key is None or export.expires_at <= database.now(tx):
            reason = "has failed: request a new export" if export.status == "failed" else "has expired"
            raise Conflict(f"this export {reason}")
        recipient_hosts = recipients.list_recipients(tx, tenant_id) if export.kind == "access" else []
        logged = request_log.get(tx, tenant_id, export_id)
        audit.append(tx, tenant_id, "export_fetched", actor, subject=export.subject, details={"export": str(export_id)})
    answered = AnsweredRequest.read(logged) if logged else AnsweredRequest(str(export_id))
    return _zipped(_Bundle(tenant_id, export, key, recipient_hosts, answered))


def _zipped(bundle: _Bundle) -> Iterator[bytes]:
    sink = _Sink()
    with ZipFile(sink, "w") as archive:
        for name, pieces in bundle.contents():
            digest, size = sha256(), 0
            with archive.open(_entry(bundle, name), "w", force_zip64=True) as target:
                for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
                    target.write(piece)
                    yield sink.drain()
            entry = {"name": name, "bytes": size, "sha256": digest.hexdigest()}
            bundle.files.append(entry | ({"lines": bundle.lines(name)} if name in bundle.names() else {}))
        archive.writestr(_entry(bundle, "manifest.json"), bundle.manifest())
    yield sink.drain()


def _entry(bundle: _Bundle, name: str) -> ZipInfo:
    entry = ZipInfo(name, (bundle.export.finished_at or bundle.export.requested_at).timetuple()[:6])
    entry.compress_type, entry.external_attr = ZIP_DEFLATED, _PERMISSIONS
    return entry
