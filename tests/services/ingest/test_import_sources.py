"""Sources of imported memories: `import`, or as in the tenant's dump; never above that of the importing key."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.ingest.sources import SOURCES, Source
from app.domain.policy import api_keys
from app.services.ingest import import_requests
from app.services.privacy import dump
from app.services.tenants import tenants
from tests.services.ingest.import_store import Importer, importer

__all__ = ["importer"]


def key_of(importer: Importer, source: Source) -> str:
    parsed = api_keys.parse(tenants.issue_key(importer.tenant_id, source, source=source))
    assert parsed is not None
    return parsed.key_id


def run(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, key_id: str, name: str, content: bytes, **more: Any
) -> None:
    finish = import_requests.finish_upload

    def by_key(file: Any, format_name: str, _: str, *, dry_run: bool) -> Any:
        return finish(file, format_name, key_id, dry_run=dry_run)

    with monkeypatch.context() as patched:
        patched.setattr(import_requests, "finish_upload", by_key)
        assert importer.run(name, content).status == "done"


def stored(importer: Importer) -> list[tuple[str | None, str | None]]:
    return [
        tuple(row)
        for row in importer.service.rows(
            "SELECT source, written_by FROM memories WHERE tenant_id = %s ORDER BY seq", importer.tenant_id
        )
    ]


@pytest.mark.parametrize(("source", "kept"), [("user", "import"), ("import", "import"), ("unknown", None)])
def test_a_file_cant_raise_its_memories_above_an_import(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, source: Source, kept: str | None
) -> None:
    key_id = key_of(importer, source)
    lines = b'{"text": "copied", "source": "user"}\n{"text": "upserted", "source": "user", "id": "a"}\n'
    run(importer, monkeypatch, key_id, "jsonl", lines)
    run(importer, monkeypatch, key_id, "jsonl", lines.replace(b"upserted", b"changed"))
    assert set(stored(importer)) == {(kept, key_id)}


@pytest.mark.parametrize("source", ["user", "agent", "unknown"])
def test_a_dump_keeps_sources_as_far_as_the_key_allows(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    ids = importer.service.send(importer.tenant_id, *(f"text {name}" for name in SOURCES))
    importer.service.work()
    for memory_id, name in zip(ids, SOURCES, strict=True):
        importer.service.rows(
            "UPDATE memories SET source = nullif(%s, 'unknown'), written_by = 'first' WHERE memory_id = %s",
            *(name, memory_id),
        )
    content = b"".join(dump.stream_dump(importer.tenant_id, "key"))
    for table in ("memories", "memory_state", "scores", "memory_events", "memory_words", "embeddings"):
        importer.service.rows(f"DELETE FROM {table} WHERE tenant_id = %s", importer.tenant_id)  # noqa: S608
    key_id = key_of(importer, source)
    run(importer, monkeypatch, key_id, "dump", content)
    lowest = {name: max(SOURCES.index(name), SOURCES.index(source)) for name in SOURCES}
    expected = [(None if SOURCES[lowest[name]] == "unknown" else SOURCES[lowest[name]], "first") for name in SOURCES]
    assert stored(importer) == expected
    loaded = importer.service.rows("SELECT DISTINCT key_id FROM memory_writers")
    assert loaded == [(key_id,)]
