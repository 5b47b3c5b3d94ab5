"""Consolidation runs: which memories they link and summarise, and that a second run changes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app import metrics
from app.domain.consolidation.parameters import Consolidation
from app.domain.policy.policy import Policy
from app.domain.privacy.legal_hold import Scope
from app.services.consolidation import consolidation_run, merge_undo
from app.services.memories import recount
from app.services.privacy import legal_holds
from app.services.storage import lookup
from app.store.core import database
from app.store.memories.memories import StoredMemory
from tests.service import Service
from tests.services import archived_memories, nights
from tests.services.mergeable import BOATS, LIKE, Alike, alike

__all__ = ["alike"]


def test_a_large_group_becomes_one_summary_and_one_of_the_day_stays(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann", tags=["sea"], categories=["casual"], thread="t")
    done = alike.run()
    assert done["summaries"] == 1
    assert done["merged"] == len(ids) - 1
    assert sorted(alike.tiers(ids)) == ["active"] + ["archived"] * (len(ids) - 1)
    [summary_id] = alike.summaries()
    found = lookup.get(alike.tenant_id, summary_id)
    assert isinstance(found, StoredMemory)
    assert found.made_by == "consolidation"
    assert (found.subject, found.thread, found.tags, found.categories) == ("ann", "t", ("sea",), ("casual",))
    assert found.salience_source == "consolidation"
    assert archived_memories.search_tiers(alike.tenant_id, "boat in the harbour")[0].id in {summary_id, *ids}
    assert summary_id in {
        result.id for result in archived_memories.search_tiers(alike.tenant_id, "boat in the harbour")
    }
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
    reported = metrics.read_counters()
    assert (reported["summaries_made"], reported["merged_memories"]) == (1, len(ids) - 1)
    assert 0 < reported["summary_characters"] < reported["merged_characters"]


def test_twice_is_once(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann") + alike.remember("a cat sleeps", "a cat sleeps well", subject="ann")
    alike.run()
    before = alike.whole([*ids, *alike.summaries()]), alike.merges()
    alike.again()
    assert not {"summaries", "linked", "merged"} & alike.run().keys()
    assert (alike.whole([*ids, *alike.summaries()]), alike.merges()) == before


def test_two_are_linked_both_ways_and_kept(alike: Alike) -> None:
    ids = alike.remember(*BOATS[:2])
    assert alike.run()["linked"] == 1
    assert alike.tiers(ids) == ["active"] * 2
    links = alike.service.rows("SELECT memory_id, other_id, kind, source FROM links ORDER BY memory_id")
    one, other = ids
    assert links == [(one, other, "related", "consolidation"), (other, one, "related", "consolidation")]


def test_nothing_crosses_subjects(alike: Alike) -> None:
    alike.remember(*BOATS[:2], subject="ann")
    alike.remember(*BOATS[2:], subject="bob")
    alike.run()
    assert alike.merges() == [("link", "done", 2)] * 2


def test_a_summary_is_no_turn_of_its_thread(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann", thread="t")
    alike.run()
    [turn] = archived_memories.remember(
        alike.service, alike.tenant_id, {"text": "nothing else", "thread": "t", "subject": "ann"}
    )
    words = alike.service.one("SELECT tsvector_to_array(words) FROM memory_words WHERE memory_id = %s", turn)
    [kept] = [memory_id for memory_id, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "active"]
    assert "boat" not in words or kept == max(ids), (
        "only the turn right before it may be its context, if that one stayed"
    )


def test_a_dry_run_tells_what_the_run_does(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.remember("a cat sleeps", "a cat sleeps well")
    with database.tenant(alike.tenant_id) as tx:
        now = database.now(tx)
    reported = consolidation_run.preview_run(alike.tenant_id, now, None, 100)
    assert reported.is_complete
    assert not alike.summaries()
    alike.run(now)
    planned = sorted((plan.verdict.action, len(plan.taken_places)) for plan in reported.plans)
    assert planned == [(action, sources) for action, _, sources in sorted(alike.merges())]


def test_a_night_does_it_before_what_has_faded_is_moved(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    done = nights.run(alike.tenant_id)
    assert done["consolidate.summaries"] == 1
    assert alike.service.rows("SELECT started_by, merged, finished_at IS NOT NULL FROM consolidation_runs") == [
        ("night", len(ids) - 1, True)
    ]
    assert nights.run(alike.tenant_id)["consolidate.summaries"] == 0


def test_what_is_young_used_often_or_held_stays(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.service.rows("UPDATE memory_state SET access_count = 60 WHERE memory_id = %s", ids[0])
    alike.service.rows("UPDATE memories SET tags = '{decision}' WHERE memory_id = %s", ids[1])
    alike.service.rows("UPDATE memory_state SET restored_at = now() WHERE memory_id = %s", ids[2])
    legal_holds.place_hold(alike.tenant_id, Scope(memory_ids=[ids[3]]), "case", "me")
    alike.run()
    assert alike.tiers(ids) == ["active"] * 4 + ["archived"] * 2, "other memories of that day stay"


def test_what_is_of_the_system_is_never_moved(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann", kind="system")
    assert not {"summaries", "linked"} & alike.run().keys()


def test_as_of_an_earlier_moment_what_was_used_since_stays(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    with database.tenant(alike.tenant_id) as tx:
        now = database.now(tx)
    alike.run(now - timedelta(hours=2))
    assert alike.tiers(ids) == ["active"] * len(ids)


@pytest.mark.parametrize(("above", "trigger"), [(3, ["count"]), (10_000, [])])
def test_a_night_that_is_not_for_it_does_it_where_there_is_much(
    service: Service, above: int, trigger: list[str]
) -> None:
    alike = Alike(service, Policy(consolidation=Consolidation(at_night=False, memories_above=above)))
    alike.remember(*LIKE, subject="ann")
    nights.run(alike.tenant_id)
    assert [by for (by,) in service.rows("SELECT started_by FROM consolidation_runs")] == trigger
    assert len(alike.summaries()) == len(trigger)


def test_a_level_by_hand_counts_instead_of_the_policys_and_the_ratio_is_recorded(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.run(level="light")
    [(level, before, after)] = alike.service.rows(
        "SELECT level, characters_before, characters_after FROM consolidation_runs"
    )
    assert level == alike.service.one("SELECT level FROM merges") == "light"
    assert 0 < after < before


def test_runs_are_kept_as_long_as_histories_and_merges_for_longer(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.run()
    alike.run()
    assert nights.purged(alike.tenant_id)["consolidations"] == 0
    alike.service.rows("UPDATE consolidation_runs SET started_at = now() - interval '366 days' WHERE summaries > 0")
    assert nights.purged(alike.tenant_id)["consolidations"] == 1
    assert alike.service.rows("SELECT summaries FROM consolidation_runs") == [(0,)]
    assert merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me").status == "undone"


def test_a_slice_that_is_left_in_the_middle_is_gone_on_with(alike: Alike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidation_run, "SOURCES", 1)
    for subject in ("ann", "bob", "cat"):
        alike.remember(*LIKE, subject=subject)
    assert alike.run()["summaries"] == 3
    assert alike.service.one("SELECT clusters FROM consolidation_runs") == 3
    alike.check()
