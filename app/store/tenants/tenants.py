"""Store tenants and their API keys. Only the digest of a key's secret is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.ingest.sources import Source, as_stored
from app.domain.policy.policy_defaults import CURRENT
from app.domain.tiers.keep_calibration import CHANCES_VERSION, KeepCalibration
from app.store.core.paging import Page, build_one, page_of

TenantStatus = Literal["active", "being_deleted", "deleted"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant.

    Attributes:
        name: Name; of a deleted tenant, its id.
        deletion_id: The erasure that deletes the tenant; None while the tenant is in use.
        delete_after: End of the deletion's grace period.
        deleted_at: Time at which the deletion was finished.
    """

    tenant_id: UUID
    name: str
    created_at: datetime
    deletion_id: UUID | None = None
    delete_after: datetime | None = None
    deleted_at: datetime | None = None

    @property
    def status(self) -> TenantStatus:
        """State of the tenant: in use, being deleted (from the request on), or deleted."""
        if self.deleted_at is not None:
            return "deleted"
        return "active" if self.deletion_id is None else "being_deleted"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret.

    Attributes:
        tenant_is_closed: The tenant is being deleted, so the key is refused.
        source: The highest source that the key may give to memories.
    """

    key_id: str
    tenant_id: UUID
    name: str
    digest: bytes
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    tenant_is_closed: bool = False
    source: Source = "unknown"


def add(tx: Connection, tenant_id: UUID, name: str, *, simulated: bool = False) -> Tenant | None:
    """Add a tenant. Return None if the name is taken.

    Args:
        simulated: The tenant's clock is simulated; it has no nightly runs, isn't listed, and incurs no costs.
    """
    calibration = msgspec.json.encode(KeepCalibration(version=CHANCES_VERSION)).decode()
    values = {
        "tenant_id": tenant_id,
        "name": name,
        "simulated": simulated,
        "defaults": CURRENT,
        "calibration": calibration,
    }
    return build_one(Tenant, tx.execute(_ADD, values))


_ADD = text("""
INSERT INTO tenants (tenant_id, name, simulated, defaults, keep_calibration)
VALUES (:tenant_id, :name, :simulated, :defaults, CAST(:calibration AS jsonb))
ON CONFLICT (name) DO NOTHING RETURNING tenant_id, name, created_at, deletion_id, delete_after, deleted_at
""")


def get(tx: Connection, tenant_id: UUID) -> Tenant | None:
    """Return a tenant by its id, or None if it doesn't exist."""
    return build_one(Tenant, tx.execute(_GET, {"tenant_id": tenant_id}))


_COLUMNS: Final = "SELECT tenant_id, name, created_at, deletion_id, delete_after, deleted_at FROM tenants"
_GET = text(f"{_COLUMNS} WHERE tenant_id = :tenant_id")


def lock(tx: Connection, tenant_id: UUID) -> Tenant | None:
    """Lock a tenant's row, so that its deletion can't begin or end, and return the tenant; None if it doesn't exist."""
    return build_one(Tenant, tx.execute(_LOCK, {"tenant_id": tenant_id}))


_LOCK = text(f"{_COLUMNS} WHERE tenant_id = :tenant_id FOR NO KEY UPDATE")


def read_names(tx: Connection, tenant_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the names of those of these tenants that exist."""
    return {row.tenant_id: row.name for row in tx.execute(_NAMES, {"ids": list(tenant_ids)})}


_NAMES = text("SELECT tenant_id, name FROM tenants WHERE tenant_id = ANY(:ids)")


def find_behind(tx: Connection, defaults: int) -> list[UUID]:
    """Return the ids of tenants whose policies were written under an older version of the defaults, in order."""
    return list(tx.execute(_FIND_BEHIND, {"defaults": defaults}).scalars())


_FIND_BEHIND = text("""
SELECT tenant_id FROM tenants WHERE defaults < :defaults AND deleted_at IS NULL ORDER BY tenant_id
""")


def read_defaults_version(tx: Connection, tenant_id: UUID) -> int:
    """Return the version of the defaults under which a tenant's policies were written."""
    return int(tx.execute(_WRITTEN_UNDER, {"tenant_id": tenant_id}).scalar_one())


_WRITTEN_UNDER = text("SELECT defaults FROM tenants WHERE tenant_id = :tenant_id")


def mark_written_under(tx: Connection, tenant_id: UUID, defaults: int) -> None:
    """Record that a tenant's policies follow this version of the defaults."""
    tx.execute(_MARK_WRITTEN_UNDER, {"tenant_id": tenant_id, "defaults": defaults})


_MARK_WRITTEN_UNDER = text("UPDATE tenants SET defaults = :defaults WHERE tenant_id = :tenant_id")


def find_tenant(tx: Connection, name: str) -> Tenant | None:
    """Return a tenant by its name, or None if it doesn't exist."""
    return build_one(Tenant, tx.execute(_FIND, {"name": name}))


_FIND = text(f"{_COLUMNS} WHERE name = :name")


def list_tenants(tx: Connection, after: str, limit: int) -> Page[Tenant]:
    """Return a page of tenants by name, without simulated ones."""
    rows = [Tenant(*row) for row in tx.execute(_PAGE, {"after": after, "limit": limit})]
    return page_of(rows, limit, lambda tenant: tenant.name)


_PAGE = text(f"{_COLUMNS} WHERE name > :after AND NOT simulated ORDER BY name LIMIT :limit")


def close(tx: Connection, tenant_id: UUID, deletion_id: UUID, delete_after: datetime) -> None:
    """Record that an erasure deletes the tenant: keys of the tenant are refused from then on."""
    values = {"tenant_id": tenant_id, "deletion_id": deletion_id, "delete_after": delete_after}
    tx.execute(_CLOSE, values)


_CLOSE = text("""
UPDATE tenants SET deletion_id = :deletion_id, delete_after = :delete_after, deleted_at = NULL
WHERE tenant_id = :tenant_id
""")


def reopen(tx: Connection, tenant_id: UUID) -> None:
    """Record that the tenant's deletion was cancelled."""
    tx.execute(_REOPEN, {"tenant_id": tenant_id})


_REOPEN = text("""
UPDATE tenants SET deletion_id = NULL, delete_after = NULL WHERE tenant_id = :tenant_id AND deleted_at IS NULL
""")


def leave_tombstone(tx: Connection, tenant_id: UUID) -> None:
    """Record that the tenant is deleted. Its row retains the id, which replaces the name, and the dates."""
    tx.execute(_LEAVE_TOMBSTONE, {"tenant_id": tenant_id})


_LEAVE_TOMBSTONE = text("""
UPDATE tenants SET name = CAST(tenant_id AS text), deleted_at = clock_timestamp(), keep_calibration = NULL
WHERE tenant_id = :tenant_id
""")


def list_stalled_deletions(tx: Connection) -> list[tuple[UUID, UUID]]:
    """Return the tenants whose unfinished deletion has had no job for an hour: tenant id and deletion id."""
    return [(row.tenant_id, row.deletion_id) for row in tx.execute(_STALLED)]


_STALLED = text("""
SELECT tenant_id, deletion_id FROM tenants
WHERE deletion_id IS NOT NULL AND deleted_at IS NULL AND NOT EXISTS (
  SELECT FROM jobs WHERE jobs.tenant_id = tenants.tenant_id AND jobs.kind = 'erase'
    AND jobs.parameters->>'erasure_id' = CAST(tenants.deletion_id AS text)
    AND (jobs.finished_at IS NULL OR jobs.finished_at > now() - interval '1 hour'))
ORDER BY tenant_id
""")


def add_key(
    tx: Connection,
    *,
    key_id: str,
    tenant_id: UUID,
    name: str,
    digest: bytes,
    scopes: Sequence[str],
    expires_at: datetime | None,
    source: Source,
) -> None:
    """Store a new key."""
    values = {
        "key_id": key_id,
        "tenant_id": tenant_id,
        "name": name,
        "digest": digest,
        "scopes": list(scopes),
        "expires_at": expires_at,
        "source": as_stored(source),
    }
    tx.execute(_ADD_KEY, values)


_ADD_KEY = text("""
INSERT INTO api_keys (key_id, tenant_id, name, digest, scopes, expires_at, source)
VALUES (:key_id, :tenant_id, :name, :digest, CAST(:scopes AS text[]), :expires_at, :source)
""")

_KEY_COLUMNS = """
SELECT key_id, tenant_id, name, digest, scopes, created_at, expires_at, revoked_at, (
  SELECT deletion_id IS NOT NULL FROM tenants WHERE tenants.tenant_id = key.tenant_id) AS tenant_is_closed,
  coalesce(source, 'unknown')
FROM api_keys AS key"""


def find_key(tx: Connection, key_id: str) -> KeyRecord | None:
    """Return a key by its id, or None if it doesn't exist, and record today as its last day of use."""
    tx.execute(_USED, {"key_id": key_id})
    row = tx.execute(_FIND_KEY, {"key_id": key_id}).one_or_none()
    return None if row is None else _key(row)


_FIND_KEY = text(f"{_KEY_COLUMNS} WHERE key_id = :key_id")

_USED = text("""
UPDATE api_keys SET last_used_on = current_date
WHERE key_id = :key_id AND last_used_on IS DISTINCT FROM current_date
""")


def list_keys(tx: Connection, tenant_id: UUID | None, after: str | None, limit: int) -> Page[KeyRecord]:
    """Return a page of the keys of one tenant or of all, newest first, starting after the key with the id `after`."""
    rows = [_key(row) for row in tx.execute(_KEYS, {"tenant_id": tenant_id, "after": after, "limit": limit})]
    return page_of(rows, limit, lambda key: key.key_id)


_KEYS = text(f"""
{_KEY_COLUMNS}
WHERE (CAST(:tenant_id AS uuid) IS NULL OR tenant_id = CAST(:tenant_id AS uuid))
  AND (CAST(:after AS text) IS NULL OR EXISTS (
    SELECT FROM api_keys AS last WHERE last.key_id = :after AND (
      key.created_at < last.created_at OR (key.created_at = last.created_at AND key.key_id > last.key_id))))
ORDER BY created_at DESC, key_id LIMIT :limit
""")


def revoke_key(tx: Connection, key_id: str) -> bool:
    """Revoke a key. Return False if it doesn't exist or is already revoked."""
    return tx.execute(_REVOKE_KEY, {"key_id": key_id}).rowcount == 1


_REVOKE_KEY = text("UPDATE api_keys SET revoked_at = now() WHERE key_id = :key_id AND revoked_at IS NULL")


def _key(row: Sequence[object]) -> KeyRecord:
    key_id, tenant_id, name, digest, scopes, *times = row
    return KeyRecord(key_id, tenant_id, name, bytes(digest), frozenset(scopes), *times)  # type: ignore[arg-type,call-overload]
