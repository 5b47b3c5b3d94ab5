"""List the master keys that wrap owners' keys, and replace one by another. The master keys themselves aren't stored.

A master key is listed before it wraps a key, and can't be removed from the list while it wraps one: a foreign key
ensures both, across tenants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from app.store.core.binary_arrays import driver_connection


def list_ids(tx: Connection) -> list[str]:
    """Return the ids of the listed master keys; none if the schema has no list yet."""
    return list(tx.execute(_IDS).scalars()) if tx.execute(_HAS_LIST).scalar_one() else []


_HAS_LIST: Final = text("SELECT to_regclass('ebbing_keys.master_keys') IS NOT NULL")
_IDS: Final = text("SELECT key_id FROM ebbing_keys.master_keys ORDER BY first_used_at, key_id")


def add(tx: Connection, key_id: str) -> None:
    """List a master key, unless it is listed already."""
    tx.execute(_ADD, {"key_id": key_id})


_ADD: Final = text("INSERT INTO ebbing_keys.master_keys (key_id) VALUES (:key_id) ON CONFLICT DO NOTHING")


def remove(tx: Connection, key_id: str) -> bool:
    """Remove a master key from the list; return False if it still wraps a key of any tenant."""
    try:
        with tx.begin_nested():
            tx.execute(_REMOVE, {"key_id": key_id})
    except IntegrityError:
        return False
    return True


_REMOVE: Final = text("DELETE FROM ebbing_keys.master_keys WHERE key_id = :key_id")


def list_tenants(tx: Connection, after: UUID, limit: int) -> list[UUID]:
    """Return the tenants whose id is greater, in order, simulated ones included."""
    return list(tx.execute(_TENANTS, {"after": after, "limit": limit}).scalars())


_TENANTS: Final = text("SELECT tenant_id FROM tenants WHERE tenant_id > :after ORDER BY tenant_id LIMIT :limit")


def count_wrapped(tx: Connection, tenant_id: UUID) -> dict[str | None, int]:
    """Return the number of owners' keys by the master key that wraps them; None where it isn't recorded."""
    return {row.master_key_id: row.number for row in tx.execute(_COUNTS, {"tenant": tenant_id})}


_COUNTS: Final = text("""
SELECT master_key_id, count(*) AS number FROM ebbing_keys.owner_keys WHERE tenant_id = :tenant GROUP BY master_key_id
""")


def lock_others(tx: Connection, tenant_id: UUID, key_id: str, after: bytes | None, limit: int) -> dict[bytes, bytes]:
    """Lock and return wrapped keys, by owner, for which another master key or none is recorded.

    Args:
        key_id: The master key that is to wrap all keys.
        after: Only owners greater than this one; None for all.
    """
    values = {"tenant": tenant_id, "key_id": key_id, "after": after, "limit": limit}
    return dict(driver_connection(tx).execute(_OTHERS, values).fetchall())


_OTHERS: Final = """
SELECT owner, wrapped FROM ebbing_keys.owner_keys
WHERE tenant_id = %(tenant)s AND master_key_id IS DISTINCT FROM %(key_id)s
  AND (%(after)s::bytea IS NULL OR owner > %(after)s)
ORDER BY owner LIMIT %(limit)s FOR UPDATE
"""


def replace(tx: Connection, tenant_id: UUID, key_id: str, wrapped: Mapping[bytes, bytes]) -> None:
    """Store keys as wrapped by this master key."""
    values = {"tenant": tenant_id, "key_id": key_id, "owners": list(wrapped), "keys": list(wrapped.values())}
    driver_connection(tx).execute(_REPLACE, values)


_REPLACE: Final = """
UPDATE ebbing_keys.owner_keys AS stored SET wrapped = given.key, master_key_id = %(key_id)s
FROM unnest(%(owners)s::bytea[], %(keys)s::bytea[]) AS given (owner, key)
WHERE stored.tenant_id = %(tenant)s AND stored.owner = given.owner
"""
