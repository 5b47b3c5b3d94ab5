"""The change feed: commit order without gaps, order per memory, filters, pages, retention, separated tenants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from app.domain.changes.types import DELETED, SCORED, STORED, UPDATED
from app.domain.ingest.ids import extract_base
from app.domain.policy.policy import Policy
from app.services.ingest import drain
from app.store.changes import feed
from app.store.changes.feed import Change
from app.store.core import database
from tests.service import Service

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


def record(tenant_id: UUID, change_type: str, ids: list[UUID], at: datetime = NOON) -> None:
    with database.tenant(tenant_id) as tx:
        feed.record(tx, tenant_id, change_type, ids, at)


def read(tenant_id: UUID, cursor: int = 0, types: frozenset[str] | None = None, limit: int = 100) -> list[Change]:
    with database.tenant(tenant_id) as tx:
        return feed.read_page(tx, tenant_id, cursor, types, limit)[0]


def bounds(tenant_id: UUID) -> tuple[int, int]:
    with database.tenant(tenant_id) as tx:
        return feed.oldest(tx, tenant_id), feed.newest(tx, tenant_id)


def ids_of(changes: list[Change]) -> list[UUID]:
    return [UUID(change.id) for change in changes]


@pytest.fixture
def tenant_id(service: Service) -> UUID:
    return service.tenant().tenant_id


def test_a_batch_is_read_change_by_change_from_any_cursor(tenant_id: UUID) -> None:
    first, second = [uuid4() for _ in range(5)], [uuid4() for _ in range(3)]
    record(tenant_id, STORED, first)
    record(tenant_id, SCORED, second)
    expected = [Change(place, STORED, NOON, str(each)) for place, each in enumerate(first, 1)]
    expected += [Change(place, SCORED, NOON, str(each)) for place, each in enumerate(second, 6)]
    for cursor in range(9):
        for limit in range(1, 10):
            assert read(tenant_id, cursor, limit=limit) == expected[cursor : cursor + limit], (cursor, limit)
    assert bounds(tenant_id) == (0, 8)


def test_more_ids_than_a_row_holds_keep_their_order(tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "IDS_MAX", 3)
    ids = [uuid4() for _ in range(10)]
    record(tenant_id, STORED, ids)
    assert ids_of(read(tenant_id)) == ids


def test_types_are_filtered_and_the_page_goes_on_behind_the_others(tenant_id: UUID) -> None:
    stored, scored = [uuid4(), uuid4()], [uuid4(), uuid4()]
    record(tenant_id, STORED, stored)
    record(tenant_id, SCORED, scored)
    wanted = frozenset({STORED})
    assert ids_of(read(tenant_id, types=wanted)) == stored
    with database.tenant(tenant_id) as tx:
        pages = [feed.read_page(tx, tenant_id, 0, wanted, limit)[1] for limit in (1, 2, 3)]
        assert pages == [1, 2, 4]
        assert feed.read_page(tx, tenant_id, 4, wanted, 5) == ([], 4)


def test_a_transaction_that_commits_late_is_read_late(tenant_id: UUID) -> None:
    early, late, last = uuid4(), uuid4(), uuid4()
    with database.tenant(tenant_id) as slow:
        feed.record(slow, tenant_id, UPDATED, [late], NOON)
        record(tenant_id, STORED, [early])
        assert ids_of(read(tenant_id)) == [early]
        assert bounds(tenant_id) == (0, 1)
    record(tenant_id, STORED, [last])
    assert ids_of(read(tenant_id, 1)) == [late, last]
    assert ids_of(read(tenant_id)) == [early, late, last]


def test_a_change_rolled_back_is_not_read_and_leaves_no_gap(tenant_id: UUID) -> None:
    class Undone(Exception):
        pass

    def fail() -> None:
        with database.tenant(tenant_id) as tx:
            feed.record(tx, tenant_id, DELETED, [uuid4()], NOON)
            raise Undone

    with pytest.raises(Undone):
        fail()
    kept = uuid4()
    record(tenant_id, STORED, [kept])
    assert read(tenant_id) == [Change(1, STORED, NOON, str(kept))]


def test_a_reader_does_not_wait_for_another_that_numbers(tenant_id: UUID) -> None:
    first, second = uuid4(), uuid4()
    record(tenant_id, STORED, [first])
    assert ids_of(read(tenant_id)) == [first]
    record(tenant_id, STORED, [second])
    with database.tenant(tenant_id) as numbering:
        assert ids_of(feed.read_page(numbering, tenant_id, 0, None, 9)[0]) == [first, second]
        assert ids_of(read(tenant_id)) == [first]
    assert ids_of(read(tenant_id)) == [first, second]


def test_numbering_in_parts_keeps_the_order(tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "NUMBERED_MAX", 2)
    ids = [uuid4() for _ in range(7)]
    for each in ids:
        record(tenant_id, STORED, [each])
    assert ids_of(read(tenant_id)) == ids[:2]
    assert bounds(tenant_id) == (0, 7)
    assert ids_of(read(tenant_id)) == ids


def test_nothing_is_recorded_without_ids_or_with_the_feed_off(service: Service, tenant_id: UUID) -> None:
    record(tenant_id, STORED, [])
    off = service.tenant(Policy.model_validate({"changes": {"keep_days": 0}})).tenant_id
    record(off, STORED, [uuid4()])
    assert (read(tenant_id), read(off)) == ([], [])
    assert service.one("SELECT count(*) FROM changes") == 0


def test_a_tenant_sees_its_own_changes_only(service: Service, tenant_id: UUID) -> None:
    other = service.tenant().tenant_id
    record(tenant_id, STORED, [uuid4()])
    record(other, STORED, [uuid4(), uuid4()])
    assert (len(read(tenant_id)), len(read(other))) == (1, 2)
    with database.tenant(tenant_id) as tx:
        for statement in ("SELECT count(*) FROM changes", "SELECT count(*) FROM change_heads"):
            assert tx.execute(text(statement)).scalar() == 1, statement
        assert feed.read_page(tx, other, 0, None, 9)[0] == []


def test_the_role_of_the_drain_only_adds_changes(service: Service, tenant_id: UUID) -> None:
    memory_id = uuid4()
    with database.drain() as tx:
        feed.record(tx, tenant_id, STORED, [memory_id], NOON)
    assert ids_of(read(tenant_id)) == [memory_id]
    rights = "has_table_privilege('ebbing_drain', 'changes', %s)"
    assert [service.one(f"SELECT {rights}", right) for right in ("INSERT", "SELECT", "UPDATE", "DELETE")] == [
        *(True, False, False, False)
    ]


def test_expired_changes_go_and_the_oldest_cursor_moves(service: Service, tenant_id: UUID) -> None:
    def expire(limit: int) -> int:
        with database.tenant(tenant_id) as tx:
            return feed.delete_expired(tx, tenant_id, NOON, limit)

    old, new = [uuid4() for _ in range(5)], uuid4()
    for each in old:
        record(tenant_id, STORED, [each, uuid4()], NOON - timedelta(seconds=1))
    record(tenant_id, STORED, [new])
    assert [expire(2) for _ in range(4)] == [2, 2, 1, 0]
    assert bounds(tenant_id) == (10, 11)  # also the changes that no reader had numbered
    assert ids_of(read(tenant_id, 10)) == [new]
    assert service.one("SELECT count(*) FROM changes") == 1


def test_requests_are_read_memory_by_memory(service: Service, tenant_id: UUID) -> None:
    ids = [*service.send(tenant_id, "one", "two", "three"), *service.send(tenant_id, "four")]
    assert drain.drain_streams() == 4
    later = uuid4()
    record(tenant_id, UPDATED, [later])
    every = read(tenant_id)
    assert sorted(ids_of(every)[:4]) == sorted(ids)
    assert ids_of(every)[4:] == [later]
    assert [change.type for change in every] == [STORED] * 4 + [UPDATED]
    for cursor in range(6):
        for limit in range(1, 7):
            assert read(tenant_id, cursor, limit=limit) == every[cursor : cursor + limit], (cursor, limit)
    assert service.one("SELECT count(*) FROM changes WHERE type = 'memory.stored'") == 1


def test_requests_stored_twice_are_reported_once(service: Service, tenant_id: UUID) -> None:
    ids = service.send(tenant_id, "one", "two")
    base = extract_base(ids[0])
    drain.drain_streams()
    service.post(tenant_id, b'[{"text":"one"},{"text":"two"}]', base=base, memories=2)
    drain.drain_streams()
    assert ids_of(read(tenant_id)) == ids
