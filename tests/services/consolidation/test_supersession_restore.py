"""Supersession chains: a cancelled erasure restores them exactly, a completed one closes the gap."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.privacy.legal_hold import Scope
from app.services.consolidation import supersession
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from tests.service import Service
from tests.services.consolidation.test_supersession import HOMES, Told, tenant, told
from tests.services.due_deletions import worked

__all__ = ["tenant", "told"]

KEPT = "SELECT count(*) FROM hidden_supersessions"


def rows(told: Told) -> list[Any]:
    return told.service.rows("SELECT to_jsonb(s)::text FROM supersessions AS s ORDER BY 1")


def deleted(told: Told, memory_id: UUID) -> UUID:
    """Delete a memory, and return the id of its erasure."""
    memories.delete(told.tenant_id, memory_id)
    return requests.page(told.tenant_id, None, None, 1)[0].erasure_id


def asked(told: Told, *ids: UUID, grace_days: int = 7) -> UUID:
    """Request an erasure of memories, and return its id."""
    given = ErasureOptions(Scope(memory_ids=list(ids)), "gdpr", grace_days)
    return requests.request(told.tenant_id, given, "key").erasure_id


def cancel(told: Told, erasure_id: UUID) -> None:
    requests.cancel(told.tenant_id, erasure_id, "key")
    told.service.work()


@pytest.mark.parametrize("place", [0, 1, 2], ids=["the oldest", "the one between", "the newest"])
@pytest.mark.parametrize("hides", [deleted, asked])
def test_once_it_is_cancelled_all_is_superseded_as_before(told: Told, hides: Any, place: int) -> None:
    ids = told.chain(*HOMES)
    before, found = rows(told), told.found()
    erasure_id = hides(told, ids[place])
    told.service.work()
    assert told.found() == {ids[1] if place == 2 else ids[2]}, (
        "a memory without another superseding one is current at once"
    )
    assert not any(ids[place] in pair for pair in told.relations())
    cancel(told, erasure_id)
    assert (rows(told), told.found()) == (before, found)
    assert told.service.one(KEPT) == 0


def test_a_name_that_waits_is_taken_away_and_comes_back(told: Told) -> None:
    waiting = told.send(HOMES[0], "a name that isn't there yet")
    before = rows(told)
    erasure_id = deleted(told, waiting)
    assert rows(told) == []
    cancel(told, erasure_id)
    assert rows(told) == before


@pytest.mark.parametrize("first", [0, 1])
def test_two_that_are_cancelled_in_any_order(told: Told, first: int) -> None:
    rome, oslo, lima = told.chain(*HOMES)
    before = rows(told)
    asks = [asked(told, oslo), deleted(told, lima)]
    assert told.found() == {rome}
    cancel(told, asks[first])
    cancel(told, asks[1 - first])
    assert (rows(told), told.found()) == (before, {lima})
    assert told.service.one(KEPT) == 0


def test_what_is_erased_leaves_its_chain_closed_and_nothing_kept(told: Told) -> None:
    rome, oslo, lima = told.chain(*HOMES)
    asked(told, oslo, grace_days=0)
    worked(told.service)
    assert told.relations() == [(lima, rome, "active")]
    assert told.service.one(KEPT) == 0


def test_one_whose_other_end_is_erased_meanwhile_comes_back_without_it(told: Told) -> None:
    rome, oslo, lima = told.chain(*HOMES)
    erasure_id = asked(told, oslo)
    asked(told, lima, grace_days=0)
    worked(told.service)
    cancel(told, erasure_id)
    assert told.relations() == [(oslo, rome, "active")]
    assert told.found() == {oslo}
    assert told.service.one(KEPT) == 0


def test_what_cant_be_any_more_is_rejected(told: Told, service: Service) -> None:
    rome, oslo, lima = told.chain(*HOMES)
    erasure_id = asked(told, oslo)
    [closing] = supersession.list_supersessions(told.tenant_id, "active", None, None, 9)
    supersession.undo_supersession(told.tenant_id, closing.supersession_id, "key")
    supersession.make_supersession(told.tenant_id, str(rome), str(lima), "key")
    cancel(told, erasure_id)
    assert told.found() == {rome}, "by now Rome is the newest"
    assert {pair[:2] for pair in told.relations() if pair[2] == "active"} == {(rome, lima), (lima, oslo)}
    refused = service.rows("SELECT memory_id, superseded_id FROM supersessions WHERE reason = 'cycle'")
    assert refused == [(oslo, rome)], "otherwise each would supersede itself"


def test_what_comes_hidden_supersedes_nothing_until_it_is_cancelled(told: Told) -> None:
    rome = told.send(HOMES[0])
    given = ErasureOptions(Scope(thread="t"), "gdpr", 7)
    erasure_id = requests.request(told.tenant_id, given, "key").erasure_id
    oslo = told.send(HOMES[1], rome, thread="t")
    assert told.found() == {rome}
    assert told.relations() == []
    cancel(told, erasure_id)
    assert told.relations() == [(oslo, rome, "active")]
    assert told.found() == {oslo}
