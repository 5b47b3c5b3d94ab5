"""A backup made by ops/runbook.md is complete: restored on an empty server, everything is as before."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from app.domain.privacy.legal_hold import Scope
from app.domain.search.request import SearchRequest
from app.embedded import Postgres, Redis, ServerOptions, free_ports
from app.services.ingest import drain
from app.services.privacy import legal_holds
from app.services.search import search
from app.services.security import audit
from app.services.tiers import cold_restore
from app.store.core import database
from tests.privacy.drill import COLD, HOT, RUNBOOK, Drill, drill
from tests.service import Service, forget, inside
from tests.services.aged import days

__all__ = ["drill"]

TABLES = sql.SQL(
    "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'ebbing_keys') ORDER BY 1, 2"
)
SUM = sql.SQL("SELECT count(*), md5(string_agg(row::text, '' ORDER BY row::text)) FROM {} row")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that servers of another user may enter; subfolders set their own modes."""
    path = Path(tempfile.mkdtemp(prefix="ebbing-backup-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def empty_server(folder: Path) -> Iterator[str]:
    """URL of a new, empty server."""
    home = folder / "postgres"
    home.mkdir()
    server = Postgres(home, free_ports(1)[0], ServerOptions(durable=False, data_root=folder / "data"))
    process = server.start()
    yield server.url
    database.close()
    server.stop(process)


def contents(service: Service) -> dict[str, tuple[int, str]]:
    """Return row count and checksum of every table, those of the key store included."""
    with psycopg.connect(service.database_url) as owner:
        names = owner.execute(TABLES).fetchall()
        found = {name: owner.execute(SUM.format(sql.Identifier(*name))).fetchone() for name in names}
    return {".".join(name): value for name, value in found.items() if value is not None}


def strengths(service: Service, tenant_id: Any) -> list[tuple[Any, ...]]:
    """Search as of a future time and return ids, scores and strengths."""
    wanted = SearchRequest(query="Bob tea Ann Wroclaw", as_of=days(500), reinforce=False)
    found = search.find_memories(tenant_id, wanted).results
    return [(each.id, each.score, each.strength) for each in found]


@pytest.mark.slow
def test_all_is_as_it_was_on_a_server_that_had_nothing(drill: Drill, empty_server: str) -> None:
    other = drill.service.tenant().tenant_id
    drill.service.send(other, {"text": "another tenant's", "tags": ["commitment"]}, "and small talk")
    drill.service.post(other, b"no JSON", memories=1)
    legal_holds.place_hold(other, Scope(subject="orla"), "court", "key")
    drill.erase(subject="nobody")
    drill.service.work()
    before = contents(drill.service), strengths(drill.service, drill.tenant_id)
    filled = {name for name, (rows, _) in before[0].items() if rows}
    assert filled >= {
        *("public.memories", "public.memory_state", "public.embeddings", "public.cold_memories", "public.audit"),
        *("public.dead_letters", "public.holds", "public.erasures", "public.envelopes", "ebbing_keys.erasure_ledger"),
    }
    assert before[1]

    drill.dump()
    shutil.rmtree(drill.folder / "cold")
    drill.restore(empty_server)

    after = contents(drill.service), strengths(drill.service, drill.tenant_id)
    assert after == before
    assert drill.unwell() == {}
    for tenant_id in (drill.tenant_id, other):
        verified = audit.verify(tenant_id)
        assert (verified.broken, verified.finished) == (None, True)
    assert cold_restore.restore(drill.tenant_id, [drill.cold_id]).restored == [drill.cold_id]
    assert COLD in drill.service.texts(drill.tenant_id)
    assert not database.bypasses_row_security()


def test_what_was_accepted_and_not_stored_is_stored_once_in_the_restored_database(drill: Drill) -> None:
    drill.service.send(drill.tenant_id, "stored before the dump")
    drain.drain_streams()
    drill.service.send(drill.tenant_id, "waits at the dump")
    drill.dump()
    drill.service.send(drill.tenant_id, "accepted after it")
    drill.restore()
    drill.service.work()
    texts = drill.service.texts(drill.tenant_id)
    for text in ("stored before the dump", "waits at the dump", "accepted after it", HOT):
        assert texts.count(text) == 1
    assert drill.service.is_idle()


@pytest.mark.slow
def test_redis_moves_with_its_append_only_file(
    database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ServerOptions(data_root=folder / "data")
    old, new = (_redis(folder / name, options) for name in ("old", "new"))
    process = old.start()
    with inside(database_url, old.url, monkeypatch) as service:
        tenant_id = service.tenant().tenant_id
        service.send(tenant_id, "one", "two")
        service.send(tenant_id, "three")
        old.stop(process)

        new.prepare()
        [command] = [line for line in RUNBOOK.read_text().splitlines() if line.startswith("cp -a ")]
        folders = {"REDIS_FOLDER": str(old.folder), "NEW_REDIS_FOLDER": str(new.folder)}
        subprocess.run(["/bin/bash", "-euc", command], env={"PATH": "/usr/bin:/bin", **folders}, check=True)
        process = new.start()
        try:
            service.configure(redis_url=new.url)
            forget()
            drain.drain_streams()
            assert service.texts(tenant_id) == ["one", "two", "three"]
        finally:
            forget()
            new.stop(process)


def _redis(home: Path, options: ServerOptions) -> Redis:
    home.mkdir()
    return Redis(home, free_ports(1)[0], options)
