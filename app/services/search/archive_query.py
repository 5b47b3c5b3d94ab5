"""Prepare a query for archived memories: project its vector into each PCA basis that their vectors are stored in."""

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
"""A function that returns the query's vector in an embedding space, or None if the vector isn't available."""


def add_archive_counts(
    tx: database.Transaction, tenant_id: UUID, asked: Sequence[QueryTerm], total: int
) -> tuple[list[QueryTerm], int]:
    """Return the query's terms with archived memories added to their document counts, and the new total.

    Counts in the archive are estimates, so every term counts at least 1 document.
    """
    archived_counts, archived = archive.count_documents(tx, tenant_id, [term.lexeme for term in asked])
    combined = [replace(term, documents=max(term.documents + archived_counts.get(term.lexeme, 0), 1)) for term in asked]
    return combined, total + archived


def archive_probes(tenant_id: UUID, asked: Asked) -> tuple[ReducedVector, ...]:
    """Return the query's vector for each combination of embedding space and PCA basis in the archive.

    Archived memories whose embedding model or basis is missing can only be found by their words.
    """
    with database.tenant(tenant_id) as tx:
        groups = archive.list_groups(tx, tenant_id)
        known_spaces = {
            space_id: embedding_spaces.get_space(tx, space_id)
            for space_id in dict.fromkeys(group.space_id for group in groups)
        }
    vectors = {space_id: asked(space) for space_id, space in known_spaces.items() if space is not None}
    bases = pca_fitting.load(tenant_id, [group.basis_id for group in groups if group.basis_id is not None])
    probes = []
    for group in groups:
        vector = vectors.get(group.space_id)
        if vector is None or not vector.any():
            continue
        if group.basis_id is None:
            probes.append(ReducedVector(group.space_id, None, vector))
        elif group.basis_id in bases and bases[group.basis_id].dimensions == len(vector):
            probes.append(ReducedVector(group.space_id, group.basis_id, reduce_vectors(bases[group.basis_id], vector)))
    return tuple(probes)
