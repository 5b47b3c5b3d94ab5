"""Cache each tenant's search context (policies, embedding spaces) in this process.

The cache holds no memories and no keys. To detect a stale entry, a search compares the cached version stamp (`mark`)
with the stamp in the rows that it reads. The process's clock stops while the machine is suspended, so a search also
checks that the same policy is in force by this clock and by the database's.
"""

from __future__ import annotations

from time import monotonic
from typing import Final
from uuid import UUID

from app.store.core import database
from app.store.search import search_context
from app.store.search.search_context import SearchContext

TENANTS_MAX: Final = 4_096

_known: dict[UUID, tuple[float, SearchContext]] = {}


def read(tx: database.Transaction, tenant_id: UUID) -> SearchContext:
    """Return the tenant's search context, possibly cached, with the current time."""
    if database.simulated_now(tx) is not None:
        return search_context.read(tx, tenant_id)
    cached = _known.get(tenant_id)
    if cached is not None:
        read_at, context = cached
        return context._replace(now=context.now + monotonic() - read_at)
    context = search_context.read(tx, tenant_id)
    if len(_known) >= TENANTS_MAX:
        _known.clear()
    _known[tenant_id] = monotonic(), context
    return context


def has_graph(tenant_id: UUID) -> bool:
    """Return True if the cached search context says that the tenant has dedicated indexes for its search space."""
    cached = _known.get(tenant_id)
    tenant_spaces = cached[1].spaces if cached is not None else None
    return tenant_spaces is not None and tenant_spaces.graph_space_id == tenant_spaces.searched.space_id


def forget(tenant_id: UUID) -> None:
    """Drop a tenant's cached search context, so that the next search reads it from the database."""
    _known.pop(tenant_id, None)
