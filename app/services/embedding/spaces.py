"""Resolve a tenant's embedding spaces and the embedders that produce their vectors.

A tenant's searches use its current space until `ebbing reembed` has moved the tenant to the settings' space; during the
move, new memories are embedded in both spaces.
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

from app.clients.embedding.embedder import Embedder, EmbedderUnavailable, embedder, embedder_of
from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.resilience import ProviderFailed
from app.domain.health_findings import Finding, attention
from app.domain.ingest.memory import check_size
from app.domain.text.embedding_input import MemoryText, normalise_rows
from app.errors import Misconfigured
from app.services.embedding.query_cache import QueryCache
from app.services.tenants import budget
from app.services.transient_errors import OverBudget, is_transient
from app.settings import settings
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.embedding.embedding_spaces import Space, TenantSpaces

BUNDLED: Final = "local"
REMEDY = "run `ebbing reembed --every-tenant`"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OtherSpaces:
    """The settings' space, and the number of tenants whose searches use a different space."""

    model: str
    dimensions: int
    tenants: int


@dataclass(frozen=True)
class SearchedSpace:
    """The space that a tenant's searches use; `is_settings` if the settings name the same space."""

    model: str
    dimensions: int
    is_settings: bool


def ensure_settings_space() -> Space:
    """Return the settings' space, creating its row if necessary.

    Raises:
        ProviderFailed: The model's dimensions had to be queried, and the provider gave no usable answer.
        Misconfigured: The settings name an embedder that doesn't exist.
    """
    model, dimensions = _settings_model()
    with database.shared() as tx:
        return embedding_spaces.ensure_space(tx, model, dimensions, settings().embedder)


def ensure_spaces(tenant_id: UUID) -> TenantSpaces:
    """Return a tenant's spaces; a tenant without one adopts the settings' space.

    Raises:
        ProviderFailed: See `ensure_settings_space`.
        Misconfigured: See `ensure_settings_space`.
    """
    with database.shared() as tx:
        tenant_spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    if tenant_spaces is not None:
        return tenant_spaces
    model, dimensions = _settings_model()
    with database.shared() as tx:
        space = embedding_spaces.ensure_space(tx, model, dimensions, settings().embedder)
        embedding_spaces.assign_space(tx, tenant_id, space.space_id)
        return embedding_spaces.read_tenant_spaces(tx, tenant_id) or TenantSpaces(space, None)


def open_embedder(space: Space) -> Embedder:
    """Return the embedder that produces a space's vectors.

    Raises:
        EmbedderUnavailable: The embedder can't be loaded, its provider can't be called, or its vectors have changed.
        ProviderFailed: See `ensure_settings_space`.
    """
    if space.embedder == settings().embedder:
        model = embedder()
        if model.model == space.model and model.dimensions == space.dimensions:
            return model
    return embedder_of(space.embedder, space.model, space.dimensions)


def vector_size(tenant_id: UUID) -> int | None:
    """Return the required size of callers' own vectors for this tenant; None if it can't be determined now."""
    try:
        with database.shared() as tx:
            tenant_spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        return embedder().dimensions if tenant_spaces is None else tenant_spaces.searched.dimensions
    except Exception as error:
        if not (is_transient(error) or isinstance(error, ProviderFailed | Misconfigured)):
            raise
        return None  # checked again when the memory is stored


def needs_words(there: TenantSpaces | None) -> bool:
    """Return True if the tenant's current or target space embeds a memory together with the turns that follow it.

    For None, a tenant without a space, the settings' embedder decides.
    """
    if there is None:
        return settings().embedder == BUNDLED
    return any(space is not None and space.model == StaticEmbedder.model for space in (there.searched, there.target))


def memory_vectors(
    tenant_id: UUID, model: Embedder, batch: Sequence[MemoryText], *, memories: int | None = None
) -> NDArray[np.float32]:
    """Embed texts and charge the tenant's budget; return vectors of norm 1 or 0, shape (n, dimensions).

    Args:
        memories: Number of memories to charge for, if the texts are parts of memories.

    Raises:
        OverBudget: The model is not free, and the tenant has reached its daily budget.
        ProviderFailed: Raised by the model.
    """
    with budget.book_usage(tenant_id, "embed", model.priced_as, len(batch) if memories is None else memories) as usage:
        vectors = model.embed_memories(batch, usage)
    return vectors if model.normalised else normalise_rows(vectors)


def query_vector(tenant_id: UUID, space: Space, query: str, idf: Mapping[str, float]) -> NDArray[np.float32] | None:
    """Return the query's vector in a space, or None with a warning if unavailable; search then uses words only.

    Vectors are cached, except those of the bundled model, which is fast and depends on the current word rarities.
    """

    def made() -> NDArray[np.float32]:
        model = open_embedder(space)
        with budget.book_usage(tenant_id, "query", model.priced_as) as usage:
            return model.embed_query(query, idf, usage)

    try:
        if space.embedder == BUNDLED:
            return made()
        return _cache().vector(tenant_id, space.space_id, query, made)
    except EmbedderUnavailable as unavailable:
        log.warning("query_without_vector", reason=str(unavailable), tenant=str(tenant_id))
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
    """Return True if a search obtains its query vector, if any, without calling a provider or the database."""
    if there is None:
        return given is None
    return given is not None or there.searched.embedder == BUNDLED


def scale_given_vector(tenant_id: UUID, space: Space | None, vector: Sequence[float]) -> NDArray[np.float32] | None:
    """Scale a caller's own search vector to norm 1; return None if the tenant has no vectors for comparison.

    Args:
        space: The tenant's search space; None if the tenant has no space yet.
        vector: The caller's vector, with at least one component other than 0.

    Raises:
        Invalid: The vector's size differs from the size of the tenant's vectors.
    """
    dimensions = space.dimensions if space else vector_size(tenant_id)
    if dimensions is not None:
        check_size(vector, "vector", dimensions)
    if space is None:
        return None
    return np.asarray(np.array(vector, np.float64) / math.hypot(*vector), np.float32)


def compare_with_settings(space: Space) -> SearchedSpace:
    """Compare a tenant's search space with the settings' space; don't call this within a transaction."""
    try:
        is_settings = (space.model, space.dimensions) == _settings_model()
    except (ProviderFailed, Misconfigured):
        is_settings = True  # unknown: the settings' model is unavailable, so the tenant couldn't be moved now anyway
    return SearchedSpace(space.model, space.dimensions, is_settings)


def judge_search_space(space: Space) -> list[Finding]:
    """Return a warning if a tenant is searched with another model than that of the settings."""
    if compare_with_settings(space).is_settings:
        return []
    what = f"searches use {space.model}, but the settings name another model"
    return [attention("embedding_space", what, "run `ebbing reembed`")]


def list_tenants_elsewhere() -> list[UUID]:
    """List the ids of tenants whose search space isn't the settings' space; raises like `ensure_settings_space`."""
    model, dimensions = _settings_model()
    with database.shared() as tx:
        return embedding_spaces.list_tenants_elsewhere(tx, model, dimensions)


def count_other_spaces() -> OtherSpaces | None:
    """Return the settings' space and the number of tenants in a different space; None if all tenants are in it.

    Raises:
        ProviderFailed: See `ensure_settings_space`.
        Misconfigured: See `ensure_settings_space`.
    """
    tenants = list_tenants_elsewhere()
    return OtherSpaces(*_settings_model(), len(tenants)) if tenants else None


def warn_other_spaces() -> None:
    """If tenants are in a different space than the settings' space, log the remedy and create the settings' space."""
    try:
        others = count_other_spaces()
        if others is not None:
            ensure_settings_space()
    except (database.DatabaseError, ProviderFailed) as error:
        log.warning("embedding_spaces_unknown", error=type(error).__name__)
        return
    if others is not None:
        log.warning("embedding_space_changed", **asdict(others), remedy=REMEDY)


def _settings_model() -> tuple[str, int]:
    """Return the settings' model and dimensions; don't call this in a transaction, since it may call the provider."""
    model = embedder()
    return model.model, model.dimensions
