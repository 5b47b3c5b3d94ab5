"""Create and read the secrets that sign webhook messages; the key store has them, wrapped by the tenant's key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from app.domain.webhooks.messages import SECRET_BYTES
from app.errors import Conflict
from app.services.security import encryption_keys
from app.services.security.encryption_keys import TENANT
from app.settings import settings
from app.store.core import database
from app.store.tiers import wrapped_keys
from app.store.tiers.wrapped_keys import WrappedKey


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret that isn't stored yet, with its wrapped form."""

    secret_id: UUID
    secret: bytes = field(repr=False)
    wrapped: WrappedKey


def make(tenant_id: UUID) -> NewSecret:
    """Return a new random secret.

    Raises:
        Conflict: No master key is set.
        Misconfigured: The master key isn't the one that wrapped the tenant's keys.
    """
    if settings().master_key is None:
        raise Conflict(
            "secrets of webhooks are stored encrypted, but EBBING_MASTER_KEY isn't set: set it (`ebbing run` creates a "
            "key itself)"
        )
    owners = encryption_keys.load_owner_keys(tenant_id, ())
    secret_id, secret = uuid4(), os.urandom(SECRET_BYTES)
    return NewSecret(
        secret_id, secret, encryption_keys.wrap_record(tenant_id, secret_id, secret, TENANT, owners.keys[TENANT])
    )


def store(tx: database.Transaction, tenant_id: UUID, new: NewSecret) -> None:
    """Store a new secret in its wrapped form."""
    wrapped_keys.add_records(tx, tenant_id, {new.secret_id: new.wrapped})


def destroy(tx: database.Transaction, tenant_id: UUID, secret_ids: Sequence[UUID | None]) -> None:
    """Destroy the secrets that exist."""
    wrapped_keys.remove_records(tx, tenant_id, [each for each in secret_ids if each is not None])


def read(tx: database.Transaction, tenant_id: UUID, secret_ids: Sequence[UUID | None]) -> list[bytes]:
    """Return the secrets in their order; those that are missing or can't be decrypted are omitted.

    Raises:
        Misconfigured: The master key is missing, or isn't the one that wrapped the tenant's keys.
    """
    wanted = [each for each in secret_ids if each is not None]
    secrets = encryption_keys.open_record_keys(tx, tenant_id, wanted)
    return [secrets[each] for each in wanted if each in secrets]
