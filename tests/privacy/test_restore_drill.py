"""Points 12 and 13 (F23): an older dump comes back, and with it a person who was erased, whom nobody sees.

The commands are those of ops/runbook.md, run as they stand there.
"""

from __future__ import annotations

import json
import os
import re
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
from typer.testing import CliRunner

from app.cli import app
from app.clients.cold_store import cold_store
from app.domain.hold import Meant
from app.domain.retrieval.request import SearchRequest
from app.embedded.binaries import postgres_programs
from app.errors import NotReplayed
from app.services import erasures, health, holds, jobs, key_store, ledger, replays, search
from app.services.erasures import Asked
from app.settings import settings
from app.store import database
from app.store import erasures as rows
from tests.api.caller import Api
from tests.privacy import traces
from tests.service import Service, forget, inside
from tests.services.aged import Aged
from tests.services.chilled import MASTER_KEY, Chilled

RUNBOOK = Path(__file__).resolve().parents[2] / "ops" / "runbook.md"
COLD = "gooseberry " * 40
HOT = "Ann moved to Wroclaw"


class Drill:
    """A service whose data is dumped, loses a person, and is restored from before."""

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
        """Run the lines of the runbook that begin with a program."""
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
        """The key store alone, as its last dump is the newest."""
        kept = (self.folder / "data.dump").read_bytes()
        self.run("pg_dump", EBBING_OWNER_DATABASE_URL=self.service.database_url)
        (self.folder / "data.dump").write_bytes(kept)

    def restore(self) -> None:
        """Restore what is dumped into another database, and let the service use that."""
        name = f"restored_{token_hex(6)}"
        url = urlunsplit(urlsplit(self.servers_url)._replace(path=f"/{name}"))
        self.restored.append(name)
        self.run("createdb", SERVER_URL=self.servers_url, RESTORED=name)
        self.run("pg_restore", RESTORED_URL=url)
        shutil.copytree(self.folder / "copy", self.folder / "cold", dirs_exist_ok=True)
        self.service.close()
        self.service.configure(database_url=url)
        forget()
        self.service = Service(url, self.service.redis_url, self.service.redis, self.monkeypatch)

    def erase(self, **scope: Any) -> None:
        erasures.request(self.tenant_id, Asked(Meant(**scope), "gdpr", 0), "key")
        self.work()

    def work(self) -> None:
        """Carry out every job that is due."""
        for _ in range(50):
            due = self.service.rows("SELECT job_id FROM jobs WHERE status IN ('queued', 'running')")
            if not due:
                return
            for (job_id,) in due:
                self.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
                jobs.carry_on(job_id)
            self.service.work()
        raise AssertionError("jobs without an end")

    def drain(self) -> None:
        """What the worker of the lane `ingest` does on a nudge."""
        program = "from workers.tasks.ingest import drain; drain.run()"
        subprocess.run([sys.executable, "-c", program], cwd=RUNBOOK.parents[1], check=True, timeout=60)

    def people(self) -> list[str]:
        found = self.service.rows("SELECT DISTINCT subject FROM memories WHERE subject IS NOT NULL ORDER BY 1")
        return [name for (name,) in found]

    def unwell(self) -> dict[str, str]:
        return {found.name: found.detail for found in health.dependencies() if not found.well}

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


def test_who_was_erased_after_the_dump_is_seen_by_nobody_once_it_is_restored(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    assert drill.people() == ["ann", "bob"], "the older copy has them both"

    with Api(drill.service) as api:
        ready = api.get("/readyz", key=None)
        assert ready.status_code == 503
        [unwell] = [one for one in ready.json()["dependencies"] if not one["well"]]
        assert unwell["name"] == "erasures"
        assert unwell["detail"].startswith("erasures to replay: 1")
        assert "ebbing privacy replay" in unwell["detail"]
        for method, path in (("POST", "/v1/memories"), ("POST", "/v1/search"), ("GET", "/v1/memories")):
            refused = api.request(method, path, key="any")
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:ebbing:problem:not-replayed"
        assert api.get("/healthz", key=None).status_code == 200

        drill.service.send(drill.tenant_id, "a heron stood there")
        drill.drain()
        assert "a heron stood there" not in drill.service.texts(drill.tenant_id), "the drain waits"

        [expected] = replays.due()
        assert (expected.memories, expected.outcome) == (2, "due")
        assert drill.people() == ["ann", "bob"], "a dry run changes nothing"
        [done] = replays.replay()
        assert (done.memories, done.outcome) == (2, "erased")

        assert api.get("/readyz", key=None).status_code == 200
        assert api.request("GET", "/v1/memories", key="any").status_code == 401, "a key is asked for again"
    assert drill.people() == ["bob"]
    assert traces.in_tables(drill.service, "wroclaw") == []
    found = search.find(drill.tenant_id, SearchRequest(query="Ann Wroclaw", reinforce=False)).results
    assert not any("Ann" in each.text for each in found)
    drill.drain()
    assert "a heron stood there" in drill.service.texts(drill.tenant_id)
    assert list(replays.replay()) == []


def test_the_cold_text_of_who_was_erased_stays_closed_in_old_copies(drill: Drill) -> None:
    [segment] = (drill.folder / "cold").rglob("segments/*/*")
    assert any(b"gooseberry" in text for text in traces.opened(drill.tenant_id, segment.read_bytes()))
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    [old] = (drill.folder / "copy").rglob("segments/*/*")
    assert traces.opened(drill.tenant_id, old.read_bytes()) == [], "even before the replay"
    key_ids = [key for (key,) in drill.service.rows("SELECT key_id FROM cold_memories")]
    with database.tenant(drill.tenant_id) as tx:
        assert key_store.opened(tx, drill.tenant_id, key_ids) == {}
    list(replays.replay())
    assert drill.service.rows("SELECT FROM cold_memories") == []


def test_what_comes_late_about_them_is_dropped_as_before(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    list(replays.replay())
    [(cut,)] = drill.service.rows("SELECT cut FROM tombstones")
    with database.drain() as tx:
        assert rows.coming(tx, drill.tenant_id).last_cut_ms == int(cut.partition("-")[0])


def test_what_a_hold_of_the_copy_is_on_stays_hidden(drill: Drill) -> None:
    hold = holds.place(drill.tenant_id, Meant(memory_ids=[drill.cold_id]), "court", "key")
    drill.dump()
    holds.release(drill.tenant_id, hold.hold_id, "key")
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    [done] = replays.replay()
    assert done.outcome == "held"
    assert drill.unwell() == {}
    shown = drill.service.rows("SELECT memory_id FROM memories WHERE subject = 'ann' AND deleted_at IS NULL")
    assert shown == []
    holds.release(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]


def test_a_replay_that_was_broken_off_goes_on(drill: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.erase(subject="bob")
    drill.dump_keys()
    drill.restore()
    reached = iter(("replay.hidden", "erasing.memories", "replay.before_mark"))
    monkeypatch.setattr("app.failpoints.reach", _fails_at(reached))
    for _ in range(3):
        with pytest.raises(InterruptedError):
            list(replays.replay())
        assert "erasures" in drill.unwell()
    assert [one.outcome for one in replays.replay()][-1] in ("erased", "nothing")
    assert drill.people() == []
    assert drill.unwell() == {}


def _fails_at(names: Iterator[str]) -> Any:
    wanted = [next(names)]

    def reach(name: str, _about: str = "") -> None:
        if wanted and name == wanted[0]:
            wanted[:] = [following] if (following := next(names, None)) else []
            raise InterruptedError

    return reach


def test_without_the_key_store_it_says_so_and_serves_nobody(drill: Drill) -> None:
    drill.dump()
    drill.restore()
    drill.service.rows("DROP SCHEMA ebbing_keys CASCADE")
    forget()
    assert "the key store is missing" in drill.unwell()["erasures"]
    with pytest.raises(NotReplayed):
        ledger.check()


def test_an_older_key_store_is_said_to_be_one(drill: Drill) -> None:
    drill.dump()
    older = (drill.folder / "keys.dump").read_bytes()
    drill.erase(subject="ann")
    drill.dump()
    (drill.folder / "keys.dump").write_bytes(older)
    drill.restore()
    assert "the key store is older than the data" in drill.unwell()["erasures"]
    ledger.accept_key_store()
    assert drill.unwell() == {}


def test_what_was_erased_in_two_goes_is_replayed_to_a_copy_from_between(drill: Drill) -> None:
    hold = holds.place(drill.tenant_id, Meant(memory_ids=[drill.cold_id]), "court", "key")
    drill.erase(subject="ann")
    assert drill.people() == ["ann", "bob"]
    drill.dump()
    holds.release(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]
    drill.dump_keys()
    drill.restore()
    assert drill.people() == ["ann", "bob"]
    assert drill.unwell()["erasures"].startswith("erasures to replay: 1")
    assert [done.outcome for done in replays.replay()] == ["held"], "the hold is back with the copy"
    holds.release(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]
    assert drill.unwell() == {}


def test_what_another_tenant_has_stays(drill: Drill) -> None:
    other = drill.service.tenant().tenant_id
    drill.service.send(other, {"text": "another Ann", "subject": "ann"})
    drill.service.work()
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    list(replays.replay())
    assert drill.service.texts(other) == ["another Ann"]


def test_migrating_replays_so_that_a_start_does(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    done = CliRunner().invoke(app, ["migrate"])
    assert "erasures replayed: 1" in done.stderr, done.output
    assert drill.people() == ["bob"]
    assert drill.unwell() == {}


def test_the_command_tells_what_it_has_done(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    settings.cache_clear()
    listed = CliRunner().invoke(app, ["privacy", "replay", "--dry-run", "--json"])
    assert json.loads(listed.stdout)["replayed"][0]["outcome"] == "due", listed.output
    done = CliRunner().invoke(app, ["privacy", "replay"])
    assert "1 erased" in done.stdout
    assert "nothing to replay" in CliRunner().invoke(app, ["privacy", "replay"]).stdout


def test_backups_are_made_as_the_runbook_says_without_the_keys() -> None:
    written = RUNBOOK.read_text()
    [data] = re.findall(r"^pg_dump .*--file=data.dump$", written, flags=re.MULTILINE)
    assert "--exclude-schema=ebbing_keys" in data
    assert "EBBING_BACKUP_DAYS" in written
