"""Search a tenant's memories by words and by meaning."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from app.clients.embedder import embedder
from app.clients.resilience import ProviderFailed
from app.domain import retrieval
from app.domain.policy import Policy
from app.domain.retrieval import SearchRequest, SearchResult
from app.domain.wording import content_words
from app.store import database, embeddings, words
from app.store import search as store

log = structlog.get_logger(__name__)


def _vector(query: str, idf: Mapping[str, float]) -> NDArray[np.float32] | None:
    """The query's vector; None while its provider fails, so that words alone are searched."""
    try:
        return embedder().embed_query(query, idf)
    except ProviderFailed as error:
        log.warning("query_without_vector", reason=error.reason)
        return None


def search(tenant_id: UUID, request: SearchRequest, policy: Policy | None = None) -> list[SearchResult]:
    """The best memories for the request, best first; none if none shares a word or a meaning with it."""
    policy = policy or Policy()
    model = embedder()
    spellings = list(dict.fromkeys(content_words(request.query)))
    with database.tenant(tenant_id) as tx:
        terms, total = words.terms(tx, tenant_id, request.query, spellings, policy.language)
        space = embeddings.find_space(tx, model.model, model.dimensions)
    query = retrieval.weigh(terms, total)
    vector = None if space is None else _vector(request.query, query.spellings)
    probe = store.Probe(query.lexemes, space, vector)
    with database.tenant(tenant_id) as tx:
        found = store.candidates(tx, tenant_id, probe, request, policy.ranking)
    return retrieval.rank(found, request, policy.ranking)
