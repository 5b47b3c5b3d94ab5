"""Tier moves are counted by day, move and rule as they happen; the most recent ones are listed individually."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from app import failpoints
from app.dashboard.pages.tiers import KINDS, WHY
from app.domain.consolidation.parameters import Consolidation
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.privacy.legal_hold import Scope
from app.services.consolidation import approval, consolidation_run, merge_undo
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import manual_restore, memories
from app.services.tiers import cold_restore, decay_deletion, expiry, tier_report
from app.store.core import database
from app.store.tiers import tier_moves
from tests.service import Service
from tests.services import archived_memories, nights
from tests.services.aged import Aged
from tests.services.cold_due import Chilled, aged, chilled
from tests.services.due_deletions import worked
from tests.services.mergeable import LIKE, Alike, alike

pytestmark = pytest.mark.usefixtures("whole_day")

__all__ = ["aged", "alike", "chilled"]

ASKING = Policy(consolidation=Consolidation(rule="cohesion", merged_from=1.0, asked_from=0.5))


def counted(tenant_id: UUID) -> dict[tuple[str, str], int]:
    """Return today's counts by move and rule."""
    return {(one.move, one.rule): one.memories for one in tier_report.tier_report(tenant_id).moved}


@pytest.fixture
def faded(service: Service) -> tuple[UUID, list[UUID]]:
    tenant_id = service.tenant().tenant_id
    ids = archived_memories.remember(service, tenant_id, "one", "two", "three", "four")
    archived_memories.fade(service, ids)
    archived_memories.archive_all(tenant_id)
    return tenant_id, ids


def test_what_fades_comes_back_by_a_use_an_edit_and_by_hand(faded: tuple[UUID, list[UUID]]) -> None:
    tenant_id, ids = faded
    assert counted(tenant_id) == {("archived", "decay"): 4}
    archived_memories.act_on(tenant_id, ids[0], "use")
    archived_memories.act_on(tenant_id, ids[1], "edit")
    manual_restore.restore(tenant_id, ids[2], "key")
    assert counted(tenant_id) == {
        ("archived", "decay"): 4,
        ("restored", "use"): 1,
        ("restored", "edit"): 1,
        ("restored", "hand"): 1,
    }
    held = tier_report.tier_report(tenant_id)
    assert held.counts[:3] == (3, 1, 0)
    assert {one.day for one in held.moved} == {datetime.now(UTC).date()}
    reported = [
        (one.memory_id, one.kind, one.before, one.after) for one in tier_report.list_latest_moves(tenant_id, None, 3)
    ]
    assert reported == [(memory_id, "restored", 1, 0) for memory_id in (ids[2], ids[1], ids[0])]


def test_the_last_moves_come_in_pages(faded: tuple[UUID, list[UUID]]) -> None:
    tenant_id, ids = faded
    found: list[tier_moves.TierMove] = []
    last = None
    while page := tier_report.list_latest_moves(tenant_id, last, 3):
        found += page
        last = (page[-1].at, page[-1].place)
    assert sorted(one.memory_id for one in found) == sorted(ids)
    assert {(one.kind, one.before, one.after, one.merge_id) for one in found} == {("tier", 0, 1, None)}
    assert all(0 < one.strength < 0.3 for one in found)


def test_the_way_into_cold_storage_and_back_is_counted(chilled: Chilled) -> None:
    ids = chilled.remember("one", "two", "three")
    chilled.cool()
    assert counted(chilled.tenant_id) == {("cold", "decay"): 3}
    cold_restore.restore(chilled.tenant_id, ids[:1])
    asked = cold_restore.job_parameters(ids[1:2], rule="hand")
    cold_restore.run_job_slice(Job(uuid4(), chilled.tenant_id, cold_restore.KIND, asked, {}, None, 0))
    assert counted(chilled.tenant_id) == {("cold", "decay"): 3, ("restored", "use"): 1, ("restored", "hand"): 1}


def test_what_is_deleted_for_good_and_what_expires_is_counted(aged: Aged) -> None:
    aged.remember(-400, -400, tier="cold", salience=0.0)
    nights.swept(aged.tenant_id)
    decay_deletion.delete(aged.tenant_id)
    assert counted(aged.tenant_id) == {("deleted", "decay"): 2}
    said, risky = aged.remember(-40, -40)
    aged.service.rows("UPDATE memories SET categories = '{pii}' WHERE memory_id = %s", said)
    aged.service.rows(
        "INSERT INTO privacy_findings VALUES (%s, %s, 1, '{email}', '{pii}', 1.0, 0.7)", aged.tenant_id, risky
    )
    nights.swept(aged.tenant_id)
    expiry.expire_slice(aged.tenant_id)
    assert counted(aged.tenant_id) == {("deleted", "decay"): 2, ("expired", "category"): 1, ("expired", "risk"): 1}


def test_an_erasure_hides_and_comes_back_or_deletes(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    ids = service.send(tenant_id, *({"text": f"memory {number}", "subject": "ann"} for number in range(3)), "another")
    service.work()
    asked = requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 7, "by mail"), "key")
    assert counted(tenant_id) == {("hidden", "erasure"): 3}
    requests.cancel(tenant_id, asked.erasure_id, "key")
    memories.delete(tenant_id, ids[3])
    assert counted(tenant_id) == {("hidden", "erasure"): 4, ("restored", "cancelled"): 3}
    requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0, "by mail"), "key")
    worked(service)
    assert counted(tenant_id) == {
        ("hidden", "erasure"): 7,
        ("restored", "cancelled"): 3,
        ("deleted", "erasure"): 3,
    }


def test_a_merge_and_its_undoing_are_counted_and_told_of_each_source(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.run()
    sources = len(LIKE) - 1
    assert counted(alike.tenant_id) == {("merged", "consolidation"): sources}
    reported = tier_report.list_latest_moves(alike.tenant_id, None, 100)
    assert [one.merge_id for one in reported] == [alike.merge_id()] * sources
    merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    assert counted(alike.tenant_id) == {
        ("merged", "consolidation"): sources,
        ("restored", "undo"): sources,
        ("deleted", "undo"): 1,
    }
    reported = tier_report.list_latest_moves(alike.tenant_id, None, 100)
    assert [(one.before, one.after) for one in reported] == [(1, 0)] * sources + [(0, 1)] * sources
    assert {one.merge_id for one in reported} == {alike.merge_id()}


def test_an_approved_merge_is_told_as_one_after_it_was_undone(service: Service) -> None:
    alike = Alike(service, ASKING)
    alike.remember(*LIKE, subject="ann")
    alike.run()
    merge_id = alike.merge_id()
    reported = approval.job_parameters(alike.tenant_id, merge_id, "me")
    approval.run_job_slice(Job(uuid4(), alike.tenant_id, approval.KIND, reported, {}, None, 0))
    assert list(counted(alike.tenant_id)) == [("merged", "approved")]
    assert {one.merge_id for one in tier_report.list_latest_moves(alike.tenant_id, None, 100)} == {merge_id}
    merge_undo.undo_merge(alike.tenant_id, merge_id, "me")
    assert {one.merge_id for one in tier_report.list_latest_moves(alike.tenant_id, None, 100)} == {merge_id}


def test_what_is_rolled_back_is_not_counted(service: Service, faded: tuple[UUID, list[UUID]]) -> None:
    tenant_id, ids = faded

    def fail(name: str) -> None:
        if name == "restore.before_commit":
            raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "trigger", fail)
        with pytest.raises(ZeroDivisionError):
            archived_memories.act_on(tenant_id, ids[0], "use")
    assert counted(tenant_id) == {("archived", "decay"): 4}


def test_many_at_once_lose_no_count_and_do_not_block_each_other(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    names: list[tuple[tier_moves.Move, str]] = [("restored", "use"), ("archived", "decay"), ("cold", "decay")]

    def add(part: int) -> None:
        for _ in range(25):
            with database.tenant(tenant_id) as tx:
                ordered = names if part % 2 else list(reversed(names))
                tier_moves.add(tx, tenant_id, dict.fromkeys(ordered, 1))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(add, part) for part in range(4)]:
            done.result()
    assert counted(tenant_id) == dict.fromkeys(names, 100)


def test_counters_are_kept_for_a_year(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    today = datetime.now(UTC).date()
    for days in (0, 29, 30, 364, 366, 500):
        service.rows(
            "INSERT INTO tier_moves VALUES (%s, %s, 'cold', 'decay', 1)", tenant_id, today - timedelta(days=days)
        )
    assert [one.day for one in tier_report.tier_report(tenant_id).moved] == [today - timedelta(days=29), today]
    assert nights.purged(tenant_id)["moves"] == 2
    assert service.one("SELECT min(day) FROM tier_moves") == today - timedelta(days=364)


def test_the_look_ahead_is_kept_for_a_while_and_sampled_of_very_many(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id = service.tenant().tenant_id
    service.send(tenant_id, *(f"memory {number}" for number in range(200)))
    service.work()
    found = tier_report.cached_outlook(tenant_id)
    assert (found.one_in, found.outlook.counts[0].sum(), len(found.outlook.dates)) == (1, 200, 91)
    assert tier_report.cached_outlook(tenant_id) is found
    monkeypatch.setattr(tier_report, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(tier_report, "SAMPLED_ABOVE", 100)
    monkeypatch.setattr(tier_report, "SAMPLE", 50)
    sampled = tier_report.cached_outlook(tenant_id)
    assert sampled.one_in == 4
    total = int(sampled.outlook.counts[0].sum())
    assert total % 4 == 0
    assert 80 < total < 360, "drawn by their ids: one in four, give or take"


def test_paused_nothing_is_merged_by_itself_and_by_hand_it_is(service: Service) -> None:
    alike = Alike(service, Policy(quota_bytes=1, consolidation=Consolidation(paused=True, memories_above=1)))
    alike.remember(*LIKE, subject="ann")
    nights.run(alike.tenant_id)
    assert service.rows("SELECT FROM consolidation_runs") == []
    assert alike.run()["summaries"] == 1


def test_a_nights_run_that_is_under_way_ends_when_it_is_paused(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")

    def step(state: dict[str, Any]) -> Any:
        return consolidation_run.run_slice(alike.tenant_id, None, state, time.monotonic())

    begun = step({})
    rederived = step(begun.state)
    assert not rederived.finished
    assert "rederive" not in rederived.state
    alike.service.rows(
        "UPDATE policies SET body = jsonb_set(body, '{consolidation,paused}', 'true') WHERE tenant_id = %s",
        alike.tenant_id,
    )
    ended = step(rederived.state)
    assert (ended.finished, ended.notes, ended.counts) == (True, (consolidation_run.PAUSED,), {})
    assert alike.service.one("SELECT finished_at IS NOT NULL FROM consolidation_runs")
    assert not alike.summaries()


def test_whatever_removes_memories_counts_it() -> None:
    folder = Path(tier_report.__file__).parents[1]
    removing = {path.stem for path in folder.rglob("*.py") if "row_deletion.remove(" in path.read_text("utf-8")}
    removing.remove("memory_write")  # its `delete` demands the moves
    counting = {path.stem for path in folder.rglob("*.py") if "tier_moves.add(" in path.read_text("utf-8")}
    assert removing
    assert removing <= counting


def test_each_reason_has_its_words() -> None:
    """Reasons are read from the code; the names of deciding rules identify theirs."""
    folder = Path(tier_report.__file__).parents[1]
    written = "\n".join(path.read_text("utf-8") for path in folder.rglob("*.py"))
    moves = "|".join(KINDS)
    reported = set(re.findall(rf'\("({moves})", "(\w+)"\):', written))
    rules = r'(?:reactivation\.restore|reactivate_cold)\(write, .*, "(\w+)"|write\.restored\(\w+, "\w+", "(\w+)"'
    reported |= {("restored", found[1] or found[2]) for found in re.finditer(rules, written)}
    assert {("restored", "edit"), ("restored", "hand"), ("restored", "use")} <= reported
    assert len(reported) > 10
    assert reported <= WHY.keys()
