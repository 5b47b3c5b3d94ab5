"""A tenant into which files are imported, with a local object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.clients.object_store import cold_store
from app.domain.imports.items import ImportOptions
from app.services.ingest import import_requests
from app.services.jobs import runner
from app.services.privacy.import_files import PART_BYTES
from app.store.ingest.imports import Import
from tests.service import Service
from tests.services.export_store import MASTER_KEY

__all__ = ["importer"]


class Importer:
    """A tenant that imports files."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.tenant_id = service.tenant().tenant_id

    def upload(self, format_name: str, content: bytes, *, dry_run: bool = False, **options: Any) -> Import:
        file = import_requests.begin_upload(self.tenant_id, format_name, ImportOptions(**options))
        for start in range(0, len(content), PART_BYTES):
            file.write(content[start : start + PART_BYTES])
        return import_requests.finish_upload(file, format_name, "key", dry_run=dry_run)

    def work(self, started: Import) -> Import:
        """Run the job of an import until it has ended."""
        for _ in range(50):
            self.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", started.job_id)
            runner.run_slice(started.job_id)
            status = self.service.one("SELECT status FROM jobs WHERE job_id = %s", started.job_id)
            if status not in {"queued", "running"}:
                return self.get(started)
        raise AssertionError("a job without an end")

    def run(self, format_name: str, content: bytes, *, dry_run: bool = False, **options: Any) -> Import:
        return self.work(self.upload(format_name, content, dry_run=dry_run, **options))

    def get(self, started: Import) -> Import:
        return import_requests.get(self.tenant_id, started.import_id)

    def texts(self) -> list[str]:
        rows = self.service.rows(
            "SELECT text FROM memories WHERE tenant_id = %s AND deleted_at IS NULL ORDER BY seq, memory_id",
            self.tenant_id,
        )
        return [text for (text,) in rows]

    def id_of(self, external_id: str) -> UUID:
        found: UUID = self.service.one(
            "SELECT memory_id FROM memories WHERE tenant_id = %s AND external_id = %s", self.tenant_id, external_id
        )
        return found

    def objects(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("imports/*/*/*") if path.is_file())


@pytest.fixture
def importer(service: Service, tmp_path: Path) -> Iterator[Importer]:
    folder = tmp_path / "cold"
    service.configure(cold_url=folder.as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    yield Importer(service, folder)
    cold_store.cache_clear()
