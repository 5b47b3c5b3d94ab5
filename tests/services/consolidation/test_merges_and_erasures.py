"""Merges of memories that an erasure hides: approvals leave them out, and an undo doesn't bring them back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.privacy.legal_hold import Scope
from app.errors import NotFound
from app.services.consolidation import approval, consolidation_run, merge_log, merge_undo
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import recount
from app.services.privacy import legal_holds
from app.services.storage import lookup
from tests.service import Service
from tests.services.consolidation.test_merge_undo import ASKING, approve
from tests.services.due_deletions import worked
from tests.services.mergeable import LIKE, Alike, alike

__all__ = ["alike"]

TEXTS = [text.replace("boat", f"boat of Quentin{number}") for number, text in enumerate(LIKE)]


@pytest.fixture
def asked(service: Service) -> Alike:
    """A tenant with a merge of six memories that waits for approval."""
    alike = Alike(service, ASKING)
    alike.remember(*TEXTS, subject="ann")
    assert alike.run()["waiting"] == 1
    return alike


def erase(alike: Alike, grace_days: int = 7, **scope: Any) -> UUID:
    return requests.request(alike.tenant_id, ErasureOptions(Scope(**scope), "gdpr", grace_days), "key").erasure_id


def own_word(alike: Alike, memory_id: UUID) -> str:
    """Return the word that only this memory's text has."""
    text: str = alike.service.one("SELECT text FROM memories WHERE memory_id = %s", memory_id)
    return next(word for word in text.replace(",", "").split() if word.startswith("Quentin"))


def proposed(alike: Alike) -> list[UUID]:
    found = merge_log.get(alike.tenant_id, alike.merge_id()).ancestors
    return [each.memory_id for each in found if each.part == "source"]


def is_seen(alike: Alike, memory_id: UUID) -> bool:
    try:
        lookup.get(alike.tenant_id, memory_id)
    except NotFound:
        return False
    return True


def check_left_out(alike: Alike, memory_id: UUID, word: str) -> None:
    """Assert that the only summary says nothing of a memory, and doesn't count it among its sources."""
    worked(alike.service)
    alike.settle()
    [summary_id] = alike.summaries()
    text = alike.service.one("SELECT text FROM memories WHERE memory_id = %s", summary_id)
    points = alike.service.one("SELECT key_points::text FROM merges")
    assert word not in text + points
    assert memory_id not in proposed(alike)
    assert len(proposed(alike)) == merge_log.get(alike.tenant_id, alike.merge_id()).merge.sources
    assert not alike.rederive(), "the summary isn't stale"
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()


def test_an_approved_merge_lacks_what_a_cancelled_erasure_has_hidden(asked: Alike) -> None:
    gone, *others = proposed(asked)
    word = own_word(asked, gone)
    erasure_id = erase(asked, memory_ids=[gone])
    assert approve(asked.tenant_id, asked.merge_id()).finished
    assert not is_seen(asked, gone)
    check_left_out(asked, gone, word)
    requests.cancel(asked.tenant_id, erasure_id, "key")
    check_left_out(asked, gone, word)
    assert asked.tiers([gone]) == ["active"]
    assert asked.tiers(others).count("archived") == len(proposed(asked))


def test_an_approved_merge_lacks_what_a_legal_hold_keeps_from_its_erasure(asked: Alike) -> None:
    gone = proposed(asked)[0]
    word = own_word(asked, gone)
    hold = legal_holds.place_hold(asked.tenant_id, Scope(memory_ids=[gone]), "court", "key")
    erasure_id = erase(asked, 0, memory_ids=[gone])
    worked(asked.service)
    assert requests.get(asked.tenant_id, erasure_id).status == "held"
    assert approve(asked.tenant_id, asked.merge_id()).finished
    check_left_out(asked, gone, word)
    legal_holds.release_hold(asked.tenant_id, hold.hold_id, "key")
    worked(asked.service)
    assert requests.get(asked.tenant_id, erasure_id).status == "verified"
    check_left_out(asked, gone, word)


def test_an_approval_fails_while_an_erasure_hides_the_memories(asked: Alike) -> None:
    erasure_id = erase(asked, subject="ann")
    done = approve(asked.tenant_id, asked.merge_id())
    assert (done.finished, done.failure) == (True, approval.CHANGED)
    assert asked.merges() == [("duplicates", "waiting", len(proposed(asked)))]
    requests.cancel(asked.tenant_id, erasure_id, "key")
    worked(asked.service)
    asked.settle()
    assert approve(asked.tenant_id, asked.merge_id()).failure is None
    assert len(asked.summaries()) == 1


def test_an_approval_is_planned_again_if_an_erasure_hides_a_memory_while_the_summary_is_written(
    asked: Alike, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = proposed(asked)[0]
    word = own_word(asked, gone)
    attach = consolidation_run.attach_summaries

    def interrupted(tenant_id: UUID, plans: Any) -> Any:
        made = attach(tenant_id, plans)
        erase(asked, memory_ids=[gone])
        return made

    with monkeypatch.context() as patched:
        patched.setattr(consolidation_run, "attach_summaries", interrupted)
        assert not approve(asked.tenant_id, asked.merge_id()).finished
    assert asked.summaries() == []
    assert approve(asked.tenant_id, asked.merge_id()).finished
    check_left_out(asked, gone, word)


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_an_undo_leaves_hidden_what_an_erasure_hides(alike: Alike, is_rewritten: bool) -> None:
    alike.remember(*TEXTS, subject="ann")
    alike.run()
    gone, *others = proposed(alike)
    erasure_id = erase(alike, memory_ids=[gone])
    if is_rewritten:
        worked(alike.service)
    merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    worked(alike.service)
    alike.settle()
    assert alike.summaries() == []
    assert not is_seen(alike, gone)
    assert alike.tiers(others) == ["active"] * len(others)
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
    requests.cancel(alike.tenant_id, erasure_id, "key")
    worked(alike.service)
    alike.settle()
    assert alike.tiers([gone]) == ["archived"], "as it was when it was hidden"
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
