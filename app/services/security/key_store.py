"""Keys of cold storage: a random one for each record, wrapped by its owner's, which the master key wraps.

The owner is a memory's subject, or the tenant where it has none. To destroy one key makes all that it opens unreadable
wherever copies lie: in segments, and in backups of them. Backups of the data leave the keys out:
`pg_dump --exclude-schema=ebbing_keys`; the keys are dumped apart, `pg_dump --schema=ebbing_keys`, and kept a shorter
time. Without them, or without the master key, what is cold is lost.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final
from uuid import UUID

from app.domain.tiers.sealing import KEY_BYTES, NONCE_BYTES, decrypt, encrypt
from app.domain.tiers.segment import Damaged
from app.errors import Misconfigured
from app.settings import settings
from app.store.core import database
from app.store.tiers import key_store as rows
from app.store.tiers.key_store import Wrapped

TENANT: Final = b""
REMEDY: Final = "set EBBING_MASTER_KEY to the key that the tenant's keys were wrapped by"


@dataclass(frozen=True, slots=True)
class Owners:
    """Keys of owners, unwrapped.

    Attributes:
        keys: By owner.
        wrapped: The same as they are stored.
        by_subject: The owner of each subject asked for; None is the tenant.
    """

    keys: Mapping[bytes, bytes]
    wrapped: Mapping[bytes, bytes]
    by_subject: Mapping[str | None, bytes]


def master_key() -> bytes:
    """The key that wraps the owners' keys.

    Raises:
        Misconfigured: None is set.
    """
    given = settings().master_key
    if given is None:
        raise Misconfigured("EBBING_MASTER_KEY isn't set, and cold storage is encrypted: `ebbing run` makes one")
    return _stretched(given.get_secret_value())


@lru_cache(maxsize=1)
def _stretched(given: str) -> bytes:
    return sha256(b"ebbing master key " + given.encode()).digest()


def owners(tenant_id: UUID, subjects: Collection[str | None]) -> Owners:
    """The keys of these subjects, made where they have none.

    Raises:
        Misconfigured: There is no master key, or another one than the tenant's keys were wrapped by.
    """
    with database.tenant(tenant_id) as tx:
        found = _got(tx, tenant_id, [TENANT])
        own = unwrapped(tenant_id, TENANT, found[TENANT])
        by_subject = {subject: _owner(own, subject) for subject in subjects}
        found |= _got(tx, tenant_id, list(set(by_subject.values()) - {TENANT}))
    keys = {owner: own if owner == TENANT else unwrapped(tenant_id, owner, key) for owner, key in found.items()}
    return Owners(keys, found, by_subject)


def _got(tx: database.Transaction, tenant_id: UUID, wanted: Sequence[bytes]) -> dict[bytes, bytes]:
    """Their wrapped keys, made where they have none."""
    found = rows.owners(tx, tenant_id, wanted)
    missing = [owner for owner in wanted if owner not in found]
    if not missing:
        return found
    master = master_key()
    made = {owner: _wrap(master, os.urandom(KEY_BYTES), _bound(tenant_id, owner)) for owner in missing}
    rows.add_owners(tx, tenant_id, made)
    return rows.owners(tx, tenant_id, wanted)


def unwrapped(tenant_id: UUID, owner: bytes, wrapped: bytes) -> bytes:
    """An owner's key.

    Raises:
        Misconfigured: There is no master key, or another one than it was wrapped by.
    """
    try:
        return decrypt(master_key(), wrapped, _bound(tenant_id, owner))
    except Damaged:
        raise Misconfigured(f"EBBING_MASTER_KEY doesn't open the keys of cold storage: {REMEDY}") from None


def wrap_record(tenant_id: UUID, key_id: UUID, key: bytes, owner: bytes, owner_key: bytes) -> Wrapped:
    """The key of a record as it is stored."""
    return Wrapped(owner, _wrap(owner_key, key, _bound(tenant_id, key_id.bytes)))


def opened(tx: database.Transaction, tenant_id: UUID, key_ids: Sequence[UUID]) -> dict[UUID, bytes]:
    """Keys of records; those that were destroyed, or that don't open, are left out.

    Raises:
        Misconfigured: There is no master key, or another one than the tenant's keys were wrapped by.
    """
    wrapped = rows.records(tx, tenant_id, key_ids)
    by_owner = rows.owners(tx, tenant_id, list({key.owner for key in wrapped.values()}))
    keys = {owner: unwrapped(tenant_id, owner, key) for owner, key in by_owner.items()}
    found = {}
    for key_id, (owner, key) in wrapped.items():
        if owner in keys:
            try:
                found[key_id] = decrypt(keys[owner], key, _bound(tenant_id, key_id.bytes))
            except Damaged:
                continue  # as good as destroyed: whoever wanted it names the memory
    return found


def has_key(tx: database.Transaction, tenant_id: UUID, subject: str) -> bool:
    """Whether a subject has a key.

    Raises:
        Misconfigured: There is no master key, or another one than the tenant's keys were wrapped by.
    """
    found = rows.owners(tx, tenant_id, [TENANT])
    if not found:
        return False
    owner = _owner(unwrapped(tenant_id, TENANT, found[TENANT]), subject)
    return owner in rows.owners(tx, tenant_id, [owner])


def destroy(tx: database.Transaction, tenant_id: UUID, subject: str) -> int:
    """Destroy a subject's key, and those of its records, in every copy of what they open. Returns how many there were.

    Raises:
        Misconfigured: There is no master key, or another one than the tenant's keys were wrapped by.
    """
    found = rows.owners(tx, tenant_id, [TENANT])
    if not found:
        return 0  # nothing of this tenant was ever cold
    own = unwrapped(tenant_id, TENANT, found[TENANT])
    return rows.remove_owner(tx, tenant_id, _owner(own, subject))


def _owner(tenant_key: bytes, subject: str | None) -> bytes:
    return TENANT if subject is None else blake2b(subject.encode(), digest_size=32, key=tenant_key).digest()


def _wrap(by: bytes, key: bytes, bound: bytes) -> bytes:
    return encrypt(by, os.urandom(NONCE_BYTES), key, bound)


def _bound(tenant_id: UUID, name: bytes) -> bytes:
    return b"key" + tenant_id.bytes + name
