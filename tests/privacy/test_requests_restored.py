"""After restoring an older dump, people who had requested erasure are hidden again, with the original dates.

The commands are those of ops/runbook.md, run verbatim.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.domain.privacy.legal_hold import HoldFilter, Scope
from app.domain.privacy.requests import NewRequest
from app.services.erasure import batch, execution, ledger, requests, restore_replay
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from app.services.privacy import legal_holds, request_log
from app.settings import settings
from app.store.core import database
from app.store.erasure.requests import Erasure
from app.store.privacy import holds
from tests.api.caller import Api
from tests.privacy import traces
from tests.privacy.drill import Drill, drill
from tests.service import Service
from tests.services.due_deletions import erased, worked

__all__ = ["drill"]

HIDING = "SELECT job_id FROM jobs WHERE status IN ('queued', 'running') AND kind = 'hide'"
SHOWN = "SELECT DISTINCT subject FROM memories WHERE subject IS NOT NULL AND deleted_at IS NULL ORDER BY 1"
LOG = "SELECT to_jsonb(log) FROM privacy_requests AS log ORDER BY request_id"
HOLDS_UNKEPT = ("DROP TRIGGER hold_is_kept ON holds", "DROP FUNCTION keep_hold")
REQUESTS_UNKEPT = (
    "DROP TRIGGER request_is_kept ON erasures",
    "DROP FUNCTION keep_erasure_request",
    "ALTER TABLE ledger_mark DROP COLUMN requests",
)
MARKS = "SELECT mark.requests, known.seq FROM ledger_mark AS mark, ebbing_keys.request_mark AS known"


def ask(drill: Drill, law: Any = "gdpr", grace_days: int | None = 7, **scope: Any) -> Erasure:
    return requests.request(drill.tenant_id, ErasureOptions(Scope(**scope), law, grace_days, "Ann's letter"), "key")


def shown(service: Service) -> list[str]:
    return [name for (name,) in service.rows(SHOWN)]


def backed_up_requests(service: Service) -> list[UUID]:
    found = service.rows("SELECT erasure_id FROM ebbing_keys.erasure_requests ORDER BY seq")
    return [erasure_id for (erasure_id,) in found]


def in_keys(service: Service, word: str) -> list[str]:
    return [place for place in traces.in_tables(service, word) if "erasure_requests" in place]


def restore(drill: Drill) -> None:
    """Restore the older data together with the newest keys."""
    drill.dump_keys()
    drill.restore()


@pytest.mark.acceptance(12)
def test_who_had_asked_to_be_erased_is_hidden_again_and_erased_in_time(drill: Drill) -> None:
    drill.dump()
    asked = ask(drill, subject="ann")
    log = drill.service.rows(LOG)
    restore(drill)
    assert shown(drill.service) == ["ann", "bob"]
    assert drill.unwell()["erasures"].startswith(
        "The data is an older copy, with 0 erasures to replay, and 1 request or hold to compare with the key store"
    )
    with Api(drill.service) as api:
        assert api.get("/readyz", key=None).status_code == 503
        assert api.get("/v1/memories", key="any").status_code == 503
    [expected] = restore_replay.due()
    assert (expected.erasure_id, expected.memories, expected.outcome) == (asked.erasure_id, 2, "asked")
    assert shown(drill.service) == ["ann", "bob"], "a dry run changes nothing"

    [done] = restore_replay.replay()

    assert (done.erasure_id, done.memories, done.outcome) == (asked.erasure_id, 2, "hidden")
    assert drill.unwell() == {}
    assert shown(drill.service) == ["bob"]
    assert requests.get(drill.tenant_id, asked.erasure_id) == asked
    assert drill.service.rows(LOG) == log
    ends = "SELECT not_before FROM jobs WHERE kind = 'erase'"
    assert drill.service.rows(ends) == [(asked.erase_after,)]
    worked(drill.service, HIDING)
    assert drill.people() == ["ann", "bob"], "the grace period isn't over"
    drill.work()
    assert drill.people() == ["bob"]
    assert traces.in_tables(drill.service, "wroclaw") == []
    [answered] = request_log.list_requests(drill.tenant_id, None, 10, is_open=False)
    assert answered.answer == "done"
    assert backed_up_requests(drill.service) == []


def test_one_whose_grace_is_over_by_then_is_carried_out_at_once(drill: Drill) -> None:
    drill.dump()
    asked = ask(drill, subject="ann")
    drill.service.rows("UPDATE erasures SET erase_after = requested_at WHERE erasure_id = %s", asked.erasure_id)
    restore(drill)
    list(restore_replay.replay())
    assert requests.get(drill.tenant_id, asked.erasure_id).erase_after == asked.requested_at
    assert drill.service.one("SELECT not_before < now() FROM jobs WHERE kind = 'erase'")
    drill.work()
    assert drill.people() == ["bob"]


def test_a_request_of_every_form_comes_back_as_it_was(drill: Drill) -> None:
    moment = drill.service.one("SELECT now() - interval '1 day'")
    drill.dump()
    given: list[dict[str, Any]] = [
        {"subject": "ann\nb", "tags": ["x", "ÿ"], "kinds": ["fact"], "after": moment},
        {"thread": "talk", "categories": ["pii"], "before": moment},
        {"memory_ids": [drill.cold_id, UUID(int=1)]},
    ]
    assert {name for scope in given for name in scope} == {*HoldFilter.__struct_fields__, "memory_ids", "subject"}
    laws = ("gdpr", 0), ("ccpa", 3), ("user", None)
    asked = [ask(drill, *law, **scope) for law, scope in zip(laws, given, strict=True)]
    restore(drill)
    assert [one.outcome for one in restore_replay.replay()] == ["hidden"] * 3
    for each in asked:
        assert requests.get(drill.tenant_id, each.erasure_id) == each


def test_deletions_of_memories_are_hidden_again_and_a_night_erases_them(drill: Drill) -> None:
    ids = [memory_id for (memory_id,) in drill.service.rows("SELECT memory_id FROM memories WHERE subject = 'ann'")]
    drill.dump()
    for memory_id in ids:
        memories.delete(drill.tenant_id, memory_id, "key")
    before = requests.page(drill.tenant_id, None, None, 10)
    restore(drill)
    assert [one.outcome for one in restore_replay.replay()] == ["hidden", "hidden"]
    assert shown(drill.service) == ["bob"]
    assert requests.page(drill.tenant_id, None, None, 10) == before
    assert drill.service.rows(LOG) == []
    assert drill.service.rows("SELECT FROM jobs WHERE kind = 'erase'") == []
    worked(drill.service, HIDING)
    erased(drill.tenant_id)
    assert drill.people() == ["bob"]
    assert backed_up_requests(drill.service) == []


def test_replaying_twice_and_what_the_data_knows_change_nothing(drill: Drill) -> None:
    known = ask(drill, subject="bob")
    drill.dump()
    asked = ask(drill, subject="ann")
    restore(drill)
    assert [one.erasure_id for one in restore_replay.replay()] == [asked.erasure_id]
    audited = drill.service.one("SELECT count(*) FROM audit")
    drill.service.rows("UPDATE ledger_mark SET requests = 0")  # as if the replay had been interrupted at the very end
    assert "erasures" in drill.unwell()
    assert list(restore_replay.replay()) == []
    assert drill.unwell() == {}
    assert drill.service.one("SELECT count(*) FROM audit") == audited
    assert backed_up_requests(drill.service) == [known.erasure_id, asked.erasure_id]
    assert drill.service.rows(MARKS) == [(2, 2)]


def test_a_replay_that_was_broken_off_goes_on(drill: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    drill.dump()
    asked = [ask(drill, subject="ann"), ask(drill, subject="bob")]
    restore(drill)

    def fail(name: str, _about: str = "") -> None:
        if name == "replay.asked" and shown(drill.service) == ["bob"]:
            raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr("app.failpoints.trigger", fail)
        with pytest.raises(InterruptedError):
            list(restore_replay.replay())
    assert "erasures" in drill.unwell()
    assert [one.erasure_id for one in restore_replay.replay()] == [asked[1].erasure_id]
    assert shown(drill.service) == []
    assert drill.unwell() == {}


def test_what_is_cancelled_leaves_nothing_beside_the_keys(drill: Drill) -> None:
    drill.dump()
    asked = ask(drill, subject="ann", thread="quillwort")
    assert in_keys(drill.service, "quillwort") != []
    requests.cancel(drill.tenant_id, asked.erasure_id, "key")
    assert in_keys(drill.service, "quillwort") == []
    restore(drill)
    assert list(restore_replay.replay()) == []
    assert shown(drill.service) == ["ann", "bob"]
    assert drill.unwell() == {}


def test_what_was_cancelled_since_stays_hidden_and_can_be_cancelled_again(drill: Drill) -> None:
    asked = ask(drill, subject="ann")
    drill.dump()
    requests.cancel(drill.tenant_id, asked.erasure_id, "key")
    restore(drill)
    assert drill.unwell()["erasures"].startswith(
        "The data is an older copy, with 0 erasures to replay, and 1 request or hold to compare with the key store"
    )
    assert [(one.erasure_id, one.memories, one.outcome) for one in restore_replay.due()] == [
        (asked.erasure_id, 2, "open")
    ]
    assert [(one.erasure_id, one.memories, one.outcome) for one in restore_replay.replay()] == [
        (asked.erasure_id, 2, "open")
    ]
    assert drill.unwell() == {}
    assert shown(drill.service) == ["bob"]
    assert backed_up_requests(drill.service) == [asked.erasure_id], (
        "the request is in the key store for another restore"
    )
    requests.cancel(drill.tenant_id, asked.erasure_id, "key")
    assert shown(drill.service) == ["ann", "bob"]
    assert backed_up_requests(drill.service) == []
    assert drill.unwell() == {}


def test_what_has_begun_is_in_the_ledger_alone(drill: Drill) -> None:
    drill.dump()
    asked = ask(drill, subject="ann", grace_days=0)
    execution._start(drill.tenant_id, asked.erasure_id)
    assert backed_up_requests(drill.service) == [asked.erasure_id], "not yet in the ledger"
    drill.dump_keys()
    keys = (drill.folder / "keys.dump").read_bytes()
    drill.work()
    assert backed_up_requests(drill.service) == []
    assert in_keys(drill.service, "ann") == []
    restore(drill)
    assert [one.outcome for one in restore_replay.replay()] == ["erased"]
    assert drill.people() == ["bob"]

    (drill.folder / "keys.dump").write_bytes(keys)
    drill.restore()
    assert [one.outcome for one in restore_replay.replay()] == ["hidden"]
    assert requests.get(drill.tenant_id, asked.erasure_id).status == "grace"
    drill.work()
    assert drill.people() == ["bob"]


def test_deletions_carried_out_together_leave_nothing_beside_the_keys(drill: Drill) -> None:
    ids = drill.service.send(drill.tenant_id, "one", "two", "three")
    drill.service.work()
    for memory_id in ids:
        memories.delete(drill.tenant_id, memory_id, "key")
    assert len(backed_up_requests(drill.service)) == 3
    erased(drill.tenant_id)
    assert drill.service.one("SELECT count(*) FROM erasures WHERE status = 'verified'") == 3
    assert backed_up_requests(drill.service) == []
    assert drill.unwell() == {}


@pytest.mark.parametrize("dumped", ["before the deletions", "while the batch runs"])
def test_a_batch_of_deletions_is_erased_again_after_a_restore(drill: Drill, dumped: str) -> None:
    ids = drill.service.send(drill.tenant_id, "one", "two", "three")
    drill.service.work()
    if dumped == "before the deletions":
        drill.dump()
    for memory_id in ids:
        memories.delete(drill.tenant_id, memory_id, "key")
    asked = {each.erasure_id for each in requests.page(drill.tenant_id, None, None, 10)}
    if dumped == "while the batch runs":
        assert batch.fold(drill.tenant_id, datetime.now(UTC) + timedelta(days=31)) is not None
        drill.dump()
    erased(drill.tenant_id)
    restore(drill)
    assert [one.outcome for one in restore_replay.replay()] == ["erased"] * 3
    assert drill.unwell() == {}
    left = "SELECT count(*) FROM memories WHERE memory_id = ANY (%s)"
    assert drill.service.one(left, ids) == 0
    erased(drill.tenant_id)
    assert {each.erasure_id: each.status for each in requests.page(drill.tenant_id, None, None, 10)} == dict.fromkeys(
        asked, "verified"
    )
    assert drill.service.one("SELECT count(*) FROM erasures") == 3, "no batch remains"


def test_with_a_hold_of_the_copy_it_is_hidden_all_the_same(drill: Drill) -> None:
    legal_holds.place_hold(drill.tenant_id, Scope(memory_ids=[drill.cold_id]), "court", "key")
    drill.dump()
    asked = ask(drill, subject="ann")
    restore(drill)
    list(restore_replay.replay())
    assert shown(drill.service) == ["bob"]
    drill.work()
    assert requests.get(drill.tenant_id, asked.erasure_id).status == "held"
    assert backed_up_requests(drill.service) == []


def test_a_tenant_made_after_the_copy_is_left_out(drill: Drill) -> None:
    drill.dump()
    other = drill.service.tenant().tenant_id
    requests.request(other, ErasureOptions(Scope(subject="ann"), "gdpr", 7), "key")
    restore(drill)
    assert list(restore_replay.replay()) == []
    assert drill.unwell() == {}
    assert shown(drill.service) == ["ann", "bob"]


def test_an_older_key_store_gets_what_is_open_and_loses_what_is_over(drill: Drill) -> None:
    over = ask(drill, subject="bob")
    drill.dump()
    older = (drill.folder / "keys.dump").read_bytes()
    drill.work()
    asked = ask(drill, subject="ann")
    drill.dump()
    (drill.folder / "keys.dump").write_bytes(older)
    drill.restore()
    assert backed_up_requests(drill.service) == [over.erasure_id]
    assert "The key store is older than the data" in drill.unwell()["erasures"]
    ledger.accept_key_store()
    assert drill.unwell() == {}
    assert backed_up_requests(drill.service) == [asked.erasure_id]


def test_a_request_that_hides_for_long_holds_up_no_other_tenant(drill: Drill) -> None:
    """The mark that all tenants share is locked only at the commit."""
    other = drill.service.tenant().tenant_id
    with database.tenant(drill.tenant_id) as tx:
        holds.lock_shared(tx, drill.tenant_id)
        requests.delete(tx, drill.tenant_id, drill.cold_id, "key")
        requests.request(other, ErasureOptions(Scope(subject="orla"), "gdpr", 7), "key")
        assert drill.service.rows(MARKS) == [(1, 1)]
    assert drill.service.rows(MARKS) == [(2, 2)]


def test_the_command_lists_and_enters_requests(drill: Drill) -> None:
    drill.dump()
    ask(drill, subject="ann")
    restore(drill)
    settings.cache_clear()
    listed = CliRunner().invoke(app, ["privacy", "replay", "--dry-run", "--json"])
    assert json.loads(listed.stdout)["replayed"][0]["outcome"] == "asked", listed.output
    done = CliRunner().invoke(app, ["migrate"])
    assert "erasures, requests and holds replayed: 1" in done.stderr, done.output
    assert shown(drill.service) == ["bob"]
    assert "nothing to replay" in CliRunner().invoke(app, ["privacy", "replay"]).stdout


def test_what_was_open_when_the_schema_changed_is_kept(drill: Drill) -> None:
    asked = [ask(drill, subject="ann"), ask(drill, subject="bob")]
    over = ask(drill, subject="orla")
    requests.cancel(drill.tenant_id, over.erasure_id, "key")
    # Later revisions added columns, which are empty in these requests, 0 or false.
    found = (
        "SELECT erasure_id, jsonb_strip_nulls(asked) - 'texts_redacted' - 'arrived_at' - 'whole_tenant', "
        "jsonb_strip_nulls(logged) "
        "FROM ebbing_keys.erasure_requests ORDER BY erasure_id"
    )
    before = drill.service.rows(found)
    drill.restore_down_and_up("0023")
    assert drill.service.rows(found) == before
    assert {each for each, *_ in before} == {one.erasure_id for one in asked}
    assert drill.service.rows(MARKS) == [(2, 2)]
    assert drill.unwell() == {}


def test_a_copy_of_before_the_change_of_the_schema_is_brought_up_to_date(drill: Drill) -> None:
    """The keys are newer than the schema change."""
    known = ask(drill, subject="bob")
    drill.dump()
    asked = ask(drill, subject="ann")
    restore(drill)
    drill.let_data_be_of("0023", *HOLDS_UNKEPT, *REQUESTS_UNKEPT)
    done = CliRunner().invoke(app, ["migrate"])
    assert "erasures, requests and holds replayed: 1" in done.stderr, done.output
    assert shown(drill.service) == []
    assert backed_up_requests(drill.service) == [known.erasure_id, asked.erasure_id]
    assert drill.unwell() == {}


def test_a_tenant_sees_no_request_of_another(drill: Drill) -> None:
    ask(drill, subject="ann")
    other = drill.service.tenant().tenant_id
    for tenant_id, many in ((drill.tenant_id, 1), (other, 0)):
        with database.tenant(tenant_id) as tx:
            found = tx.exec_driver_sql("SELECT asked FROM ebbing_keys.erasure_requests").all()
        assert len(found) == many


def test_a_recorded_request_that_was_carried_out_after_the_dump_is_restored_with_its_erasure(drill: Drill) -> None:
    recorded = request_log.create(drill.tenant_id, NewRequest("erasure", "gdpr", "letter"))
    drill.dump()
    asked = ErasureOptions(Scope(subject="ann"), grace_days=7, case_reference="DSR-17", request_id=recorded.request_id)
    made = requests.request(drill.tenant_id, asked, "key")
    log = drill.service.rows(LOG)
    restore(drill)
    assert drill.service.rows(LOG) != log
    [done] = restore_replay.replay()
    assert (done.erasure_id, done.outcome) == (recorded.request_id, "hidden")
    assert requests.get(drill.tenant_id, recorded.request_id) == made
    assert drill.service.rows(LOG) == log
