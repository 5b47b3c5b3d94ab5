"""What a search of the archive compares memories with: its query in every basis that something is reduced by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.domain.search.terms import Term
from app.domain.tiers.reduction import reduced
from app.services.tiers import bases
from app.store.core import database
from app.store.embedding import spaces
from app.store.embedding.spaces import Space
from app.store.search.probe import Short
from app.store.tiers import archive

Asked = Callable[[Space], NDArray[np.float32] | None]
"""The query's vector in a space; None where it can't be had."""


def counted(tx: database.Transaction, tenant_id: UUID, asked: Sequence[Term], total: int) -> tuple[list[Term], int]:
    """The words of a query with the counts of active memories and archived ones together, and how many both are.

    A word counts as if one had it at least: in the archive, counts are estimates.
    """
    more, archived = archive.documents(tx, tenant_id, [term.lexeme for term in asked])
    both = [replace(term, documents=max(term.documents + more.get(term.lexeme, 0), 1)) for term in asked]
    return both, total + archived


def probes(tenant_id: UUID, asked: Asked) -> tuple[Short, ...]:
    """The query by space and basis; what can't be compared, since a model or a basis is gone, is found by its words."""
    with database.tenant(tenant_id) as tx:
        kept = archive.kept(tx, tenant_id)
        there = {space_id: spaces.named(tx, space_id) for space_id in dict.fromkeys(one.space_id for one in kept)}
    vectors = {space_id: asked(space) for space_id, space in there.items() if space is not None}
    known = bases.of(tenant_id, [one.basis_id for one in kept if one.basis_id is not None])
    found = []
    for one in kept:
        vector = vectors.get(one.space_id)
        if vector is None or not vector.any():
            continue
        if one.basis_id is None:
            found.append(Short(one.space_id, None, vector))
        elif one.basis_id in known and known[one.basis_id].dimensions == len(vector):
            found.append(Short(one.space_id, one.basis_id, reduced(known[one.basis_id], vector)))
    return tuple(found)
