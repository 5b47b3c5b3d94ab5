"""Fit the PCA bases that reduce archived vectors, nightly from a sample, and look up the basis of stored vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID, uuid4

import numpy as np
import structlog

from app import failpoints
from app.domain.tiers import pca
from app.domain.tiers.pca import PcaBasis
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.embedding.embedding_spaces import Space
from app.store.tiers import archive, pca_bases, pca_shares
from app.store.tiers.pca_bases import SHARED, BasisInfo, Draw

OWN_FROM: Final = 1000
"""Minimum number of vectors for which a tenant gets its own basis."""
SHARE_EACH: Final = 50
"""Number of vectors that each tenant contributes to the shared basis."""
REFIT_DAYS: Final = 90
_DRAWN_FROM: Final = 4 * pca.SAMPLES_MAX

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ChosenBasis:
    """The basis that currently reduces a tenant's vectors of a space; `is_own` if the tenant doesn't share it."""

    basis_id: int
    space_id: int
    basis: PcaBasis
    is_own: bool = False


def current_basis(tenant_id: UUID, space: Space) -> ChosenBasis | None:
    """Return the basis for a tenant's vectors of a space: its own, or the shared one.

    Returns None if the vectors are short enough or no usable basis exists; they are then stored whole. A basis that
    doesn't fit the space is logged as a warning.
    """
    if space.dimensions <= pca.DIMENSIONS:
        return None
    for owner in (tenant_id, SHARED):
        with database.tenant(owner) as tx:
            known = pca_bases.read_newest(tx, owner, space.space_id)
        basis = None if known is None else _read(owner, known.basis_id)
        if known is not None and basis is not None and basis.dimensions == space.dimensions:
            return ChosenBasis(known.basis_id, space.space_id, basis, owner == tenant_id)
        if known is not None:
            log.warning("basis_unusable", tenant=str(tenant_id), basis=known.basis_id, space=space.space_id)
    return None


def list_shared_ids() -> list[int]:
    """Return the ids of all shared bases."""
    with database.tenant(SHARED) as tx:
        return pca_bases.list_ids(tx, SHARED)


def load(tenant_id: UUID, basis_ids: Iterable[int]) -> dict[int, PcaBasis]:
    """Return bases by id, the tenant's own or shared; missing ones are omitted with a warning."""
    found: dict[int, PcaBasis] = {}
    for basis_id in basis_ids:
        basis = _read(tenant_id, basis_id) or _read(SHARED, basis_id)
        if basis is None:
            log.warning("basis_missing", tenant=str(tenant_id), basis=basis_id)
        else:
            found[basis_id] = basis
    return found


def _read(owner: UUID, basis_id: int) -> PcaBasis | None:
    try:
        return _cached(owner, basis_id)
    except LookupError:
        return None


@lru_cache(maxsize=32)  # 25 MB at 1,536 dimensions
def _cached(owner: UUID, basis_id: int) -> PcaBasis:
    """Return a basis, cached because bases are immutable. A missing basis isn't cached.

    Raises:
        LookupError: There is no such basis.
    """
    with database.tenant(owner) as tx:
        return pca_bases.read(tx, owner, [basis_id])[basis_id]


def refit_basis(tenant_id: UUID) -> tuple[str, ...]:
    """Fit the basis for a tenant's vectors if due: at first, once the vectors have doubled, or after `REFIT_DAYS`.

    Returns:
        Lines for a job's log.
    """
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        count = pca_bases.count_vectors(tx, tenant_id, there.searched.space_id, pca.SAMPLES_MAX) if there else 0
    if there is None:
        return ()
    space = there.searched
    if space.dimensions <= pca.DIMENSIONS:
        return (f"vectors have {space.dimensions} dimensions: they are kept as they are",)
    if count >= OWN_FROM:
        return _refit(tenant_id, space, count)
    with database.tenant(tenant_id) as tx:
        if count and not len(pca_bases.read_sample(tx, tenant_id, space.space_id, 1)):
            _draw_sample(tx, tenant_id, space, SHARE_EACH, uuid4())
    return _refit_shared(space)


def _refit(tenant_id: UUID, space: Space, count: int) -> tuple[str, ...]:
    """Fit a tenant's own basis on a new sample, if it is due.

    The sample is committed before the fit: deleting a memory during the fit removes its vector from the sample, and the
    basis is then incomplete.
    A crash before the basis is added leaves the older basis without a sample, and therefore incomplete.
    """
    with database.tenant(tenant_id) as held:
        pca_bases.lock_fitting(held, tenant_id)
        draw = _begin_draw(held)
        if not _is_due(held, tenant_id, space, count):
            return ()
        with database.tenant(tenant_id) as tx:
            sample = _draw_sample(tx, tenant_id, space, pca.SAMPLES_MAX, draw.draw_id)
        failpoints.trigger("bases.drawn")
        basis = pca.fit_basis(sample)
        told = _insert(held, tenant_id, space, basis, len(sample), draw)
        pca_bases.drop_unused(held, tenant_id)
    return told


def refit_remaining(tenant_id: UUID, space_id: int, old: Collection[int]) -> int | None:
    """Fit a tenant's own basis on what remains of its sample if its newest basis is among `old`.

    Returns:
        Id of the newest basis; None if too few vectors remain for a fit, or there is no basis.
    """
    with database.tenant(tenant_id) as held:
        pca_bases.lock_fitting(held, tenant_id)
        draw = _begin_draw(held)
        newest = pca_bases.read_newest(held, tenant_id, space_id)
        if newest is None or newest.basis_id not in old:
            return None if newest is None else newest.basis_id
        with database.tenant(tenant_id) as tx:
            sample = pca_bases.redraw_sample(tx, tenant_id, space_id, draw.draw_id)
        failpoints.trigger("bases.drawn")
        basis = pca.fit_basis(sample)
        return None if basis is None else pca_bases.add(held, tenant_id, space_id, basis, draw)


def refit_newest_shared(space: Space, old: Collection[int]) -> int | None:
    """Fit a shared basis if the newest shared basis is among `old`, even if no fit is due.

    Returns:
        Id of the newest shared basis; None if there are too few vectors for a fit, or there is no basis.
    """
    with database.tenant(SHARED) as held:
        pca_bases.lock_fitting(held, SHARED)
        draw = _begin_draw(held)
        newest = pca_bases.read_newest(held, SHARED, space.space_id)
        if newest is None or newest.basis_id not in old:
            return None if newest is None else newest.basis_id
        basis = pca.fit_basis(_draw_shared(_draw_tenants(held, space), space, draw))
        return None if basis is None else pca_bases.add(held, SHARED, space.space_id, basis, draw)


def _refit_shared(space: Space) -> tuple[str, ...]:
    """Fit a shared basis, if it is due, from a few vectors of many tenants.

    A lock admits one process at a time. Each tenant's vectors are drawn in a separate transaction.
    """
    with database.tenant(SHARED) as held:
        if not pca_bases.try_lock_fitting(held, SHARED):
            return ()
        draw = _begin_draw(held)
        owners = _draw_tenants(held, space)
        if not _is_due(held, SHARED, space, _count_shared(owners, space)):
            return ()
        sample = _draw_shared(owners, space, draw)
        return _insert(held, SHARED, space, pca.fit_basis(sample), len(sample), draw)


def _begin_draw(tx: database.Transaction) -> Draw:
    """Return a new draw, whose time is later than the lock and earlier than every read of a vector."""
    return Draw(uuid4(), database.now(tx))


def _draw_tenants(tx: database.Transaction, space: Space) -> list[UUID]:
    return pca_bases.draw_tenants(tx, space.space_id, pca.SAMPLES_MAX // SHARE_EACH)


def _count_shared(owners: Iterable[UUID], space: Space) -> int:
    count = 0
    for owner in owners:
        with database.tenant(owner) as own:
            count += min(pca_bases.count_sample(own, owner, space.space_id), SHARE_EACH)
    return count


def _draw_shared(owners: Iterable[UUID], space: Space, draw: Draw) -> pca.Vectors:
    """Draw a shared sample and record each tenant's share in it.

    The shares are committed before the basis is fitted: the deletion of a memory during the fit also removes its vector
    from the share, so that the share is then incomplete.
    """
    parts = []
    for owner in owners:
        with database.tenant(owner) as own:
            pca_bases.wait_for_fit(own, owner)  # a fit locks the rows of its draw, and locked rows would be omitted
            parts.append(pca_shares.draw_share(own, owner, space.space_id, SHARE_EACH, draw))
    failpoints.trigger("bases.drawn")
    return np.concatenate([part for part in parts if part.size] or [np.empty((0, space.dimensions), np.float32)])


def _is_due(tx: database.Transaction, owner: UUID, space: Space, count: int) -> bool:
    known = pca_bases.read_newest(tx, owner, space.space_id)
    return (
        known is None
        or 2 * known.samples <= count
        or known.made_at < database.now(tx) - timedelta(days=REFIT_DAYS)
        or _read(owner, known.basis_id) is None
    )


def _draw_sample(tx: database.Transaction, tenant_id: UUID, space: Space, limit: int, draw_id: UUID) -> pca.Vectors:
    some = pca_bases.draw_subjects(tx, tenant_id, space.space_id, _DRAWN_FROM)
    drawn = pca.draw_sample([subject for _, subject in some], limit)
    return pca_bases.replace_sample(tx, tenant_id, space.space_id, [some[place][0] for place in drawn], draw_id)


def _insert(
    tx: database.Transaction,
    owner: UUID,
    space: Space,
    basis: PcaBasis | None,
    samples: int,
    draw: Draw,
) -> tuple[str, ...]:
    if basis is None:
        return (f"{samples} vectors are too few to fit a basis: they aren't reduced for now",)
    basis_id = pca_bases.add(tx, owner, space.space_id, basis, draw)
    kept = round(basis.variance_kept, 3)
    log.info("basis_fitted", owner=str(owner), basis=basis_id, space=space.space_id, samples=samples, kept=kept)
    whose = "shared " if owner == SHARED else ""
    return (f"{whose}basis {basis_id} keeps {kept:.1%} of the variance of {samples} vectors",)


@dataclass(frozen=True)
class ReducedVectors:
    """Archived vectors of an embedding space that share a basis.

    Attributes:
        basis: Id of the basis; None if the vectors are whole.
        shared: Whether other tenants' vectors use the basis, too.
        variance_kept: Share of the variance preserved, 0 to 1; None if the basis is missing.
        samples: Number of vectors that the basis was fitted on.
    """

    model: str
    basis: int | None
    shared: bool
    variance_kept: float | None
    samples: int | None
    memories: int


def list_in_use(tenant_id: UUID) -> list[ReducedVectors]:
    """Return the bases of a tenant's archived vectors with the number of memories that use them."""
    with database.tenant(tenant_id) as tx:
        kept = archive.list_groups(tx, tenant_id)
        models = embedding_spaces.list_models(tx, [one.space_id for one in kept])
        own = pca_bases.list_known(tx, tenant_id, [one.basis_id for one in kept if one.basis_id is not None])
    others = [one.basis_id for one in kept if one.basis_id is not None and one.basis_id not in own]
    shared: dict[int, BasisInfo] = {}
    if others:
        with database.tenant(SHARED) as tx:
            shared = pca_bases.list_known(tx, SHARED, others)
    return [
        _described(models[one.space_id], one, own.get(one.basis_id or 0), shared.get(one.basis_id or 0)) for one in kept
    ]


def _described(
    model: str, kept: archive.ArchivedGroup, own: BasisInfo | None, shared: BasisInfo | None
) -> ReducedVectors:
    known = own or shared
    variance = 1.0 if kept.basis_id is None else known.variance_kept if known else None
    return ReducedVectors(
        model, kept.basis_id, shared is not None, variance, known.samples if known else None, kept.memories
    )
