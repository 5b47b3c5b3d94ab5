"""Supersession chains: a cancelled erasure restores them exactly, a completed one closes the gap."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.sources import Writer
from app.domain.privacy.legal_hold import Scope
from app.services.consolidation import supersession
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from tests.service import Service
from tests.services.consolidation.test_supersession import HOMES, TenantFacts, facts, tenant
from tests.services.due_deletions import worked

__all__ = ["facts", "tenant"]

KEPT = "SELECT count(*) FROM hidden_supersessions"


def rows(facts: TenantFacts) -> list[Any]:
    return facts.service.rows("SELECT to_jsonb(s)::text FROM supersessions AS s ORDER BY 1")


def deleted(facts: TenantFacts, memory_id: UUID) -> UUID:
    """Delete a memory, and return the id of its erasure."""
    memories.delete(facts.tenant_id, memory_id)
    return requests.page(facts.tenant_id, None, None, 1)[0].erasure_id


def asked(facts: TenantFacts, *ids: UUID, grace_days: int = 7) -> UUID:
    """Request an erasure of memories, and return its id."""
    given = ErasureOptions(Scope(memory_ids=list(ids)), "gdpr", grace_days)
    return requests.request(facts.tenant_id, given, "key").erasure_id


def cancel(facts: TenantFacts, erasure_id: UUID) -> None:
    requests.cancel(facts.tenant_id, erasure_id, "key")
    facts.service.work()


@pytest.mark.parametrize("place", [0, 1, 2], ids=["the oldest", "the one between", "the newest"])
@pytest.mark.parametrize("hides", [deleted, asked])
def test_once_it_is_cancelled_all_is_superseded_as_before(facts: TenantFacts, hides: Any, place: int) -> None:
    ids = facts.chain(*HOMES)
    before, found = rows(facts), facts.search_ids()
    erasure_id = hides(facts, ids[place])
    facts.service.work()
    assert facts.search_ids() == {ids[1] if place == 2 else ids[2]}, (
        "a memory without another superseding one is current at once"
    )
    assert not any(ids[place] in pair for pair in facts.relations())
    cancel(facts, erasure_id)
    assert (rows(facts), facts.search_ids()) == (before, found)
    assert facts.service.one(KEPT) == 0


def test_a_name_that_waits_is_taken_away_and_comes_back(facts: TenantFacts) -> None:
    waiting = facts.send(HOMES[0], "a name that isn't there yet")
    before = rows(facts)
    erasure_id = deleted(facts, waiting)
    assert rows(facts) == []
    cancel(facts, erasure_id)
    assert rows(facts) == before


@pytest.mark.parametrize("first", [0, 1])
def test_two_that_are_cancelled_in_any_order(facts: TenantFacts, first: int) -> None:
    rome, oslo, lima = facts.chain(*HOMES)
    before = rows(facts)
    asks = [asked(facts, oslo), deleted(facts, lima)]
    assert facts.search_ids() == {rome}
    cancel(facts, asks[first])
    cancel(facts, asks[1 - first])
    assert (rows(facts), facts.search_ids()) == (before, {lima})
    assert facts.service.one(KEPT) == 0


def test_what_is_erased_leaves_its_chain_closed_and_nothing_kept(facts: TenantFacts) -> None:
    rome, oslo, lima = facts.chain(*HOMES)
    asked(facts, oslo, grace_days=0)
    worked(facts.service)
    assert facts.relations() == [(lima, rome, "active")]
    assert facts.service.one(KEPT) == 0


def test_one_whose_other_end_is_erased_meanwhile_comes_back_without_it(facts: TenantFacts) -> None:
    rome, oslo, lima = facts.chain(*HOMES)
    erasure_id = asked(facts, oslo)
    asked(facts, lima, grace_days=0)
    worked(facts.service)
    cancel(facts, erasure_id)
    assert facts.relations() == [(oslo, rome, "active")]
    assert facts.search_ids() == {oslo}
    assert facts.service.one(KEPT) == 0


def test_what_cant_be_any_more_is_rejected(facts: TenantFacts, service: Service) -> None:
    rome, oslo, lima = facts.chain(*HOMES)
    erasure_id = asked(facts, oslo)
    [closing] = supersession.list_supersessions(facts.tenant_id, "active", None, None, 9)
    supersession.undo_supersession(facts.tenant_id, closing.supersession_id, Writer("key", "unknown"))
    supersession.make_supersession(facts.tenant_id, str(rome), str(lima), Writer("key", "unknown"))
    cancel(facts, erasure_id)
    assert facts.search_ids() == {rome}, "by now Rome is the newest"
    assert {pair[:2] for pair in facts.relations() if pair[2] == "active"} == {(rome, lima), (lima, oslo)}
    refused = service.rows("SELECT memory_id, superseded_id FROM supersessions WHERE reason = 'cycle'")
    assert refused == [(oslo, rome)], "otherwise each would supersede itself"


def test_what_comes_hidden_supersedes_nothing_until_it_is_cancelled(facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0])
    given = ErasureOptions(Scope(thread="t"), "gdpr", 7)
    erasure_id = requests.request(facts.tenant_id, given, "key").erasure_id
    oslo = facts.send(HOMES[1], rome, thread="t")
    assert facts.search_ids() == {rome}
    assert facts.relations() == []
    cancel(facts, erasure_id)
    assert facts.relations() == [(oslo, rome, "active")]
    assert facts.search_ids() == {oslo}
