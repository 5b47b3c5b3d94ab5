"""After restoring a dump older than some legal holds, the replay erases nothing that these holds protect.

The commands are those of ops/runbook.md, run verbatim.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.domain.privacy.legal_hold import HoldFilter, Scope
from app.services.erasure import ledger, requests, restore_replay
from app.services.privacy import legal_holds
from app.settings import settings
from app.store.core import database
from app.store.privacy.holds import Hold
from tests.privacy import traces
from tests.privacy.drill import COLD, HOT, Drill, drill
from tests.privacy.test_requests_restored import HOLDS_UNKEPT, MARKS, ask, restore, shown

__all__ = ["drill"]

SUPERSEDED = "SELECT superseded_id FROM supersessions WHERE status = 'active'"
KEPT = "SELECT hold_id FROM ebbing_keys.kept_holds ORDER BY placed->>'placed_at'"


def place(drill: Drill, reason: str = "court", **scope: Any) -> Hold:
    return legal_holds.place_hold(drill.tenant_id, Scope(**scope), reason, "key")


def stored_holds(drill: Drill) -> list[UUID]:
    return [hold_id for (hold_id,) in drill.service.rows(KEPT)]


def texts(drill: Drill) -> list[str]:
    """Return the texts of hot memories, hidden or not."""
    return [text for (text,) in drill.service.rows("SELECT text FROM memories WHERE text <> %s ORDER BY 1", COLD)]


def replayed() -> list[tuple[UUID | None, int, str]]:
    return [(one.hold_id or one.erasure_id, one.memories, one.outcome) for one in restore_replay.replay()]


def in_force(drill: Drill) -> list[Hold]:
    return legal_holds.list_holds(drill.tenant_id, None, 10, released=False)


@pytest.mark.acceptance(14)
def test_what_a_hold_placed_since_the_dump_has_kept_isnt_erased_by_the_replay(drill: Drill) -> None:
    drill.dump()
    hold = place(drill, subject="ann")
    erasure = ask(drill, subject="ann", grace_days=0)
    drill.work()
    assert requests.get(drill.tenant_id, erasure.erasure_id).status == "held"
    before = drill.service.rows("SELECT to_jsonb(hold) FROM holds AS hold")
    restore(drill)
    assert drill.unwell()["erasures"].startswith(
        "The data is an older copy, with 1 erasure to replay, and 2 requests and holds to compare with the key store"
    )
    expected = [(one.hold_id or one.erasure_id, one.outcome) for one in restore_replay.due()]
    assert expected == [(hold.hold_id, "unplaced"), (erasure.erasure_id, "due")]
    assert in_force(drill) == [], "a dry run changes nothing"

    assert replayed() == [(hold.hold_id, 2, "placed"), (erasure.erasure_id, 2, "held")]

    assert drill.unwell() == {}
    assert shown(drill.service) == ["bob"]
    assert HOT in texts(drill)
    assert drill.service.rows("SELECT to_jsonb(hold) FROM holds AS hold") == before
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    drill.work()
    assert drill.people() == ["bob"]
    assert traces.in_tables(drill.service, "wroclaw") == []
    assert stored_holds(drill) == []


@pytest.mark.acceptance(12)
def test_what_was_erased_before_a_hold_was_placed_goes_again(drill: Drill) -> None:
    """The hold covered only data that arrived after the erasure."""
    drill.dump()
    drill.erase(subject="ann")
    hold = place(drill, subject="ann")
    restore(drill)
    assert [outcome for *_, outcome in replayed()] == ["placed", "erased"]
    assert drill.people() == ["bob"]
    assert traces.in_tables(drill.service, "wroclaw") == []
    assert in_force(drill) == [hold]
    drill.service.send(drill.tenant_id, {"text": "Another Ann", "subject": "ann"})
    drill.service.work()
    assert legal_holds.get(drill.tenant_id, hold.hold_id)[1].memories == 1


def test_of_whom_a_part_was_erased_before_the_rest_is_kept(drill: Drill) -> None:
    drill.dump()
    drill.erase(memory_ids=[drill.cold_id])
    hold = place(drill, subject="ann")
    erasure = ask(drill, subject="ann", grace_days=0)
    drill.work()
    restore(drill)
    assert [outcome for *_, outcome in replayed()] == ["placed", "erased", "held"]
    assert drill.service.one("SELECT count(*) FROM memories WHERE memory_id = %s", drill.cold_id) == 0
    assert HOT in texts(drill)
    assert in_force(drill) == [hold]
    assert requests.get(drill.tenant_id, erasure.erasure_id).status == "held"


def test_a_memory_that_a_hold_keeps_hidden_supersedes_nothing_after_the_replay(drill: Drill) -> None:
    older = drill.service.one("SELECT memory_id FROM memories WHERE text = %s", HOT)
    [newer] = drill.service.send(drill.tenant_id, {"text": "Ann lives in Opole", "subject": "ann", "supersedes": older})
    drill.service.work()
    assert drill.service.rows(SUPERSEDED) == [(older,)]
    drill.dump()
    place(drill, memory_ids=[newer])
    drill.erase(memory_ids=[newer])
    assert drill.service.rows(SUPERSEDED) == [], "the older memory is current again"
    restore(drill)
    assert [outcome for *_, outcome in replayed()] == ["placed", "held"]
    assert drill.service.rows(SUPERSEDED) == []
    assert drill.service.one("SELECT count(*) FROM hidden_supersessions") == 0, "the erasure can't be cancelled"


def test_a_hold_of_every_form_comes_back_as_it_was(drill: Drill) -> None:
    moment = drill.service.one("SELECT now() - interval '1 day'")
    drill.dump()
    given: list[dict[str, Any]] = [
        {"subject": "ann\nb", "tags": ["x", "ÿ"], "kinds": ["fact"], "after": moment},
        {"thread": "talk", "categories": ["pii"], "before": moment},
        {"memory_ids": [drill.cold_id]},
    ]
    assert {name for scope in given for name in scope} == {*HoldFilter.__struct_fields__, "memory_ids", "subject"}
    placed = [place(drill, f"case {number}", **scope) for number, scope in enumerate(given)]
    restore(drill)
    assert [(one.hold_id, one.outcome) for one in restore_replay.replay()] == [
        (hold.hold_id, "placed") for hold in placed
    ]
    assert in_force(drill) == placed[::-1]
    audited = "SELECT details->>'hold' FROM audit WHERE action = 'hold_placed' ORDER BY seq"
    assert [UUID(hold_id) for (hold_id,) in drill.service.rows(audited)] == [hold.hold_id for hold in placed]


def test_replaying_twice_and_what_the_data_knows_change_nothing(drill: Drill) -> None:
    known = place(drill, subject="bob")
    drill.dump()
    hold = place(drill, subject="ann")
    restore(drill)
    assert [one.hold_id for one in restore_replay.replay()] == [hold.hold_id]
    drill.service.rows("UPDATE ledger_mark SET requests = 0")  # as if the replay had been interrupted at the very end
    assert "erasures" in drill.unwell()
    assert list(restore_replay.replay()) == []
    assert drill.unwell() == {}
    assert stored_holds(drill) == [known.hold_id, hold.hold_id]
    assert drill.service.rows(MARKS) == [(2, 2)]


@pytest.mark.parametrize("place_of", ["replay.placed", "replay.hidden", "replay.before_mark"])
def test_a_replay_that_was_broken_off_goes_on(drill: Drill, monkeypatch: pytest.MonkeyPatch, place_of: str) -> None:
    drill.dump()
    drill.erase(memory_ids=[drill.cold_id])
    hold = place(drill, subject="ann")
    drill.erase(subject="ann")
    restore(drill)

    def fail(name: str, _about: str = "") -> None:
        if name == place_of:
            raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr("app.failpoints.trigger", fail)
        with pytest.raises(InterruptedError):
            list(restore_replay.replay())
    assert "erasures" in drill.unwell()
    list(restore_replay.replay())
    assert drill.unwell() == {}
    assert in_force(drill) == [hold]
    assert drill.service.one("SELECT count(*) FROM memories WHERE memory_id = %s", drill.cold_id) == 0
    assert HOT in texts(drill)


def test_what_was_released_since_is_in_force_and_can_be_released_again(drill: Drill) -> None:
    hold = place(drill, subject="ann")
    drill.dump()
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    assert stored_holds(drill) == []
    restore(drill)
    assert drill.unwell()["erasures"].startswith(
        "The data is an older copy, with 0 erasures to replay, and 1 request or hold to compare with the key store"
    )
    assert [(one.hold_id, one.memories, one.outcome) for one in restore_replay.due()] == [
        (hold.hold_id, 2, "unreleased")
    ]
    assert replayed() == [(hold.hold_id, 2, "unreleased")]
    assert drill.unwell() == {}
    assert stored_holds(drill) == [hold.hold_id], "the hold is in the key store for another restore"
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    assert stored_holds(drill) == []
    assert drill.unwell() == {}


def test_what_was_placed_and_released_since_leaves_nothing(drill: Drill) -> None:
    drill.dump()
    hold = place(drill, reason="quillwort", subject="ann")
    assert [place for place in traces.in_tables(drill.service, "quillwort") if "kept_holds" in place] != []
    legal_holds.release_hold(drill.tenant_id, hold.hold_id, "key")
    assert [place for place in traces.in_tables(drill.service, "quillwort") if "kept_holds" in place] == []
    restore(drill)
    assert list(restore_replay.replay()) == []
    assert in_force(drill) == []
    assert drill.unwell() == {}


def test_an_older_key_store_gets_what_is_in_force_and_loses_what_is_over(drill: Drill) -> None:
    over = place(drill, subject="bob")
    drill.dump()
    older = (drill.folder / "keys.dump").read_bytes()
    legal_holds.release_hold(drill.tenant_id, over.hold_id, "key")
    hold = place(drill, subject="ann")
    drill.dump()
    (drill.folder / "keys.dump").write_bytes(older)
    drill.restore()
    assert stored_holds(drill) == [over.hold_id]
    assert "The key store is older than the data" in drill.unwell()["erasures"]
    ledger.accept_key_store()
    assert drill.unwell() == {}
    assert stored_holds(drill) == [hold.hold_id]


def test_the_command_lists_and_places_holds(drill: Drill) -> None:
    drill.dump()
    hold = place(drill, subject="ann")
    restore(drill)
    settings.cache_clear()
    listed = CliRunner().invoke(app, ["privacy", "replay", "--dry-run", "--json"])
    [found] = json.loads(listed.stdout)["replayed"]
    assert (found["hold_id"], found["erasure_id"], found["outcome"]) == (str(hold.hold_id), None, "unplaced")
    done = CliRunner().invoke(app, ["privacy", "replay"])
    assert str(hold.hold_id) in done.stdout
    assert "1 placed" in done.stdout
    assert in_force(drill) == [hold]


def test_what_was_in_force_when_the_schema_changed_is_kept(drill: Drill) -> None:
    hold = place(drill, subject="ann")
    over = place(drill, subject="bob")
    legal_holds.release_hold(drill.tenant_id, over.hold_id, "key")
    # Later revisions added columns, which are empty in this hold.
    found = "SELECT tenant_id, hold_id, jsonb_strip_nulls(placed) FROM ebbing_keys.kept_holds"
    before = drill.service.rows(found)
    drill.restore_down_and_up("0024")
    assert drill.service.rows(found) == before
    assert stored_holds(drill) == [hold.hold_id]
    assert drill.unwell() == {}


def test_a_copy_of_before_the_change_of_the_schema_is_brought_up_to_date(drill: Drill) -> None:
    """The keys are newer than the schema change."""
    known = place(drill, subject="bob")
    drill.dump()
    hold = place(drill, subject="ann")
    restore(drill)
    drill.let_data_be_of("0024", *HOLDS_UNKEPT)
    done = CliRunner().invoke(app, ["migrate"])
    assert "erasures, requests and holds replayed: 1" in done.stderr, done.output
    assert in_force(drill) == [hold, known]
    assert stored_holds(drill) == [known.hold_id, hold.hold_id]
    assert drill.unwell() == {}


def test_a_tenant_made_after_the_copy_is_left_out(drill: Drill) -> None:
    drill.dump()
    other = drill.service.tenant().tenant_id
    legal_holds.place_hold(other, Scope(subject="ann"), "court", "key")
    restore(drill)
    assert list(restore_replay.replay()) == []
    assert drill.unwell() == {}
    with database.tenant(other) as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM holds").scalar() == 0
