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
from app.domain.tiers import reduction
from app.domain.tiers.reduction import Basis
from app.services.tiers import bases as fitting
from app.store.core import database
from app.store.embedding import spaces
from app.store.tiers import archive, bases
from app.store.tiers.bases import SHARED, Known

ROWS: Final = 500


def outdated_bases(tx: database.Transaction, tenant_id: UUID, before: datetime) -> list[Known]:
    """Return a tenant's own bases that were fitted on vectors that no longer exist, because their sample is incomplete.

    The samples of superseded bases aren't stored, so all superseded bases made before `before` are included.
    """
    return bases.list_incomplete(tx, tenant_id, before)


def spoilt_shared(tenant_id: UUID, first_ms: int, before: datetime) -> list[Known]:
    """Return shared bases that may have been fitted on a tenant's erased vectors.

    Args:
        first_ms: When the first erased memory arrived, in milliseconds since 1970; older bases can't contain its
            vector.
        before: When the vectors were erased.
    """
    with database.tenant(tenant_id) as tx:
        there = spaces.of_tenant(tx, tenant_id)
        if there is None or there.searched.dimensions <= reduction.DIMENSIONS:
            return []
        space_id = there.searched.space_id
        if bases.count_sample(tx, tenant_id, space_id) >= fitting.SHARE_EACH:
            return []  # its contribution is complete
    with database.tenant(SHARED) as tx:
        return bases.made_between(tx, SHARED, space_id, first_ms / 1000, before)


def renew(tenant_id: UUID, gone: Sequence[Known], until: float) -> tuple[bool, int]:
    """Refit a tenant's own bases, reproject the vectors reduced by the old ones, and delete the old ones.

    Safe to repeat after a crash. Return whether all is done, and the number of bases deleted.
    """
    done = 0
    for space_id in {each.space_id for each in gone}:
        old = [each.basis_id for each in gone if each.space_id == space_id]
        with database.tenant(tenant_id) as tx:
            newest = bases.newest(tx, tenant_id, space_id)
            if newest is not None and newest.basis_id in old:
                basis = reduction.fit(bases.sample(tx, tenant_id, space_id, reduction.SAMPLES_MAX))
                newest_id = None if basis is None else bases.add(tx, tenant_id, space_id, basis)
            else:
                newest_id = None if newest is None else newest.basis_id
        failpoints.reach("bases.fitted")
        if not _reproject(tenant_id, tenant_id, old, newest_id, until):
            return False, done
        with database.tenant(tenant_id) as tx:
            done += bases.drop(tx, tenant_id, old)
    return True, done


def renew_shared(tenant_id: UUID, gone: Sequence[Known], until: float) -> tuple[bool, int]:
    """Refit shared bases, reproject all tenants' vectors reduced by the old ones, and delete the old ones.

    Safe to repeat after a crash. Return whether all is done, and the number of bases deleted.
    """
    if not gone:
        return True, 0
    old = [each.basis_id for each in gone]
    with database.tenant(tenant_id) as tx:
        there = spaces.of_tenant(tx, tenant_id)
    if there is None:
        return True, 0
    with database.tenant(SHARED) as tx:
        newest = bases.newest(tx, SHARED, there.searched.space_id)
    newest_id = None if newest is None else newest.basis_id
    if newest_id in old:
        newest_id = fitting.fit_shared(there.searched)
    with database.shared() as tx:
        tenants = bases.tenants_in(tx, there.searched.space_id, None)
    for each in tenants:
        if not _reproject(each, SHARED, old, newest_id, until):
            return False, 0
    with database.tenant(SHARED) as tx:
        return True, bases.drop(tx, SHARED, old)


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


def _read(owner: UUID, basis_ids: Sequence[int]) -> dict[int, Basis]:
    with database.tenant(owner) as tx:
        return bases.read(tx, owner, basis_ids)
