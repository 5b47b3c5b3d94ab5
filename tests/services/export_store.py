"""A tenant whose subjects' data is exported into a local store."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID
from zipfile import ZipFile

import pytest

from app.clients.object_store import cold_store
from app.domain.privacy.export import ExportKind, NewExport
from app.services.jobs import runner
from app.services.privacy import export_archive, export_requests
from app.store.privacy.exports import Export
from tests.service import Service

__all__ = ["vault"]

MASTER_KEY = "a master key of tests, as long as it must be"


class Vault:
    """A tenant with exports in a local store."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.tenant_id = service.tenant().tenant_id

    def remember(self, *memories: dict[str, Any]) -> list[UUID]:
        ids = self.service.send(self.tenant_id, *memories)
        self.service.work()
        return ids

    def ask(self, kind: ExportKind = "access", subject: str = "ann") -> Export:
        return export_requests.request_export(self.tenant_id, NewExport(subject, kind, "gdpr", "asked by mail"), "key")

    def work(self, job_id: UUID) -> None:
        """Carry out a job until it has ended."""
        for _ in range(20):
            self.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
            runner.run_slice(job_id)
            if self.status(job_id) not in {"queued", "running"}:
                return
        raise AssertionError("a job without an end")

    def status(self, job_id: UUID) -> str:
        return str(self.service.one("SELECT status FROM jobs WHERE job_id = %s", job_id))

    def made(self, kind: ExportKind = "access", subject: str = "ann") -> Export:
        asked = self.ask(kind, subject)
        self.work(asked.job_id)
        return export_requests.get(self.tenant_id, asked.export_id)

    def opened(self, export: Export) -> dict[str, bytes]:
        """Return the files in an export's zip archive by name."""
        with ZipFile(
            io.BytesIO(b"".join(export_archive.stream_archive(self.tenant_id, export.export_id, "key")))
        ) as archive:
            assert archive.testzip() is None
            return {name: archive.read(name) for name in archive.namelist()}

    def lines(self, export: Export, file: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.opened(export).get(file, b"").splitlines()]

    def objects(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("exports/*/*/*") if path.is_file())


@pytest.fixture
def vault(service: Service, tmp_path: Path) -> Iterator[Vault]:
    folder = tmp_path / "cold"
    service.configure(cold_url=folder.as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    yield Vault(service, folder)
    cold_store.cache_clear()
