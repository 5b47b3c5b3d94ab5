"""Enrichment takes its locks in the order of `memory_write`: while it waits for one, it holds none of a later step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app.services.enrichment.index import index_memories
from app.services.enrichment.score_by_rules import write_chances
from app.services.ingest import drain
from app.store.core import database
from app.store.enrichment import scores
from tests.service import Service
from tests.waiting import until

CHANGE = "I don't live in Porto any more, I live in Lyon now."
REMINDER = "I am allergic to nuts."
PERSONAL = "Write to ines@example.com."
LOCK = "SELECT memory_id FROM {} WHERE tenant_id = :tenant AND memory_id = ANY (:ids) ORDER BY memory_id FOR UPDATE {}"


def check_free_while_waiting(
    service: Service,
    tenant_id: UUID,
    write: Callable[[], Any],
    held: tuple[str, Sequence[UUID]],
    free: Mapping[str, Sequence[UUID]],
) -> None:
    """Lock rows of a table, and check that `write`, which waits for them, has left the rows in `free` unlocked."""
    with ThreadPoolExecutor(1) as elsewhere:
        with database.tenant(tenant_id) as tx:

            def lock(table: str, ids: Sequence[UUID], how: str = "") -> int:
                return len(tx.execute(text(LOCK.format(table, how)), {"tenant": tenant_id, "ids": list(ids)}).all())

            assert lock(*held) == len(held[1])
            writing = elsewhere.submit(write)
            until(service.count_lock_waits, "the writer waits for a lock")
            for table, ids in free.items():
                assert lock(table, ids, "NOWAIT") == len(ids)
        writing.result()


def test_keep_chances_are_written_with_the_states_locked_first(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    ids = service.send(tenant_id, *({"text": each, "thread": "t"} for each in ("We met in Rome.", "Was it warm?")))
    service.work()
    with database.tenant(tenant_id) as tx:
        memories = scores.read(tx, tenant_id, ids, closed=False)
    assert len(memories) == 2
    check_free_while_waiting(
        service,
        tenant_id,
        lambda: write_chances(tenant_id, memories, {}),
        held=("memory_state", ids[:1]),
        free={"scores": ids},
    )


@pytest.mark.parametrize("first", [CHANGE, REMINDER, PERSONAL])
def test_the_index_stage_locks_rows_before_states_and_each_by_id(service: Service, first: str) -> None:
    tenant_id = service.tenant().tenant_id
    texts = [first, CHANGE, REMINDER, PERSONAL]
    ids = service.send(tenant_id, *({"text": each, "role": "user"} for each in texts))
    drain.drain_streams()
    check_free_while_waiting(
        service,
        tenant_id,
        lambda: index_memories(tenant_id, ids),
        held=("memories", ids[:1]),
        free={"memories": ids[1:], "memory_state": ids},
    )
    marks = service.rows(
        "SELECT says_change, reminders IS NOT NULL, finding.memory_id IS NOT NULL FROM memories "
        "JOIN memory_state USING (tenant_id, memory_id) "
        "LEFT JOIN privacy_findings AS finding USING (tenant_id, memory_id) ORDER BY seq"
    )
    expected = {CHANGE: (True, False, False), REMINDER: (False, True, False), PERSONAL: (False, False, True)}
    assert marks == [expected[each] for each in texts]
