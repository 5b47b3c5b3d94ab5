"""Deletions that predate erasures: hidden rows without an erasure, until a night creates one for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app.domain.privacy.legal_hold import Scope
from app.services.erasure import night_slice, requests
from app.services.privacy import legal_holds
from app.services.security import audit
from app.store.core import database
from app.store.embedding import embeddings
from app.store.enrichment import scores, word_index
from app.store.memories import tenant_counts
from tests.privacy import traces
from tests.service import Service
from tests.services.due_deletions import worked

WORD = "gooseberry"
DAY = timedelta(days=1)


class Past:
    """A tenant with memories that were deleted the old way."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        self.ids = service.send(self.tenant_id, {"text": f"{WORD} one", "subject": "ann"}, f"{WORD} two", "tea")
        service.work()

    def delete(self, ids: Sequence[UUID], days_ago: int) -> None:
        """Delete as `DELETE` once did: remove the memories from the indexes and hide their rows forever."""
        with database.tenant(self.tenant_id) as tx, tenant_counts.track_changes(tx, self.tenant_id, ids):
            embeddings.remove(tx, self.tenant_id, ids)
            word_index.remove(tx, self.tenant_id, ids)
            scores.remove(tx, self.tenant_id, ids)
            tx.execute(_RETIRE, {"ids": list(ids)})
            tx.execute(_MARK_DELETED, {"ids": list(ids), "days": days_ago})

    def night(self, as_of: datetime | None = None) -> dict[str, int]:
        """Run the erasure step of a night and return its counts."""
        state: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for _ in range(1000):
            did = night_slice.run_night_slice(self.tenant_id, as_of or datetime.now(UTC), state, time.monotonic())
            counts = {name: counts.get(name, 0) + did.counts.get(name, 0) for name in {*counts, *did.counts}}
            if did.finished:
                return counts
            state = did.state
        raise AssertionError("no end of it")

    def left(self) -> set[UUID]:
        return {memory_id for (memory_id,) in self.service.rows("SELECT memory_id FROM memories")}


_RETIRE = text("UPDATE memory_state SET tier = 'deleted', next_due_at = 'infinity' WHERE memory_id = ANY (:ids)")
_MARK_DELETED = text(
    "UPDATE memories SET deleted_at = now() - make_interval(days => :days) WHERE memory_id = ANY (:ids)"
)


@pytest.fixture
def past(service: Service) -> Past:
    return Past(service)


def test_what_was_deleted_long_ago_is_erased_by_the_first_night(past: Past) -> None:
    past.delete(past.ids[:2], days_ago=40)
    assert past.night()["adopted"] == 2
    assert past.left() == {past.ids[2]}
    assert traces.in_tables(past.service, WORD) == []
    with database.tenant(past.tenant_id) as tx:
        assert tenant_counts.measure_drift(tx, past.tenant_id) == tenant_counts.NONE
    assert audit.verify(past.tenant_id).broken is None


def test_what_was_deleted_lately_has_its_grace(past: Past) -> None:
    past.delete(past.ids[:1], days_ago=10)
    assert past.night()["adopted"] == 1
    assert past.left() == set(past.ids)
    [adopted] = requests.page(past.tenant_id, None, None, 10)
    assert (adopted.status, adopted.kind, adopted.requested_by) == ("grace", "user", "system")
    assert abs(adopted.erase_after - datetime.now(UTC) - 20 * DAY) < DAY
    assert "adopted" not in past.night(), "adopted only once"
    past.night(datetime.now(UTC) + 21 * DAY)
    assert past.left() == set(past.ids[1:])


def test_one_that_is_taken_back_comes_back(past: Past) -> None:
    past.delete(past.ids[:1], days_ago=10)
    past.night()
    [adopted] = requests.page(past.tenant_id, None, None, 10)
    requests.cancel(past.tenant_id, adopted.erasure_id, "key")
    past.service.work()
    assert past.service.texts(past.tenant_id)[0] == f"{WORD} one"
    assert past.service.rows("SELECT FROM memories WHERE deleted_at IS NOT NULL") == []
    with database.tenant(past.tenant_id) as tx:
        assert tenant_counts.measure_drift(tx, past.tenant_id) == tenant_counts.NONE


def test_what_is_held_waits_for_its_release(past: Past) -> None:
    past.delete(past.ids[:2], days_ago=40)
    hold = legal_holds.place_hold(past.tenant_id, Scope(subject="ann"), "court", "key")
    past.night()
    assert past.left() == {past.ids[0], past.ids[2]}
    legal_holds.release_hold(past.tenant_id, hold.hold_id, "key")
    [adopted] = requests.page(past.tenant_id, None, None, 10)
    worked(past.service)
    assert requests.get(past.tenant_id, adopted.erasure_id).status == "verified"
    assert past.left() == {past.ids[2]}


def test_there_may_be_more_than_one_erasure_takes(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "IDS_MAX", 1)
    past.delete(past.ids[:2], days_ago=40)
    assert past.night()["adopted"] == 2
    assert len(requests.page(past.tenant_id, None, None, 10)) == 2
    assert past.left() == {past.ids[2]}
