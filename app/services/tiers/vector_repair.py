"""Recompute, from the texts, archived vectors that are missing or whose PCA basis is missing or unusable.

Memories without a vector were archived before they were embedded, such as by the load of a dump. A basis can be lost by
a fault, by a partial restore, or by an erasure that deleted a shared basis while the tenant's vectors of a former
embedding space still used it. Until they are repaired, the memories are found only by their words.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from app import metrics
from app.clients.embedding.embedder import EmbedderUnavailable
from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.resilience import ProviderFailed
from app.services.embedding import spaces
from app.services.transient_errors import OverBudget
from app.store.core import database
from app.store.embedding import embedding_spaces, embeddings
from app.store.embedding.embedding_spaces import Space
from app.store.enrichment.work_queue import NIL
from app.store.tiers import archive, pca_bases
from app.store.tiers.archive import ArchivedGroup
from app.store.tiers.pca_bases import SHARED

ROWS: Final = 200
UNAVAILABLE: Final = "the embedder can't be used now, so missing and unusable vectors are computed in the next night"

log = structlog.get_logger(__name__)


class Repaired(NamedTuple):
    """Result of a slice of the repair.

    Attributes:
        state: State for the next slice; None after the last one.
        vectors: Number of vectors computed again.
        notes: Lines for a job's log.
    """

    state: dict[str, Any] | None
    vectors: int = 0
    notes: tuple[str, ...] = ()


def list_broken(tenant_id: UUID) -> list[ArchivedGroup]:
    """Return a tenant's archived vectors whose basis is missing or doesn't fit them, by space and basis.

    The bases are read from the database, since a process caches those that it has used.
    """
    with database.tenant(tenant_id) as tx:
        groups = [group for group in archive.list_groups(tx, tenant_id) if group.basis_id is not None]
        if not groups:
            return []
        basis_ids = sorted({group.basis_id for group in groups if group.basis_id is not None})
        known_spaces = {group.space_id: embedding_spaces.get_space(tx, group.space_id) for group in groups}
        usable = pca_bases.read(tx, tenant_id, basis_ids)
    if missing := [basis_id for basis_id in basis_ids if basis_id not in usable]:
        with database.tenant(SHARED) as tx:
            usable |= pca_bases.read(tx, SHARED, missing)
    return [
        group
        for group in groups
        if (basis := usable.get(group.basis_id or 0)) is None
        or ((space := known_spaces[group.space_id]) is not None and space.dimensions != basis.dimensions)
    ]


def run_slice(tenant_id: UUID, state: dict[str, Any], until: float) -> Repaired:
    """Repair vectors until the deadline, as full vectors in the space that the tenant's searches use.

    Archiving reduces them afterwards. May be repeated at any time. If the embedder fails, the rest is left to the next
    run; texts that it can't process are skipped.

    Args:
        state: State returned by the previous slice; empty at first.
        until: Deadline by the monotonic clock; at least one batch is processed.
    """
    basis_ids = state.get("bases") or _list_bases(tenant_id)
    after, limit, repaired = UUID(state.get("after", NIL.hex)), int(state.get("rows", ROWS)), 0
    while basis_ids:
        with database.tenant(tenant_id) as tx:
            there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
            ids = archive.list_reduced_by(tx, tenant_id, basis_ids, after, limit)
        if there is None or not ids:
            break
        try:
            repaired += _repair(tenant_id, basis_ids, there.searched, ids)
        except (EmbedderUnavailable, OverBudget, ProviderFailed) as error:
            if not (isinstance(error, ProviderFailed) and error.treatment.halve):
                log.warning("vectors_not_repaired", tenant=str(tenant_id), error=type(error).__name__)
                return _end(Repaired(None, repaired, (UNAVAILABLE,)))
            if limit > 1:
                limit = max(len(ids) // 2, 1)  # bisect to isolate the memory that fails
                continue
        after, limit = ids[-1], min(2 * limit, ROWS)
        if time.monotonic() >= until:
            return _end(Repaired({"bases": basis_ids, "after": after.hex, "rows": limit}, repaired))
    return _end(Repaired(None, repaired))


def _list_bases(tenant_id: UUID) -> list[int]:
    with database.tenant(tenant_id) as tx:
        lacks_some = archive.lacks_vectors(tx, tenant_id)
    broken = sorted({group.basis_id for group in list_broken(tenant_id) if group.basis_id})
    return [*broken, *([archive.NO_VECTOR] if lacks_some else [])]


def _end(result: Repaired) -> Repaired:
    metrics.count("repaired_vectors", result.vectors)
    return result


def _repair(tenant_id: UUID, basis_ids: Sequence[int], space: Space, ids: Sequence[UUID]) -> int:
    """Compute the vectors of these memories outside of a transaction, and write those whose texts are unchanged."""
    with database.tenant(tenant_id) as tx:
        texts = embeddings.read_texts(tx, tenant_id, ids, ahead=space.model == StaticEmbedder.model)
    if not texts.ids:
        return 0
    vectors = spaces.memory_vectors(tenant_id, spaces.open_embedder(space), texts.memories)
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
        if there is None or there.searched != space:
            return 0  # the tenant has moved to another space; the next run repairs them there
        versions = dict(zip(texts.ids, texts.versions, strict=True))
        return archive.replace_vectors(tx, tenant_id, basis_ids, space.space_id, versions, vectors)
