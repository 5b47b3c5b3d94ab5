"""Claims of enrichment work while several tenants share a stage."""

from __future__ import annotations

from collections import Counter
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import text

from app.store.core import database
from app.store.enrichment import work_queue
from app.store.enrichment.work_queue import INDEX, NIL, TURN_SECONDS_MAX, Sharing, WorkClaim
from tests.examples import draw
from tests.service import Service

LEASE_SECONDS = 60.0
LIMIT, SHARED = 50, 10
ROWS_READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables WHERE relname = 'tenant_work'
"""


def queue(tenant_id: UUID, items: int, memories: int = 1) -> list[UUID]:
    """Queue items of this many memories each; return the memories."""
    queued = [[uuid4() for _ in range(memories)] for _ in range(items)]
    with database.shared() as tx:
        for ids in queued:
            work_queue.add(tx, [INDEX], tenant_id, ids)
    return [memory_id for ids in queued for memory_id in ids]


def claim(after: UUID = NIL, *, is_shared: bool = False, most: int | None = None) -> WorkClaim | None:
    """Claim a turn, of which at most `most` memories are retained."""
    with database.shared() as tx:
        turn = work_queue.claim(
            tx,
            INDEX,
            claim_id=uuid4(),
            after=after,
            limit=LIMIT,
            lease_seconds=LEASE_SECONDS,
            sharing=Sharing(SHARED, is_shared=is_shared, one_turn=True),
        )
        if turn is not None and most is not None and len(turn.memory_ids) > most:
            return work_queue.narrow_claim(tx, turn, most, LEASE_SECONDS)
        return turn


def claimed(after: UUID = NIL, *, is_shared: bool = False, most: int | None = None) -> WorkClaim:
    turn = claim(after, is_shared=is_shared, most=most)
    assert turn is not None
    return turn


def finish(done: WorkClaim) -> None:
    with database.shared() as tx:
        work_queue.finish_claim(tx, done)


@pytest.fixture
def tenants(service: Service) -> list[UUID]:
    """Two tenants, in the order of their turns."""
    return sorted(service.tenant().tenant_id for _ in range(2))


def test_a_tenant_alone_has_large_turns_and_several_at_once(tenants: list[UUID]) -> None:
    queue(tenants[0], 150)
    for _ in range(2):
        turn = claimed()
        assert (len(turn.memory_ids), turn.is_shared, turn.are_several) == (LIMIT, False, False)


def test_tenants_that_share_a_stage_have_short_turns(tenants: list[UUID]) -> None:
    for tenant_id in tenants:
        queue(tenant_id, 50)
    for tenant_id in tenants:
        turn = claimed()
        assert (turn.tenant_id, len(turn.memory_ids)) == (tenant_id, SHARED)
        assert turn.is_shared
        assert turn.are_several


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_claim_reads_a_few_of_the_items_that_wait(service: Service, tenants: list[UUID], is_shared: bool) -> None:
    """Without statistics, the planner takes the queue for empty, and read all of a tenant's items for each claim."""
    service.rows("ANALYZE tenant_work")
    service.rows(
        "INSERT INTO tenant_work (stage, tenant_id, memory_ids) "
        "SELECT %s, tenant_id, ARRAY[gen_random_uuid()] FROM generate_series(1, 5000), unnest(%s::uuid[]) AS tenant_id",
        INDEX,
        tenants,
    )
    database.close()  # statistics belong to the connection until they are flushed
    with database.shared() as tx:
        sharing = Sharing(SHARED, is_shared=is_shared, one_turn=True)
        turn = work_queue.claim(
            tx, INDEX, claim_id=uuid4(), after=NIL, limit=LIMIT, lease_seconds=LEASE_SECONDS, sharing=sharing
        )
        assert turn is not None
        rows: int = tx.execute(text(ROWS_READ)).scalar_one()
    assert len(turn.memory_ids) == SHARED
    assert rows < 1000, "the queue has 10,000 items"


def test_a_turn_is_short_if_tenants_shared_the_stage_a_moment_ago(tenants: list[UUID]) -> None:
    queue(tenants[0], 50)
    turn = claimed(is_shared=True)
    assert (len(turn.memory_ids), turn.is_shared, turn.are_several) == (SHARED, True, False)


def test_a_tenant_has_one_turn_at_a_time_beside_others(tenants: list[UUID], service: Service) -> None:
    flood, quiet = tenants
    queue(flood, 150)
    claimed(is_shared=True)
    assert claim(is_shared=True) is None, "the other workers are left to neighbours"
    assert claimed().tenant_id == flood, "unless there are none"
    queue(quiet, 1)
    assert claimed().tenant_id == quiet
    service.rows(
        "UPDATE tenant_work SET claimed_until = now() + make_interval(secs => %s) WHERE claim IS NOT NULL",
        LEASE_SECONDS - TURN_SECONDS_MAX - 1,
    )
    assert claimed(is_shared=True).tenant_id == flood, "a turn that takes long may be a dead worker's"


def test_work_that_is_put_off_is_no_neighbours(tenants: list[UUID]) -> None:
    flood, put_off = tenants
    queue(flood, LIMIT)
    queue(put_off, 1)
    with database.shared() as tx:
        work_queue.postpone(tx, INDEX, put_off, 600)
    turn = claimed()
    assert (turn.tenant_id, len(turn.memory_ids), turn.is_shared) == (flood, LIMIT, False)


def test_a_large_item_is_narrowed_to_a_turn_and_keeps_its_place(tenants: list[UUID]) -> None:
    ids = [*queue(tenants[0], 1, 35), *queue(tenants[0], 1)]
    for start in (0, 10, 20):
        turn = claimed(is_shared=True, most=10)
        assert (turn.memory_ids, turn.attempts) == (ids[start : start + 10], 1)
        finish(turn)
    assert claimed().memory_ids == ids[30:]


def test_a_narrowed_claim_is_leased_and_its_rest_is_free(tenants: list[UUID]) -> None:
    ids = queue(tenants[0], 1, 35)
    claimed(most=10)
    rest = claimed()
    assert (rest.memory_ids, rest.attempts) == (ids[10:], 1)
    assert claim() is None


@given(
    sizes=st.lists(st.lists(st.integers(1, 25), min_size=1, max_size=6), min_size=2, max_size=5),
    workers=st.integers(1, 3),
    data=st.data(),
)
@draw(20, [HealthCheck.function_scoped_fixture])
def test_workers_serve_each_tenant_in_turn_and_each_memory_once(
    service: Service, sizes: list[list[int]], workers: int, data: st.DataObject
) -> None:
    service.rows("DELETE FROM tenant_work")
    # The ids decide whose turn is next, so they must be the same if hypothesis repeats an example.
    left: dict[UUID, Counter[UUID]] = {UUID(int=place): Counter() for place, _ in enumerate(sizes, start=1)}
    for tenant_id, items in zip(left, sizes, strict=True):
        for memories in items:
            left[tenant_id].update(queue(tenant_id, 1, memories))
    after = [NIL] * workers
    at_work: dict[int, WorkClaim] = {}
    missed = dict.fromkeys(left, 0)
    while any(left.values()) or at_work:
        worker = data.draw(st.integers(0, workers - 1))
        if worker in at_work:
            finish(at_work.pop(worker))
            continue
        turn = claim(after[worker], is_shared=True, most=SHARED)
        if turn is None:
            continue
        after[worker], at_work[worker] = turn.tenant_id, turn
        assert left[turn.tenant_id] >= Counter(turn.memory_ids), "each memory is claimed once"
        left[turn.tenant_id] -= Counter(turn.memory_ids)
        served = {held.tenant_id for held in at_work.values()}
        for tenant_id, waiting in left.items():
            missed[tenant_id] = 0 if tenant_id in served or not waiting else missed[tenant_id] + 1
            assert missed[tenant_id] <= workers * len(left), "a worker serves every other tenant at most once before"
