"""Manage cold storage keys: a random key per record, wrapped by its owner's key, wrapped by the master key.

The owner is the memory's subject, or the tenant if there is none. Destroying a key makes everything encrypted with it
unreadable in every copy: in segments and in backups of segments. Backups of the data exclude the keys (`pg_dump
--exclude-schema=ebbing_keys`), which are dumped separately (`pg_dump --schema=ebbing_keys`) and retained for a shorter
time. Without the keys or the master key, cold data is lost.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final
from uuid import UUID

from app.domain.tiers.cold_segment import DamagedSegment
from app.domain.tiers.encryption import KEY_BYTES, NONCE_BYTES, decrypt, encrypt
from app.errors import Misconfigured
from app.settings import settings
from app.store.core import database
from app.store.tiers import wrapped_keys
from app.store.tiers.wrapped_keys import WrappedKey

TENANT: Final = b""
REMEDY: Final = "set EBBING_MASTER_KEY to the key that the tenant's keys were wrapped by"


@dataclass(frozen=True, slots=True)
class OwnerKeys:
    """Unwrapped keys of owners.

    Attributes:
        keys: By owner.
        wrapped: The keys as stored, by owner.
        by_subject: The owner of each requested subject; subject None is the tenant.
    """

    keys: Mapping[bytes, bytes]
    wrapped: Mapping[bytes, bytes]
    by_subject: Mapping[str | None, bytes]


def master_key() -> bytes:
    """Return the key that wraps the owners' keys.

    Raises:
        Misconfigured: No master key is set.
    """
    given = settings().master_key
    if given is None:
        raise Misconfigured("EBBING_MASTER_KEY isn't set, and cold storage is encrypted: `ebbing run` makes one")
    return _stretch(given.get_secret_value())


@lru_cache(maxsize=1)
def _stretch(given: str) -> bytes:
    return sha256(b"ebbing master key " + given.encode()).digest()


def load_owner_keys(tenant_id: UUID, subjects: Collection[str | None]) -> OwnerKeys:
    """Return the keys of these subjects, creating missing ones.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    with database.tenant(tenant_id) as tx:
        found = _get_or_create(tx, tenant_id, [TENANT])
        own = unwrap_key(tenant_id, TENANT, found[TENANT])
        by_subject = {subject: _owner(own, subject) for subject in subjects}
        found |= _get_or_create(tx, tenant_id, list(set(by_subject.values()) - {TENANT}))
    keys = {owner: own if owner == TENANT else unwrap_key(tenant_id, owner, key) for owner, key in found.items()}
    return OwnerKeys(keys, found, by_subject)


def _get_or_create(tx: database.Transaction, tenant_id: UUID, wanted: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the wrapped keys of these owners, creating missing ones."""
    found = wrapped_keys.read_owner_keys(tx, tenant_id, wanted)
    missing = [owner for owner in wanted if owner not in found]
    if not missing:
        return found
    master = master_key()
    made = {owner: _wrap(master, os.urandom(KEY_BYTES), _bound(tenant_id, owner)) for owner in missing}
    wrapped_keys.add_owners(tx, tenant_id, made)
    return wrapped_keys.read_owner_keys(tx, tenant_id, wanted)


def unwrap_key(tenant_id: UUID, owner: bytes, wrapped: bytes) -> bytes:
    """Return an owner's key.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped this key.
    """
    try:
        return decrypt(master_key(), wrapped, _bound(tenant_id, owner))
    except DamagedSegment:
        raise Misconfigured(f"EBBING_MASTER_KEY doesn't open the keys of cold storage: {REMEDY}") from None


def wrap_record(tenant_id: UUID, key_id: UUID, key: bytes, owner: bytes, owner_key: bytes) -> WrappedKey:
    """Return a record's key in its stored form."""
    return WrappedKey(owner, _wrap(owner_key, key, _bound(tenant_id, key_id.bytes)))


def open_record_keys(tx: database.Transaction, tenant_id: UUID, key_ids: Sequence[UUID]) -> dict[UUID, bytes]:
    """Return the keys of records; destroyed or undecryptable keys are omitted.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    wrapped = wrapped_keys.read_record_keys(tx, tenant_id, key_ids)
    by_owner = wrapped_keys.read_owner_keys(tx, tenant_id, list({key.owner for key in wrapped.values()}))
    keys = {owner: unwrap_key(tenant_id, owner, key) for owner, key in by_owner.items()}
    found = {}
    for key_id, (owner, key) in wrapped.items():
        if owner in keys:
            try:
                found[key_id] = decrypt(keys[owner], key, _bound(tenant_id, key_id.bytes))
            except DamagedSegment:
                continue  # equivalent to a destroyed key; the caller reports the memory
    return found


def has_key(tx: database.Transaction, tenant_id: UUID, subject: str) -> bool:
    """Return whether a subject has a key.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    found = wrapped_keys.read_owner_keys(tx, tenant_id, [TENANT])
    if not found:
        return False
    owner = _owner(unwrap_key(tenant_id, TENANT, found[TENANT]), subject)
    return owner in wrapped_keys.read_owner_keys(tx, tenant_id, [owner])


def destroy_keys(tx: database.Transaction, tenant_id: UUID, subject: str) -> int:
    """Destroy a subject's key and the keys of its records, and return how many there were.

    All copies of the data that they encrypt become unreadable.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    found = wrapped_keys.read_owner_keys(tx, tenant_id, [TENANT])
    if not found:
        return 0  # this tenant has never had cold data
    own = unwrap_key(tenant_id, TENANT, found[TENANT])
    return wrapped_keys.remove_owner(tx, tenant_id, _owner(own, subject))


def _owner(tenant_key: bytes, subject: str | None) -> bytes:
    return TENANT if subject is None else blake2b(subject.encode(), digest_size=32, key=tenant_key).digest()


def _wrap(by: bytes, key: bytes, bound: bytes) -> bytes:
    return encrypt(by, os.urandom(NONCE_BYTES), key, bound)


def _bound(tenant_id: UUID, name: bytes) -> bytes:
    return b"key" + tenant_id.bytes + name
