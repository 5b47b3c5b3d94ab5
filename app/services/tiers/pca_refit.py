"""Replace PCA bases that were fitted on vectors erased since: refit without these vectors, then delete the old bases.

Vectors reduced by an old basis are projected onto the new one with little loss, since both were fitted on nearly the
same vectors. If too few vectors remain for a fit, archived memories lose their vectors and are found only by their
words until they are restored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np

from app import failpoints
from app.domain.tiers import pca
from app.services.tiers import pca_fitting
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.tiers import archive, pca_bases
from app.store.tiers.pca_bases import SHARED, BasisInfo

ROWS: Final = 500


def list_spoilt_shared(tenant_id: UUID, first_ms: int, before: datetime) -> list[BasisInfo]:
    """Return shared bases that may have been fitted on a tenant's erased vectors.

    Args:
        first_ms: When the first erased memory arrived, in milliseconds since 1970; older bases can't contain its
            vector.
        before: When the vectors were erased.
    """
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if there is None or there.searched.dimensions <= pca.DIMENSIONS:
            return []
        space_id = there.searched.space_id
        if pca_bases.count_sample(tx, tenant_id, space_id) >= pca_fitting.SHARE_EACH:
            return []  # its contribution is complete
    with database.tenant(SHARED) as tx:
        return pca_bases.list_made_between(tx, SHARED, space_id, first_ms / 1000, before)


def refit_own(tenant_id: UUID, gone: Sequence[BasisInfo], until: float) -> tuple[bool, int]:
    """Refit a tenant's own bases, reproject the vectors reduced by the old ones, and delete the old ones.

    Safe to repeat after a crash. Return whether all is done, and the number of bases deleted.
    """
    done = 0
    for space_id in {each.space_id for each in gone}:
        old = [each.basis_id for each in gone if each.space_id == space_id]
        with database.tenant(tenant_id) as tx:
            newest = pca_bases.read_newest(tx, tenant_id, space_id)
            if newest is not None and newest.basis_id in old:
                basis = pca.fit_basis(pca_bases.read_sample(tx, tenant_id, space_id, pca.SAMPLES_MAX))
                newest_id = None if basis is None else pca_bases.add(tx, tenant_id, space_id, basis)
            else:
                newest_id = None if newest is None else newest.basis_id
        failpoints.trigger("bases.fitted")
        if not _reproject(tenant_id, tenant_id, old, newest_id, until):
            return False, done
        with database.tenant(tenant_id) as tx:
            done += pca_bases.drop_bases(tx, tenant_id, old)
    return True, done


def refit_shared(tenant_id: UUID, gone: Sequence[BasisInfo], until: float) -> tuple[bool, int]:
    """Refit shared bases, reproject all tenants' vectors reduced by the old ones, and delete the old ones.

    Safe to repeat after a crash. Return whether all is done, and the number of bases deleted.
    """
    if not gone:
        return True, 0
    old = [each.basis_id for each in gone]
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    if there is None:
        return True, 0
    with database.tenant(SHARED) as tx:
        newest = pca_bases.read_newest(tx, SHARED, there.searched.space_id)
    newest_id = None if newest is None else newest.basis_id
    if newest_id in old:
        newest_id = pca_fitting.fit_shared(there.searched)
    with database.shared() as tx:
        tenants = pca_bases.draw_tenants(tx, there.searched.space_id, None)
    for each in tenants:
        if not _reproject(each, SHARED, old, newest_id, until):
            return False, 0
    with database.tenant(SHARED) as tx:
        return True, pca_bases.drop_bases(tx, SHARED, old)


def _reproject(tenant_id: UUID, owner: UUID, old: Sequence[int], newest_id: int | None, until: float) -> bool:
    """Reproject a tenant's archived vectors from old bases onto the newest one. Return whether none is left."""
    found = _read(owner, [*old, *([newest_id] if newest_id is not None else [])])
    target = None if newest_id is None else found.get(newest_id)
    for basis_id in old:
        while True:
            with database.tenant(tenant_id) as tx:
                some = archive.lock_reduced(tx, tenant_id, basis_id, ROWS)
                if not some.ids:
                    break
                if target is None or newest_id is None or basis_id not in found:
                    archive.forget_vectors(tx, tenant_id, some.ids)
                else:
                    turned = np.asarray(some.matrix @ (found[basis_id].matrix @ target.matrix.T), np.float32)
                    archive.write_reduced(tx, tenant_id, newest_id, replace(some, matrix=turned))
            if len(some.ids) < ROWS:
                break
            if time.monotonic() >= until:
                return False
    return True


_read = database.in_tenant(pca_bases.read)
