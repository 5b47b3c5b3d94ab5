"""A tenant's embedding spaces with the embedders that make their vectors.

A tenant stays in its space, for search and for new memories, until `ebbing reembed` has moved it to the settings'
one; meanwhile new memories are written to both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from app.clients.embedding.embedder import Embedder, NoEmbedder, embedder, embedder_of
from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.resilience import ProviderFailed
from app.domain.ingest.memory import check_size
from app.domain.text.embedding import MemoryText, unit
from app.errors import Misconfigured
from app.services.embedding.query_cache import QueryCache
from app.services.passing import OverBudget, is_passing
from app.services.tenants import budget
from app.settings import settings
from app.store.core import database
from app.store.embedding import spaces as rows
from app.store.embedding.spaces import Space, TenantSpaces

BUNDLED: Final = "local"
REMEDY = "run `ebbing reembed --every-tenant`"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Elsewhere:
    """That tenants are in another space than the settings' one, which is this."""

    model: str
    dimensions: int
    tenants: int


@dataclass(frozen=True)
class Searched:
    """The space that a tenant is searched in, and whether the settings name it."""

    model: str
    dimensions: int
    is_settings: bool


def of_settings() -> Space:
    """The space that the settings name, made if need be.

    Raises:
        ProviderFailed: The model's size had to be found out, and the provider gave no usable answer.
        Misconfigured: The settings name an embedder that can't be.
    """
    model, dimensions = _named()
    with database.shared() as tx:
        return rows.ensure(tx, model, dimensions, settings().embedder)


def settled(tenant_id: UUID) -> TenantSpaces:
    """A tenant's spaces; one that has none adopts the settings'.

    Raises:
        ProviderFailed: As `of_settings`.
        Misconfigured: As `of_settings`.
    """
    with database.shared() as tx:
        there = rows.of_tenant(tx, tenant_id)
    if there is not None:
        return there
    model, dimensions = _named()
    with database.shared() as tx:
        space = rows.ensure(tx, model, dimensions, settings().embedder)
        rows.adopt(tx, tenant_id, space.space_id)
        return rows.of_tenant(tx, tenant_id) or TenantSpaces(space, None)


def embedder_in(space: Space) -> Embedder:
    """The embedder that makes a space's vectors.

    Raises:
        NoEmbedder: It can't be had here: its package, its provider or its version of passages is gone.
        ProviderFailed: As `of_settings`.
    """
    if space.embedder == settings().embedder:
        model = embedder()
        if model.model == space.model and model.dimensions == space.dimensions:
            return model
    return embedder_of(space.embedder, space.model, space.dimensions)


def vector_size(tenant_id: UUID) -> int | None:
    """Size of a caller's own vectors for this tenant: its space's, or the settings'; None if it can't be told now."""
    try:
        with database.shared() as tx:
            there = rows.of_tenant(tx, tenant_id)
        return embedder().dimensions if there is None else there.searched.dimensions
    except Exception as error:
        if not (is_passing(error) or isinstance(error, ProviderFailed | Misconfigured)):
            raise
        return None  # storing looks again


def look_ahead(there: TenantSpaces | None) -> bool:
    """Return whether vectors of a space that the tenant has, or will have, hold the turns after a memory."""
    if there is None:
        return settings().embedder == BUNDLED
    return any(space is not None and space.model == StaticEmbedder.model for space in (there.searched, there.target))


def memory_vectors(
    tenant_id: UUID, model: Embedder, batch: Sequence[MemoryText], *, memories: int | None = None
) -> NDArray[np.float32]:
    """Vectors of memories, of length 1 or 0, on the tenant's account; shape (n, dimensions).

    Args:
        tenant_id: The tenant.
        model: The embedder.
        batch: The texts.
        memories: How many memories they are parts of, where they aren't whole memories.

    Raises:
        OverBudget: The tenant may spend no more today, and the model costs something.
        ProviderFailed: As the model raises it.
    """
    with budget.on_account(tenant_id, "embed", model.priced_as, len(batch) if memories is None else memories) as spent:
        vectors = model.embed_memories(batch, spent)
    return vectors if model.normalised else unit(vectors)


def query_vector(tenant_id: UUID, space: Space, query: str, idf: Mapping[str, float]) -> NDArray[np.float32] | None:
    """The query's vector in a space; None, with a warning, while it can't be had: words alone are searched then.

    Those of a model that takes its time are kept for a while; the bundled one's follow the rarity of words.
    """

    def made() -> NDArray[np.float32]:
        model = embedder_in(space)
        with budget.on_account(tenant_id, "query", model.priced_as) as spent:
            return model.embed_query(query, idf, spent)

    try:
        if space.embedder == BUNDLED:
            return made()
        return _cache().vector(tenant_id, space.space_id, query, made)
    except NoEmbedder as gone:
        log.warning("query_without_vector", reason=str(gone), tenant=str(tenant_id))
    except ProviderFailed as failure:
        log.warning("query_without_vector", reason=failure.reason, tenant=str(tenant_id))
    except OverBudget:
        log.warning("query_without_vector", reason="over_budget", tenant=str(tenant_id))
    return None


@lru_cache(maxsize=1)
def _cache() -> QueryCache:
    config = settings()
    return QueryCache(config.query_cache_entries, config.query_cache_seconds)


def is_at_hand(there: TenantSpaces | None, given: Sequence[float] | None) -> bool:
    """Return whether the vector of a query is made without a call to a provider and without the database."""
    if there is None:
        return given is None
    return given is not None or there.searched.embedder == BUNDLED


def given_vector(tenant_id: UUID, space: Space | None, vector: Sequence[float]) -> NDArray[np.float32] | None:
    """A caller's own vector for a search, of length 1; None where the tenant has no vectors to compare it with.

    Args:
        tenant_id: The tenant.
        space: The space it is searched in; None where it has none yet.
        vector: As the caller gave it; not all zero.

    Raises:
        Invalid: It isn't of the size of the tenant's vectors.
    """
    dimensions = space.dimensions if space else vector_size(tenant_id)
    if dimensions is not None:
        check_size(vector, "vector", dimensions)
    if space is None:
        return None
    return np.asarray(np.array(vector, np.float64) / math.hypot(*vector), np.float32)


def compared(space: Space) -> Searched:
    """A space that a tenant is searched in, held against the settings'; never in a transaction."""
    try:
        is_settings = (space.model, space.dimensions) == _named()
    except (ProviderFailed, Misconfigured):
        is_settings = True  # nobody could move it now
    return Searched(space.model, space.dimensions, is_settings)


def tenants_elsewhere() -> list[UUID]:
    """The tenants that are searched in another space than the settings' one, in order; raises as `of_settings`."""
    model, dimensions = _named()
    with database.shared() as tx:
        return rows.tenants_elsewhere(tx, model, dimensions)


def elsewhere() -> Elsewhere | None:
    """The settings' space and how many tenants are in another one; None where all are in it.

    Raises:
        ProviderFailed: As `of_settings`.
        Misconfigured: As `of_settings`.
    """
    tenants = tenants_elsewhere()
    return Elsewhere(*_named(), len(tenants)) if tenants else None


def announce() -> None:
    """Where tenants are in another space than the settings' one: open that one, and say in the log what to do."""
    try:
        found = elsewhere()
        if found is not None:
            of_settings()
    except (database.DatabaseError, ProviderFailed) as error:
        log.warning("embedding_spaces_unknown", error=type(error).__name__)
        return
    if found is not None:
        log.warning("embedding_space_changed", **asdict(found), remedy=REMEDY)


def _named() -> tuple[str, int]:
    """Model and size of the settings' space; never in a transaction, since a provider may be asked for the size."""
    model = embedder()
    return model.model, model.dimensions
