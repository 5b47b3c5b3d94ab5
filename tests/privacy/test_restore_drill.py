"""Points 12 and 13 (F23): after restoring an older dump, erased people are not visible to anyone.

The commands are those of ops/runbook.md, run verbatim.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.domain.privacy.legal_hold import Scope
from app.domain.search.request import SearchRequest
from app.errors import NotReplayed
from app.services.erasure import ledger, restore_replay
from app.services.privacy import legal_holds
from app.services.search import search
from app.services.security import encryption_keys
from app.settings import settings
from app.store.core import database
from app.store.erasure import requests
from app.supervisor.service_children import running_database
from tests.api.caller import Api
from tests.privacy import traces
from tests.privacy.drill import HOT, RUNBOOK, Drill, drill
from tests.service import forget

__all__ = ["drill"]


@pytest.mark.acceptance(12)
def test_who_was_erased_after_the_dump_is_seen_by_nobody_once_it_is_restored(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    assert drill.people() == ["ann", "bob"], "the older copy contains both"

    with Api(drill.service) as api:
        ready = api.get("/readyz", key=None)
        assert ready.status_code == 503
        [unwell] = [one for one in ready.json()["dependencies"] if not one["well"]]
        assert unwell["name"] == "erasures"
        assert unwell["detail"].startswith("The data is an older copy, with 1 erasure to replay")
        assert "ebbing privacy replay" in unwell["detail"]
        for method, path in (("POST", "/v1/memories"), ("POST", "/v1/search"), ("GET", "/v1/memories")):
            refused = api.request(method, path, key="any")
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:ebbing:problem:not-replayed"
        assert api.get("/healthz", key=None).status_code == 200

        drill.service.send(drill.tenant_id, "a heron stood there")
        drill.drain()
        assert "a heron stood there" not in drill.service.texts(drill.tenant_id), "no drain before the replay"

        [expected] = restore_replay.due()
        assert (expected.memories, expected.outcome) == (2, "due")
        assert drill.people() == ["ann", "bob"], "a dry run changes nothing"
        [done] = restore_replay.replay()
        assert (done.memories, done.outcome) == (2, "erased")

        assert api.get("/readyz", key=None).status_code == 200
        assert api.request("GET", "/v1/memories", key="any").status_code == 401, "keys are checked again"
    assert drill.people() == ["bob"]
    assert traces.in_tables(drill.service, "wroclaw") == []
    found = search.find_memories(drill.tenant_id, SearchRequest(query="Ann Wroclaw", reinforce=False)).results
    assert not any("Ann" in each.text for each in found)
    drill.drain()
    assert "a heron stood there" in drill.service.texts(drill.tenant_id)
    assert list(restore_replay.replay()) == []


@pytest.mark.acceptance(12)
def test_a_service_under_which_the_database_is_exchanged_answers_nothing_of_it(drill: Drill) -> None:
    """Even the first read on a newly opened connection is withheld."""
    made = drill.service.tenant()
    key = made.key
    drill.service.rows("UPDATE api_keys SET tenant_id = %s WHERE key_id = %s", drill.tenant_id, made.key_id)
    with Api(drill.service) as api:
        before = api.get("/v1/memories", key=key)
        assert (before.status_code, "Wroclaw" in before.text) == (200, True)
        drill.dump()
        drill.erase(subject="ann")
        drill.dump_keys()
        drill.restore()
        for _ in range(2):
            refused = api.get("/v1/memories", key=key)
            assert (refused.status_code, "Wroclaw" in refused.text) == (503, False)
            assert refused.json()["type"] == "urn:ebbing:problem:not-replayed"
        list(restore_replay.replay())
        after = api.get("/v1/memories", key=key)
        assert (after.status_code, "Wroclaw" in after.text, "Bob" in after.text) == (200, False, True)


@pytest.mark.acceptance(12)
def test_the_cold_text_of_who_was_erased_stays_closed_in_old_copies(drill: Drill) -> None:
    [segment] = (drill.folder / "cold").rglob("segments/*/*")
    assert any(b"gooseberry" in text for text in traces.opened(drill.tenant_id, segment.read_bytes()))
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    [old] = (drill.folder / "copy").rglob("segments/*/*")
    assert traces.opened(drill.tenant_id, old.read_bytes()) == [], "unreadable even before the replay"
    key_ids = [key for (key,) in drill.service.rows("SELECT key_id FROM cold_memories")]
    with database.tenant(drill.tenant_id) as tx:
        assert encryption_keys.open_record_keys(tx, drill.tenant_id, key_ids) == {}
    list(restore_replay.replay())
    assert drill.service.rows("SELECT FROM cold_memories") == []


def test_what_comes_late_about_them_is_dropped_as_before(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    list(restore_replay.replay())
    [(cut,)] = drill.service.rows("SELECT cut FROM tombstones")
    with database.drain() as tx:
        assert requests.coming(tx, drill.tenant_id).last_cut_ms == int(cut.partition("-")[0])


def test_what_a_hold_of_the_copy_is_on_stays_hidden(drill: Drill) -> None:
    hold = legal_holds.place_hold(drill.tenant_id, Scope(memory_ids=[drill.cold_id]), "court", "key")
    drill.dump()
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    assert [done.outcome for done in restore_replay.replay()] == ["held", "unreleased"]
    assert drill.unwell() == {}
    shown = drill.service.rows("SELECT memory_id FROM memories WHERE subject = 'ann' AND deleted_at IS NULL")
    assert shown == []
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]


def test_a_held_memory_that_a_replay_hides_leaves_the_indexes(drill: Drill) -> None:
    [(hot_id,)] = drill.service.rows("SELECT memory_id FROM memories WHERE text = %s", HOT)
    legal_holds.place_hold(drill.tenant_id, Scope(memory_ids=[hot_id]), "court", "key")
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    assert [done.outcome for done in restore_replay.replay()] == ["held"]
    drill.work()
    for table in ("memory_words", "embeddings"):
        assert drill.service.rows(f"SELECT FROM {table} WHERE memory_id = %s", hot_id) == [], table


def test_a_replay_hides_what_a_hold_kept_from_an_erasure_of_ids(drill: Drill) -> None:
    [(hot_id,)] = drill.service.rows("SELECT memory_id FROM memories WHERE text = %s", HOT)
    hold = legal_holds.place_hold(drill.tenant_id, Scope(memory_ids=[hot_id]), "court", "key")
    drill.dump()
    drill.erase(memory_ids=[hot_id, drill.cold_id])
    drill.dump_keys()
    drill.restore()
    assert [done.outcome for done in restore_replay.replay()] == ["held"]
    assert drill.service.rows("SELECT status, kind FROM erasures") == [("held", "gdpr")]
    assert drill.service.rows("SELECT subject FROM memories WHERE deleted_at IS NULL") == [("bob",)]
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]
    assert drill.service.rows("SELECT FROM ebbing_keys.erasure_requests") == []


def test_a_replay_that_was_broken_off_goes_on(drill: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.erase(subject="bob")
    drill.dump_keys()
    drill.restore()
    reached = iter(("replay.hidden", "erasing.memories", "replay.before_mark"))
    monkeypatch.setattr("app.failpoints.trigger", _fails_at(reached))
    for _ in range(3):
        with pytest.raises(InterruptedError):
            list(restore_replay.replay())
        assert "erasures" in drill.unwell()
    assert [one.outcome for one in restore_replay.replay()][-1] in ("erased", "nothing")
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
    assert "The key store is missing" in drill.unwell()["erasures"]
    with pytest.raises(NotReplayed):
        ledger.check()


def test_an_older_key_store_is_said_to_be_one(drill: Drill) -> None:
    drill.dump()
    older = (drill.folder / "keys.dump").read_bytes()
    drill.erase(subject="ann")
    drill.dump()
    (drill.folder / "keys.dump").write_bytes(older)
    drill.restore()
    assert "The key store is older than the data" in drill.unwell()["erasures"]
    ledger.accept_key_store()
    assert drill.unwell() == {}


def test_what_was_erased_in_two_goes_is_replayed_to_a_copy_from_between(drill: Drill) -> None:
    hold = legal_holds.place_hold(drill.tenant_id, Scope(memory_ids=[drill.cold_id]), "court", "key")
    drill.erase(subject="ann")
    assert drill.people() == ["ann", "bob"]
    drill.dump()
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]
    drill.dump_keys()
    drill.restore()
    assert drill.people() == ["ann", "bob"]
    assert drill.unwell()["erasures"].startswith("The data is an older copy, with 1 erasure to replay")
    outcomes = [done.outcome for done in restore_replay.replay()]
    assert outcomes == ["held", "unreleased"], "the copy contains the hold again"
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
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
    list(restore_replay.replay())
    assert drill.service.texts(other) == ["another Ann"]


def test_migrating_replays_so_that_a_start_does(drill: Drill) -> None:
    drill.dump()
    drill.erase(subject="ann")
    drill.dump_keys()
    drill.restore()
    done = CliRunner().invoke(app, ["migrate"])
    assert "erasures, requests and holds replayed: 1" in done.stderr, done.output
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


def test_a_home_tells_where_its_database_is_while_it_runs(tmp_path: Path) -> None:
    assert running_database(tmp_path) is None
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    (tmp_path / "service-password").write_text("secret\n")
    pid_file = tmp_path / "postgres" / "data" / "postmaster.pid"
    pid_file.write_text("1\n/data\n2\n20001\n/tmp\n127.0.0.1\n3\nstarting\n")
    assert running_database(tmp_path) is None
    pid_file.write_text(pid_file.read_text().replace("starting", "ready   "))
    assert running_database(tmp_path) == "postgresql://ebbing_service:secret@127.0.0.1:20001/ebbing"


def test_a_dry_run_finds_the_database_of_a_service_that_runs_in_its_home(
    drill: Drill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = os.environ["EBBING_DATABASE_URL"]
    children = importlib.import_module("app.supervisor.service_children")  # the package has a function of this name
    monkeypatch.setattr(children, "running_database", {tmp_path: url}.get)
    for name in ("EBBING_DATABASE_URL", "EBBING_REDIS_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("EBBING_HOME", str(tmp_path))
    settings.cache_clear()
    listed = CliRunner().invoke(app, ["privacy", "replay", "--dry-run"])
    assert "nothing to replay" in listed.stdout, listed.output


@pytest.mark.acceptance(13)
def test_backups_are_made_as_the_runbook_says_without_the_keys() -> None:
    written = RUNBOOK.read_text()
    [data] = re.findall(r"^pg_dump .*--file=data.dump$", written, flags=re.MULTILINE)
    assert "--exclude-schema=ebbing_keys" in data
    assert "EBBING_BACKUP_DAYS" in written
