"""Health checks: each failing dependency is named, with its cause and no secrets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app import heartbeats, queues
from app.api.http.health_listener import describe_start
from app.clients.redis import probing, stream
from app.clients.redis.connection import ResponseError
from app.dashboard import sessions
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.monitoring import doctor_stores, probes, stats, status
from app.store.core import database, migrate
from app.supervisor import lock_home
from app.system.running_home import ProcessNote
from tests.service import Service

NOWHERE = "postgresql://nobody:secret-4711@127.0.0.1:1/none"


def unwell() -> dict[str, str]:
    """Return the detail of each unhealthy dependency, by name."""
    return {found.name: found.detail for found in probes.readiness() if found.severity != "ok"}


def reopen(service: Service, **urls: str) -> None:
    service.configure(**urls)
    database.close()
    stream.close()


def test_where_all_is_well_nothing_is_named(service: Service) -> None:
    assert unwell() == {}
    assert {found.name for found in probes.readiness()} >= {"postgresql", "schema", "redis"}


def test_a_database_that_is_away_is_named_without_its_password(service: Service) -> None:
    reopen(service, database_url=NOWHERE)
    [(name, detail)] = unwell().items()
    assert name == "postgresql"
    assert "secret-4711" not in detail
    assert describe_start()[0] == 200


def test_a_redis_that_is_away_is_named(service: Service) -> None:
    reopen(service, redis_url="redis://:secret-4711@127.0.0.1:1/0")
    [(name, detail)] = unwell().items()
    assert name == "redis"
    assert "secret-4711" not in detail


@pytest.fixture
def silent(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """A Redis that accepts connections and never answers; the function returns the number of new connections."""
    monkeypatch.setattr(probing, "TIMEOUT_SECONDS", 0.2)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        reopen(service, redis_url=f"redis://127.0.0.1:{server.getsockname()[1]}/0")

        def count() -> int:
            accepted = 0
            with suppress(BlockingIOError):
                while True:
                    server.accept()[0].close()
                    accepted += 1
            return accepted

        yield count


def test_a_redis_that_hangs_is_waited_for_once_and_named_with_its_process(
    service: Service, silent: Callable[[], int], tmp_path: Path
) -> None:
    assert "can't be reached" in unwell()["redis"]
    assert silent() == 1, "a command that timed out isn't repeated"
    service.configure(home=tmp_path)
    with lock_home(tmp_path):
        ProcessNote(tmp_path).set("redis", os.getpid())
        [found] = [one for one in probes.readiness() if one.code == "redis"]
    assert found.what == f"Redis hangs: its process {os.getpid()} hasn't answered for 0.2 s"
    assert (found.todo, found.command) == (
        "end the process, which is started again at once",
        f"kill -KILL {os.getpid()}",
    )


def test_the_other_probes_of_a_round_do_not_ask_a_redis_that_hangs(service: Service, silent: Callable[[], int]) -> None:
    tenant = service.tenant()
    silent()
    status.forget()
    for every in (False, True):
        found = status.now(tenant.tenant_id, every=every)
        assert found.findings[0].code == "redis"
        assert silent() == 1
    assert not sessions.has_ended(sessions.Session("key", tenant.tenant_id, 0, "nonce"))
    assert silent() == 1
    assert list(doctor_stores.examine_processes()) == []
    assert silent() == 1


def test_a_schema_that_is_behind_says_what_to_do(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = migrate.newest_revision()
    monkeypatch.setattr("app.store.core.migrate.newest_revision", lambda: "9999")
    detail = unwell()["schema"]
    assert "9999" in detail
    assert newest in detail
    status, shown = describe_start()
    assert (status, [one["name"] for one in shown["dependencies"]]) == (503, ["schema"])
    assert "ebbing migrate" in detail


def test_an_empty_database_says_what_to_do(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.core.migrate.current_revision", lambda _tx: None)
    assert "ebbing migrate" in unwell()["schema"]
    assert describe_start()[0] == 503


def test_the_schema_of_the_next_version_serves_this_one_while_an_upgrade_rolls(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.core.migrate.current_revision", lambda _tx: "9999")
    assert unwell() == {}
    assert describe_start()[0] == 200
    [schema] = [found for found in probes.readiness() if found.name == "schema"]
    assert schema.detail == "revision 9999, from a newer version"


def test_a_role_that_passes_by_row_level_security_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not database.bypasses_row_security()
    with monkeypatch.context() as patched:
        patched.setitem(database._engines, "ebbing_app", database.engine("ebbing_drain"))
        assert database.bypasses_row_security()
    monkeypatch.setattr("app.store.core.database.bypasses_row_security", lambda: True)
    assert "row-level security" in unwell()
    assert describe_start()[0] == 503


def test_a_lane_is_silent_until_its_worker_is_heard_of(service: Service) -> None:
    assert heartbeats.heartbeat_ages() == dict.fromkeys(heartbeats.SOURCES)
    heartbeats.record_heartbeat(queues.INGEST)
    ages = heartbeats.heartbeat_ages()
    heard = ages.pop(queues.INGEST)
    assert heard is not None
    assert 0 <= heard < 60
    assert set(ages.values()) == {None}


def test_a_clock_that_went_back_makes_no_negative_age(service: Service) -> None:
    service.redis.hset("ebbing:{s0}:heartbeats", queues.EMBED, 2**45)
    assert heartbeats.heartbeat_ages()[queues.EMBED] == 0


def test_numbers_follow_a_memory_through_every_stage(service: Service) -> None:
    tenant, other = service.tenant(), service.tenant()
    service.send(tenant.tenant_id, "one", "two", "three")
    service.send(other.tenant_id, "elsewhere")
    seen = stats.tenant_stats(tenant.tenant_id)
    assert seen.pending == {"ingest": 3, "index": 0, "embed": 0, "score": 0, "rate": 0}
    assert seen.memories == {"active": 0, "archived": 0, "cold": 0}
    assert seen.lanes["ingest"].depth == 3
    assert seen.lanes["ingest"].oldest_age_seconds >= 0
    drain.drain_streams()
    seen = stats.tenant_stats(tenant.tenant_id)
    assert seen.pending == {"ingest": 0, "index": 3, "embed": 3, "score": 3, "rate": 0}
    assert seen.memories["active"] == 3
    assert stats.lane_backlogs()["embed"].depth == 4
    stage_runner.run_index_stage()
    stage_runner.embed()
    stage_runner.run_score_stage()
    seen = stats.tenant_stats(tenant.tenant_id)
    assert set(seen.pending.values()) == {0}
    assert {lane.depth for lane in seen.lanes.values()} == {0}
    service.post(tenant.tenant_id, b"no JSON")
    drain.drain_streams()
    assert stats.tenant_stats(tenant.tenant_id).dead_letters == 1
    assert stats.tenant_stats(other.tenant_id).dead_letters == 0


def test_a_redis_that_refuses_writes_is_not_ready(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise ResponseError("OOM command not allowed when used memory > 'maxmemory'.")

    monkeypatch.setattr(probing.probe_client(), "set", full)
    assert "refuses writes" in unwell()["redis"]
    assert describe_start()[0] == 200, "a restarted process answers as one that was there before"
