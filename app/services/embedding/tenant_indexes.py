"""Maintain the dedicated indexes of large tenants: create, fill and drop them by a job.

Each step starts from the current database state, so it can be repeated and continues after a crash.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from app.domain.jobs import Job, Step
from app.services.jobs import queue
from app.settings import settings
from app.store.core import database
from app.store.embedding import embedding_spaces, tenant_indexes
from app.store.embedding.embedding_spaces import TenantSpaces

KIND: Final = "graph"
ROWS: Final = 200
UNMARKED_ROWS: Final = 2000
STEP_SECONDS: Final = 2.0
TAIL_MAX: Final = 2000
"""Number of vectors outside the graph at which a job adds them; until then, searches compare them one by one."""

log = structlog.get_logger(__name__)


def has_graph(there: TenantSpaces | None, memories: int) -> bool:
    """Return True if searches of a tenant with this many memories use dedicated indexes."""
    return (
        memories > settings().search_exact_rows
        and there is not None
        and there.graph_space_id == there.searched.space_id
    )


def needs_maintenance(tenant_id: UUID) -> bool:
    """Return True if a job has indexes to create or drop, or many vectors to add to the graph."""
    with database.tenant(tenant_id) as tx:
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if spaces is None:
            return False
        space_id = _space_to_index(spaces, tenant_indexes.count_memories(tx, tenant_id))
        if spaces.graph_space_id != space_id:
            return True
        return space_id is not None and tenant_indexes.count_tail(tx, tenant_id, space_id, TAIL_MAX) == TAIL_MAX


def ensure_job(tenant_id: UUID) -> None:
    """Create a job that maintains the tenant's dedicated indexes, if they need maintenance."""
    if needs_maintenance(tenant_id):
        queue.create(tenant_id, KIND, {})


def run_job_slice(job: Job) -> Step:
    """Maintain the indexes for a few seconds; raises the errors of `run_slice`."""
    return run_slice(job.tenant_id, None, job.state, time.monotonic() + STEP_SECONDS)


def run_slice(tenant_id: UUID, _as_of: datetime | None, _state: dict[str, Any], until: float) -> Step:
    """Create or extend a tenant's indexes; indexes of another space, or of a tenant now too small, are dropped first.

    Args:
        until: Deadline on the monotonic clock.

    Raises:
        database.DatabaseError: Another transaction has locked a table that needs changes; a retry may succeed.
    """
    with database.tenant(tenant_id) as tx:
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        space_id = _space_to_index(spaces, tenant_indexes.count_memories(tx, tenant_id)) if spaces else None
        if spaces and spaces.graph_space_id not in {None, space_id}:
            tenant_indexes.drop_indexes(tx, tenant_id, spaces.graph_space_id)
            log.info("graph_dropped", tenant=str(tenant_id), space=spaces.graph_space_id)
            return Step(0, {}, finished=False)
    if spaces is None or space_id is None:
        return Step(0, {}, finished=True)
    if spaces.graph_space_id is None:
        return _create_indexes(tenant_id, space_id, until)
    added = 0
    while time.monotonic() < until:
        with database.tenant(tenant_id) as tx:
            added_now = tenant_indexes.add_to_graphs(tx, tenant_id, space_id, ROWS)
        added += added_now
        if added_now < ROWS:
            return Step(added, {}, finished=True)
    return Step(added, {}, finished=False)


def _create_indexes(tenant_id: UUID, space_id: int, until: float) -> Step:
    """Create the indexes once no vector is marked as belonging to a previous graph."""
    while time.monotonic() < until:
        with database.tenant(tenant_id) as tx:
            spaces = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
            if spaces is None or spaces.searched.space_id != space_id:
                break
            if not tenant_indexes.unmark_dropped(tx, tenant_id, space_id, UNMARKED_ROWS):
                tenant_indexes.create_indexes(tx, tenant_id, space_id)
                log.info("graph_made", tenant=str(tenant_id), space=space_id)
                break
    return Step(0, {}, finished=False)


def _space_to_index(there: TenantSpaces, memories: int) -> int | None:
    """Return the space to index, or None; an indexed tenant retains its indexes down to half the threshold."""
    limit = settings().search_exact_rows / (2 if there.graph_space_id is not None else 1)
    if memories <= limit or there.searched.dimensions > tenant_indexes.DIMENSIONS_MAX:
        return None
    return there.searched.space_id
