"""Manage the keys of cold storage and exports: each record has a random key, which is wrapped by its owner's key.

The owner is the subject, or the tenant for a memory without a subject. Owners' keys are wrapped by the master key;
`master_keys` replaces it. A rotation changes the wrapped form of an owner's key: a caller that compares wrapped forms,
to find out whether the key was destroyed in between, has to treat a difference as a reason to try again.
Destroying a key makes everything encrypted with it unreadable in every copy, including backups. Backups of the data
exclude the keys (`pg_dump --exclude-schema=ebbing_keys`), which are dumped separately (`pg_dump --schema=ebbing_keys`)
and retained for a shorter time. Without the keys or the master key, cold data is lost.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final
from uuid import UUID

from app.domain.tiers.cold_segment import DamagedSegment
from app.domain.tiers.encryption import KEY_BYTES, NONCE_BYTES, decrypt, encrypt
from app.errors import Misconfigured
from app.settings import settings
from app.store.core import database
from app.store.tiers import master_keys, wrapped_keys
from app.store.tiers.wrapped_keys import WrappedKey

TENANT: Final = b""
KEY_ID_LENGTH: Final = 16
REMEDY: Final = "set it, or EBBING_OTHER_MASTER_KEYS, to the key that the tenant's keys were wrapped by"


@dataclass(frozen=True, slots=True)
class OwnerKeys:
    """Unwrapped keys of owners.

    Attributes:
        keys: The unwrapped keys, by owner.
        wrapped: The keys in their stored form, by owner.
        by_subject: The owner of each requested subject; subject None is the tenant.
    """

    keys: Mapping[bytes, bytes]
    wrapped: Mapping[bytes, bytes]
    by_subject: Mapping[str | None, bytes]


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A configured master key.

    Attributes:
        key_id: Digest of the secret; stored with the wrapped keys to identify the master key that wraps them.
        key: Key for AES, derived from the secret.
    """

    key_id: str
    key: bytes = field(repr=False)


def list_master_keys() -> list[MasterKey]:
    """Return the configured master keys: the current one, if it is set, then the others."""
    config = settings()
    current = [] if config.master_key is None else [config.master_key.get_secret_value()]
    others = [] if config.other_master_keys is None else config.other_master_keys.get_secret_value().splitlines()
    return [_derive_key(secret) for secret in dict.fromkeys([*current, *others])]


def current_master_key() -> MasterKey:
    """Return the master key that wraps new keys.

    Raises:
        Misconfigured: No master key is set.
    """
    if settings().master_key is None:
        what = "cold storage is encrypted, but EBBING_MASTER_KEY isn't set: set it (`ebbing run` creates a key itself)"
        raise Misconfigured(what)
    return list_master_keys()[0]


def digest_keys(purpose: str) -> list[bytes]:
    """Return keys for digests that nobody can guess without a master key.

    The first key is derived from the current master key, the others from the other configured ones. New digests use the
    first key; a digest that was stored before a rotation matches one of the others. Without a current master key, the
    only key is empty.
    """
    config = settings()
    if config.master_key is None:
        return [b""]
    others = config.other_master_keys.get_secret_value().splitlines() if config.other_master_keys else []
    return [_stretch(f"{purpose} {secret}") for secret in (config.master_key.get_secret_value(), *others)]


@lru_cache(maxsize=16)
def _derive_key(secret: str) -> MasterKey:
    return MasterKey(sha256(b"ebbing master key id " + secret.encode()).hexdigest()[:KEY_ID_LENGTH], _stretch(secret))


@lru_cache(maxsize=32)
def _stretch(given: str) -> bytes:
    return sha256(b"ebbing master key " + given.encode()).digest()


def load_owner_keys(tenant_id: UUID, subjects: Collection[str | None]) -> OwnerKeys:
    """Return the keys of these subjects and of the tenant, creating missing keys.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    with database.tenant(tenant_id) as tx:
        wrapped = _get_or_create(tx, tenant_id, [TENANT])
        tenant_key = unwrap_key(tenant_id, TENANT, wrapped[TENANT])
        by_subject = {subject: _owner(tenant_key, subject) for subject in subjects}
        wrapped |= _get_or_create(tx, tenant_id, list(set(by_subject.values()) - {TENANT}))
    keys = {
        owner: tenant_key if owner == TENANT else unwrap_key(tenant_id, owner, key) for owner, key in wrapped.items()
    }
    return OwnerKeys(keys, wrapped, by_subject)


def _get_or_create(tx: database.Transaction, tenant_id: UUID, wanted: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the wrapped keys of these owners, creating missing keys."""
    stored = wrapped_keys.read_owner_keys(tx, tenant_id, wanted)
    missing = [owner for owner in wanted if owner not in stored]
    if not missing:
        return stored
    master = current_master_key()
    created = {owner: wrap_owner(master, tenant_id, owner, os.urandom(KEY_BYTES)) for owner in missing}
    master_keys.add(tx, master.key_id)
    wrapped_keys.add_owners(tx, tenant_id, created, master.key_id)
    return wrapped_keys.read_owner_keys(tx, tenant_id, wanted)


def unwrap_key(tenant_id: UUID, owner: bytes, wrapped: bytes) -> bytes:
    """Unwrap an owner's key with the master key that wrapped it, the current one or another.

    Raises:
        Misconfigured: No master key is set, or none is the one that wrapped this key.
    """
    current_master_key()
    for master in list_master_keys():
        try:
            return decrypt(master.key, wrapped, _bound(tenant_id, owner))
        except DamagedSegment:
            continue
    raise Misconfigured(f"EBBING_MASTER_KEY can't decrypt the cold storage keys: {REMEDY}")


def wrap_owner(master: MasterKey, tenant_id: UUID, owner: bytes, key: bytes) -> bytes:
    """Wrap an owner's key with a master key."""
    return _wrap(master.key, key, _bound(tenant_id, owner))


def wrap_record(tenant_id: UUID, key_id: UUID, key: bytes, owner: bytes, owner_key: bytes) -> WrappedKey:
    """Wrap a record's key with its owner's key, for storing."""
    return WrappedKey(owner, _wrap(owner_key, key, _bound(tenant_id, key_id.bytes)))


def open_record_keys(tx: database.Transaction, tenant_id: UUID, key_ids: Sequence[UUID]) -> dict[UUID, bytes]:
    """Return the keys of records; destroyed or undecryptable keys are omitted.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    wrapped = wrapped_keys.read_record_keys(tx, tenant_id, key_ids)
    by_owner = wrapped_keys.read_owner_keys(tx, tenant_id, list({key.owner for key in wrapped.values()}))
    keys = {owner: unwrap_key(tenant_id, owner, key) for owner, key in by_owner.items()}
    record_keys = {}
    for key_id, (owner, key) in wrapped.items():
        if owner in keys:
            try:
                record_keys[key_id] = decrypt(keys[owner], key, _bound(tenant_id, key_id.bytes))
            except DamagedSegment:
                continue  # treat the key as destroyed; the caller reports the memory
    return record_keys


def has_key(tx: database.Transaction, tenant_id: UUID, subject: str) -> bool:
    """Return whether a subject has a key.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    wrapped = wrapped_keys.read_owner_keys(tx, tenant_id, [TENANT])
    if not wrapped:
        return False
    owner = _owner(unwrap_key(tenant_id, TENANT, wrapped[TENANT]), subject)
    return owner in wrapped_keys.read_owner_keys(tx, tenant_id, [owner])


def destroy_keys(tx: database.Transaction, tenant_id: UUID, subject: str) -> int:
    """Destroy a subject's key and the keys of its records; return the number of destroyed keys.

    All copies of the data that these keys encrypt become unreadable.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    wrapped = wrapped_keys.read_owner_keys(tx, tenant_id, [TENANT])
    if not wrapped:
        return 0  # this tenant has never had cold data
    tenant_key = unwrap_key(tenant_id, TENANT, wrapped[TENANT])
    return wrapped_keys.remove_owner(tx, tenant_id, _owner(tenant_key, subject))


def _owner(tenant_key: bytes, subject: str | None) -> bytes:
    return TENANT if subject is None else blake2b(subject.encode(), digest_size=32, key=tenant_key).digest()


def _wrap(by: bytes, key: bytes, bound: bytes) -> bytes:
    return encrypt(by, os.urandom(NONCE_BYTES), key, bound)


def _bound(tenant_id: UUID, name: bytes) -> bytes:
    return b"key" + tenant_id.bytes + name
