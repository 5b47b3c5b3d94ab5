"""`/v1/imports`: uploads in parts, limits, the report without content, and other tenants' imports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.clients.object_store import cold_store
from app.services.jobs import runner
from app.settings import settings
from tests.api.caller import Api
from tests.domain.imports.reading import lines
from tests.services.export_store import MASTER_KEY


@pytest.fixture
def door(api: Api, tmp_path: Path) -> Iterator[Api]:
    api.service.configure(cold_url=(tmp_path / "cold").as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    yield api
    cold_store.cache_clear()


def work(api: Api, job_id: str) -> None:
    api.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
    runner.run_slice(api.service.one("SELECT job_id FROM jobs WHERE job_id = %s", job_id))


def test_an_upload_in_parts_is_imported_and_reported_by_line(door: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("app.api.memories.imports", "app.services.privacy.import_files"):
        monkeypatch.setattr(f"{module}.PART_BYTES", 100)
    content = lines(*({"body": f"a heron {place}", "when": 1_772_359_200 + place} for place in range(40)))
    content += b'{"body": "a secret", "when": "yesterday"}\n'
    params = {"format": "jsonl", "map": "text=body,occurred_at=when", "subject": "ann"}
    started = door.post("/v1/imports", content=content, params=params)
    assert started.status_code == 202, started.text
    work(door, started.json()["job_id"])
    made = door.get(f"/v1/imports/{started.json()['id']}").json()
    assert (made["status"], made["counts"], made["records"]) == ("done", {"stored": 40, "skipped": 1}, 41)
    assert [entry["line"] for entry in made["skipped"]] == [41]
    assert "secret" not in str(made)
    assert "yesterday" not in str(made)
    found = door.get("/v1/memories", params={"subject": "ann"}).json()["memories"]
    assert len(found) == 40
    assert door.get("/v1/imports").json()["imports"][0]["id"] == made["id"]


@pytest.mark.parametrize(
    ("params", "status", "field"),
    [
        ({"format": "xml"}, 422, "format"),
        ({"format": "jsonl", "map": "text"}, 422, "map"),
        ({"format": "jsonl", "subject": "x" * 600}, 422, "subject"),
        ({"format": "memory-decay", "tick_seconds": "0"}, 422, "tick_seconds"),
        ({"format": "jsonl", "fromat": "x"}, 422, "fromat"),
        ({}, 422, "format"),
    ],
)
def test_faults_of_the_request_are_named(door: Api, params: dict[str, str], status: int, field: str) -> None:
    refused = door.post("/v1/imports", content=b"{}", params=params)
    assert refused.status_code == status, refused.text
    assert field in refused.json()["errors"][0]["field"]


def test_a_file_over_the_limit_is_refused_and_nothing_of_it_remains(
    door: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("app.api.memories.imports", "app.services.privacy.import_files"):
        monkeypatch.setattr(f"{module}.PART_BYTES", 100_000)
    door.service.configure(import_max_bytes=1 << 20)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield b"x" * 100_000

    for content in (b"x" * ((1 << 20) + 1), pieces()):
        refused = door.post("/v1/imports", content=content, params={"format": "jsonl"})
        assert refused.status_code == 413, refused.text
    assert not [path for path in (tmp_path / "cold").rglob("*") if path.is_file()]


def test_without_a_master_key_nothing_is_stored(api: Api) -> None:
    api.service.monkeypatch.delenv("EBBING_MASTER_KEY", raising=False)
    settings.cache_clear()
    refused = api.post("/v1/imports", content=b"{}", params={"format": "jsonl"})
    assert refused.status_code == 409
