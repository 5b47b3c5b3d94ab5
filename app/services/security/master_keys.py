"""Rotate the master key: wrap all owners' keys with the current one, and check that no key in use is missing.

Only wrapped keys are rewritten; records, texts and the digests that depend on owners' keys stay as they are. Progress
is stored in the rows, so a rotation can be interrupted, repeated, and run beside the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from app.domain.privacy.audit_chain import CLI
from app.errors import Misconfigured
from app.services.security import audit, encryption_keys
from app.store.core import database
from app.store.tiers import master_keys

BATCH_KEYS: Final = 500
TENANTS_PER_PAGE: Final = 500
REMEDY: Final = "add it to EBBING_OTHER_MASTER_KEYS, and run `ebbing master-key rotate` before removing it"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RotationProgress:
    """Numbers of a rotation up to now: tenants that were checked, and keys that were wrapped again."""

    tenants: int
    keys: int


def find_missing() -> list[str]:
    """Return the ids of master keys that wrap keys, or did until the last rotation, and aren't configured."""
    with database.shared() as tx:
        listed = master_keys.list_ids(tx)
    configured = {key.key_id for key in encryption_keys.list_master_keys()}
    return [key_id for key_id in listed if key_id not in configured]


def describe_missing(missing: list[str]) -> str:
    """Return the problem of missing master keys, in one clause."""
    return f"the master key {' and '.join(missing)} isn't set, and keys of cold storage are wrapped by it"


def check_at_start() -> None:
    """Refuse to start without a master key that wraps stored keys; only warn if PostgreSQL can't be asked.

    Raises:
        Misconfigured: A master key is missing. The error, with its remedy, is also logged.
    """
    try:
        missing = find_missing()
    except database.DatabaseError as error:
        log.warning("master_keys_unchecked", error=type(error).__name__)
        return
    if missing:
        what = f"{describe_missing(missing)}: {REMEDY}"
        log.critical("misconfigured", what=what)
        raise Misconfigured(what)


def rotate() -> Iterator[RotationProgress]:
    """Wrap every owner's key with the current master key, in batches; yield the progress after each batch.

    Raises:
        Misconfigured: No master key is set, or one that wraps keys is missing; keys of earlier batches stay rewrapped.
    """
    current = encryption_keys.current_master_key()
    if missing := find_missing():
        raise Misconfigured(f"{describe_missing(missing)}: {REMEDY}")
    keys = 0
    for tenants, tenant_id in enumerate(_each_tenant()):
        after: bytes | None = None
        while True:
            owners = _rotate_batch(tenant_id, current, after)
            keys += len(owners)
            if len(owners) < BATCH_KEYS:
                break
            after = owners[-1]
            yield RotationProgress(tenants, keys)
        yield RotationProgress(tenants + 1, keys)


def _rotate_batch(tenant_id: UUID, current: encryption_keys.MasterKey, after: bytes | None) -> list[bytes]:
    """Wrap a batch of keys again; return their owners in order."""
    with database.tenant(tenant_id) as tx:
        stored = master_keys.lock_others(tx, tenant_id, current.key_id, after, BATCH_KEYS)
        if not stored:
            return []
        rewrapped = {
            owner: encryption_keys.wrap_owner(
                current, tenant_id, owner, encryption_keys.unwrap_key(tenant_id, owner, wrapped)
            )
            for owner, wrapped in stored.items()
        }
        master_keys.add(tx, current.key_id)
        master_keys.replace(tx, tenant_id, current.key_id, rewrapped)
        details = {"act": "rotate_master_key", "master_key": current.key_id}
        audit.append(tx, tenant_id, "operator_acted", CLI, items=len(rewrapped), details=details)
    return list(stored)


def remove_unused() -> list[str]:
    """Remove unused master keys, except the current one, from the stored list; return the ids of other keys in use."""
    current = encryption_keys.current_master_key()
    with database.shared() as tx:
        others = [key_id for key_id in master_keys.list_ids(tx) if key_id != current.key_id]
        return [key_id for key_id in others if not master_keys.remove(tx, key_id)]


def count_wrapped() -> dict[str | None, int]:
    """Return the number of owners' keys by the id of the master key that wraps them; None where it isn't recorded."""
    counts: Counter[str | None] = Counter()
    for tenant_id in _each_tenant():
        with database.tenant(tenant_id) as tx:
            counts.update(master_keys.count_wrapped(tx, tenant_id))
    return dict(counts)


def _each_tenant() -> Iterator[UUID]:
    after = UUID(int=0)
    while True:
        with database.shared() as tx:
            page = master_keys.list_tenants(tx, after, TENANTS_PER_PAGE)
        yield from page
        if len(page) < TENANTS_PER_PAGE:
            return
        after = page[-1]
