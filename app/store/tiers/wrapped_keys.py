"""Store the wrapped keys of records and their owners, in a schema separate from the data.

An owner is a byte string: empty for the tenant itself, otherwise the keyed hash of a subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import Uuids, driver_connection


class WrappedKey(NamedTuple):
    """A record's key, wrapped by its owner's key."""

    owner: bytes
    key: bytes


def read_owner_keys(
    tx: Connection, tenant_id: UUID, wanted: Sequence[bytes], *, held: bool = False
) -> dict[bytes, bytes]:
    """Return the wrapped keys of owners; owners without a key are omitted.

    Args:
        held: Lock the keys in share mode, so none can be destroyed until the transaction ends.
    """
    statement = f"{_OWNERS} {'ORDER BY owner FOR SHARE' if held else ''}"
    return dict(
        driver_connection(tx).execute(statement.encode(), {"tenant": tenant_id, "owners": list(wanted)}).fetchall()
    )


_OWNERS: Final = """
SELECT owner, wrapped FROM ebbing_keys.owner_keys WHERE tenant_id = %(tenant)s AND owner = ANY (%(owners)s::bytea[])
"""


def add_owners(tx: Connection, tenant_id: UUID, made: Mapping[bytes, bytes], master_key_id: str) -> None:
    """Insert wrapped keys of owners; existing keys are retained. The master key must be listed."""
    keys = [made[owner] for owner in sorted(made)]
    values = {"tenant": tenant_id, "owners": sorted(made), "keys": keys, "master": master_key_id}
    driver_connection(tx).execute(_ADD_OWNERS, values)


_ADD_OWNERS: Final = """
INSERT INTO ebbing_keys.owner_keys (tenant_id, owner, wrapped, master_key_id)
SELECT %(tenant)s, owner, key, %(master)s FROM unnest(%(owners)s::bytea[], %(keys)s::bytea[]) AS given (owner, key)
ON CONFLICT DO NOTHING
"""


def remove_owner(tx: Connection, tenant_id: UUID, owner: bytes) -> int:
    """Destroy an owner's key and those of its records. Return the number of keys destroyed."""
    values = {"tenant": tenant_id, "owner": owner}
    return sum(
        driver_connection(tx).execute(statement, values).rowcount for statement in (_REMOVE_OWNER, _REMOVE_ITS_RECORDS)
    )


_REMOVE_OWNER: Final = "DELETE FROM ebbing_keys.owner_keys WHERE tenant_id = %(tenant)s AND owner = %(owner)s"
_REMOVE_ITS_RECORDS: Final = "DELETE FROM ebbing_keys.record_keys WHERE tenant_id = %(tenant)s AND owner = %(owner)s"


def add_records(tx: Connection, tenant_id: UUID, made: Mapping[UUID, WrappedKey]) -> None:
    """Insert wrapped keys of records."""
    values = {
        "tenant": tenant_id,
        "ids": Uuids(list(made)),
        "owners": [key.owner for key in made.values()],
        "keys": [key.key for key in made.values()],
    }
    driver_connection(tx).execute(_ADD_RECORDS, values)


_ADD_RECORDS: Final = """
INSERT INTO ebbing_keys.record_keys (tenant_id, key_id, owner, wrapped)
SELECT %(tenant)s, key_id, owner, key
FROM unnest(%(ids)s, %(owners)s::bytea[], %(keys)s::bytea[]) AS given (key_id, owner, key)
"""


def read_record_keys(tx: Connection, tenant_id: UUID, key_ids: Sequence[UUID]) -> dict[UUID, WrappedKey]:
    """Return the wrapped keys of records; destroyed ones are omitted."""
    rows = driver_connection(tx).execute(_RECORDS, {"tenant": tenant_id, "ids": Uuids(key_ids)}).fetchall()
    return {key_id: WrappedKey(owner, key) for key_id, owner, key in rows}


_RECORDS: Final = """
SELECT key_id, owner, wrapped FROM ebbing_keys.record_keys WHERE tenant_id = %(tenant)s AND key_id = ANY (%(ids)s)
"""


def remove_records(tx: Connection, tenant_id: UUID, key_ids: Sequence[UUID]) -> None:
    """Destroy the keys of records, which makes every copy of the records unreadable."""
    driver_connection(tx).execute(_REMOVE_RECORDS, {"tenant": tenant_id, "ids": Uuids(key_ids)})


_REMOVE_RECORDS: Final = """
DELETE FROM ebbing_keys.record_keys WHERE tenant_id = %(tenant)s AND key_id = ANY (%(ids)s)
"""
