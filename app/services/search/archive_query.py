"""Prepare the query for archived memories: projected into every basis by which their vectors were reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.domain.search.terms import QueryTerm
from app.domain.tiers.pca import reduce_vectors
from app.services.tiers import pca_fitting
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.embedding.embedding_spaces import Space
from app.store.search.query_parts import ReducedVector
from app.store.tiers import archive

Asked = Callable[[Space], NDArray[np.float32] | None]
"""Returns the query's vector in an embedding space; None if it isn't available."""


def add_archive_counts(
    tx: database.Transaction, tenant_id: UUID, asked: Sequence[QueryTerm], total: int
) -> tuple[list[QueryTerm], int]:
    """Add the archive's document counts to the query's terms, and return them with the total number of documents.

    Every count is at least 1, because counts in the archive are estimates.
    """
    more, archived = archive.count_documents(tx, tenant_id, [term.lexeme for term in asked])
    both = [replace(term, documents=max(term.documents + more.get(term.lexeme, 0), 1)) for term in asked]
    return both, total + archived


def archive_probes(tenant_id: UUID, asked: Asked) -> tuple[ReducedVector, ...]:
    """Return the query's vector for each embedding space and basis in the archive.

    Archived memories whose embedding model or basis is missing can only be found by their words.
    """
    with database.tenant(tenant_id) as tx:
        kept = archive.list_groups(tx, tenant_id)
        there = {
            space_id: embedding_spaces.get_space(tx, space_id)
            for space_id in dict.fromkeys(one.space_id for one in kept)
        }
    vectors = {space_id: asked(space) for space_id, space in there.items() if space is not None}
    known = pca_fitting.load(tenant_id, [one.basis_id for one in kept if one.basis_id is not None])
    found = []
    for one in kept:
        vector = vectors.get(one.space_id)
        if vector is None or not vector.any():
            continue
        if one.basis_id is None:
            found.append(ReducedVector(one.space_id, None, vector))
        elif one.basis_id in known and known[one.basis_id].dimensions == len(vector):
            found.append(ReducedVector(one.space_id, one.basis_id, reduce_vectors(known[one.basis_id], vector)))
    return tuple(found)
