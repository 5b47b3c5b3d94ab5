"""A service that is dumped, damaged and restored by the verbatim commands of ops/runbook.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.clients.object_store import cold_store
from app.domain.privacy.legal_hold import Scope
from app.embedded.binaries import postgres_programs
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.monitoring import probes
from app.store.core import migrate
from tests.service import Service, forget, inside
from tests.services.aged import Aged
from tests.services.cold_due import MASTER_KEY, Chilled
from tests.services.due_deletions import UNFINISHED, worked
from tests.waiting import PATIENCE_SECONDS

RUNBOOK = Path(__file__).resolve().parents[2] / "ops" / "runbook.md"
COLD = "gooseberry " * 40
HOT = "Ann moved to Wroclaw"


NEWEST_OF_KEYS = "0025"
"""The newest revision that changes the key store."""


class Drill:
    """A service that is dumped, then erases a person, and is then restored from the dump."""

    def __init__(self, service: Service, servers_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service, self.monkeypatch, self.folder = service, monkeypatch, folder
        self.servers_url = servers_url
        service.configure(cold_url=(folder / "cold").as_uri(), master_key=MASTER_KEY)
        cold_store.cache_clear()
        self.aged = Aged(service, monkeypatch)
        self.tenant_id = self.aged.tenant_id
        chilled = Chilled(self.aged, folder / "cold")
        [self.cold_id] = chilled.remember(COLD, subject="ann")
        assert chilled.cool() == 1
        self.restored: list[str] = []
        service.send(self.tenant_id, {"text": HOT, "subject": "ann"}, {"text": "Bob likes tea", "subject": "bob"})
        service.work()

    def run(self, program: str, **more: str) -> None:
        """Run the runbook's lines that begin with this program."""
        lines = [line for line in RUNBOOK.read_text().splitlines() if line.startswith(f"{program} ")]
        assert lines
        programs = postgres_programs(None, self.folder)
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", **more}
        for line in lines:
            subprocess.run(["/bin/bash", "-euc", line], env=environment, cwd=self.folder, check=True)

    def dump(self) -> None:
        self.run("pg_dumpall", EBBING_OWNER_DATABASE_URL=self.service.database_url)
        self.run("pg_dump", EBBING_OWNER_DATABASE_URL=self.service.database_url)
        shutil.copytree(self.folder / "cold", self.folder / "copy", dirs_exist_ok=True)

    def dump_keys(self) -> None:
        """Dump the key store only, so that its dump is newer than the data's."""
        kept = (self.folder / "data.dump").read_bytes()
        self.run("pg_dump", EBBING_OWNER_DATABASE_URL=self.service.database_url)
        (self.folder / "data.dump").write_bytes(kept)

    def restore(self, server_url: str | None = None) -> None:
        """Restore the dumps into another database (on an empty server if given), and switch the service to it."""
        name = f"restored_{token_hex(6)}"
        url = urlunsplit(urlsplit(server_url or self.servers_url)._replace(path=f"/{name}"))
        if server_url is None:
            self.restored.append(name)
        else:
            self.run("psql", SERVER_URL=server_url)
        self.run("createdb", SERVER_URL=server_url or self.servers_url, RESTORED=name)
        self.run("pg_restore", RESTORED_URL=url)
        shutil.copytree(self.folder / "copy", self.folder / "cold", dirs_exist_ok=True)
        self.service.close()
        self.service.configure(database_url=url)
        forget()
        self.service = Service(url, self.service.redis_url, self.service.redis, self.monkeypatch)

    def restore_down_and_up(self, revision: str) -> None:
        """Restore a current dump, then downgrade the schema to a revision and upgrade it again."""
        self.dump()
        self.restore()
        migrate.downgrade(self.service.database_url, revision)
        migrate.upgrade(self.service.database_url)

    def let_data_be_of(self, revision: str, *statements: str) -> None:
        """Revert the data's schema to a revision while the keys remain newer.

        The statements revert the revisions that also changed the keys, up to `NEWEST_OF_KEYS`; the rest are downgraded.
        """
        migrate.downgrade(self.service.database_url, NEWEST_OF_KEYS)
        for statement in (*statements, f"UPDATE alembic_version SET version_num = '{revision}'"):  # noqa: S608 - constants
            self.service.rows(statement)

    def erase(self, **scope: Any) -> None:
        requests.request(self.tenant_id, ErasureOptions(Scope(**scope), "gdpr", 0), "key")
        self.work()

    def work(self) -> None:
        """Run every due job."""
        worked(self.service, UNFINISHED)

    def drain(self) -> None:
        """Run the drain task in a new process, as a worker of the lane `ingest` does on a nudge."""
        program = "from workers.tasks.ingest import drain; drain.apply(throw=True)"
        subprocess.run([sys.executable, "-c", program], cwd=RUNBOOK.parents[1], check=True, timeout=PATIENCE_SECONDS)

    def people(self) -> list[str]:
        found = self.service.rows("SELECT DISTINCT subject FROM memories WHERE subject IS NOT NULL ORDER BY 1")
        return [name for (name,) in found]

    def unwell(self) -> dict[str, str]:
        return {found.name: found.detail for found in probes.readiness() if found.severity != "ok"}

    def drop(self) -> None:
        self.service.close()
        with psycopg.connect(self.servers_url, autocommit=True) as server:
            for name in self.restored:
                server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def drill(
    servers: Any,
    database_url: str,
    redis_url: str,
    logged_redis: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Drill]:
    with inside(database_url, redis_url, monkeypatch) as service:
        opened = Drill(service, servers.database_url, tmp_path, monkeypatch)
        yield opened
        opened.drop()
        cold_store.cache_clear()
