"""Replace PCA bases that were fitted on vectors erased since: refit without these vectors, then delete the old bases.

Vectors reduced by an old basis are projected onto the new one with little loss, since both were fitted on nearly the
same vectors. If too few vectors remain for a fit, archived memories lose their vectors and are found only by their
words until they are restored.

A basis may contain an erased vector if rows of its sample are missing. Edits of other memories delete rows, too, so a
verification that only counted rows would find residue again and again while a tenant edits its memories. Therefore
`check_complete` records, after the deletions, which bases are complete; verification accepts these bases, and bases
whose sample was drawn after the deletions.
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
from app.store.tiers import archive, pca_bases, pca_shares
from app.store.tiers.pca_bases import SHARED, BasisInfo

ROWS: Final = 500


def check_complete(tenant_id: UUID) -> None:
    """Record which of a tenant's bases and shares still have all their vectors, after fits in progress have ended.

    An erasure calls this after it has deleted its memories. The bases recorded as complete contain none of the erased
    vectors; this stays known although edits of other memories continue to delete rows of the samples. A fit in progress
    may use vectors that were deleted after its sample was drawn. Once such fits have ended, their bases are stored and
    checked here; any later fit draws its sample after the deletion.
    """
    for owner in (tenant_id, SHARED):
        with database.tenant(owner) as tx:
            pca_bases.wait_for_fit(tx, owner)
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        pca_bases.check_complete(tx, tenant_id, now)
        pca_shares.check_complete(tx, tenant_id, now)


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
        share = pca_shares.read(tx, tenant_id, space_id, before)
    with database.tenant(SHARED) as tx:
        return pca_shares.list_outdated(tx, space_id, first_ms / 1000, before, share)


def list_shared_with(tenant_id: UUID) -> list[BasisInfo]:
    """Return the shared bases that may have been fitted on any of a tenant's vectors, for the tenant's deletion."""
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if there is None or there.searched.dimensions <= pca.DIMENSIONS:
            return []
        now, space_id = database.now(tx), there.searched.space_id
        share = pca_shares.read(tx, tenant_id, space_id, now)
    with database.tenant(SHARED) as tx:
        whole = None if share is None else replace(share, is_incomplete=True)
        return pca_shares.list_outdated(tx, space_id, 0, now, whole)


def refit_own(tenant_id: UUID, gone: Sequence[BasisInfo], until: float) -> tuple[bool, int]:
    """Refit a tenant's own bases, reproject the vectors reduced by the old ones, and delete the old ones.

    Safe to repeat after a crash. Return whether all is done, and the number of bases deleted.
    """
    done = 0
    for space_id in {each.space_id for each in gone}:
        old = [each.basis_id for each in gone if each.space_id == space_id]
        newest_id = pca_fitting.refit_remaining(tenant_id, space_id, old)
        failpoints.trigger("bases.fitted")
        if not _reproject(tenant_id, tenant_id, old, newest_id, until):
            return False, done
        with database.tenant(tenant_id) as tx:
            done += pca_bases.drop_bases(tx, tenant_id, old)
            if set(old).intersection(pca_bases.list_ids(tx, tenant_id)):  # vectors were archived at the same time
                return False, done
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
    space_id = there.searched.space_id
    newest_id = pca_fitting.refit_newest_shared(there.searched, old)
    if not _reproject_all(space_id, old, newest_id, until):
        return False, 0
    failpoints.trigger("bases.reprojected")
    with database.tenant(SHARED) as held:
        pca_bases.lock_shared_bases(held, old)  # waits for vectors that are being reduced by the old bases
        if not _reproject_all(space_id, old, newest_id, until):
            return False, 0
        return True, pca_bases.drop_bases(held, SHARED, old)


def _reproject_all(space_id: int, old: Sequence[int], newest_id: int | None, until: float) -> bool:
    """Reproject the vectors of all tenants in a space from old shared bases. Return whether none is left."""
    with database.shared() as tx:
        tenants = pca_bases.draw_tenants(tx, space_id, None)
    return all(_reproject(each, SHARED, old, newest_id, until) for each in tenants)


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
