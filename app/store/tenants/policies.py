"""Store policies as JSON, one row per version."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.policy.policy import Policy
from app.store.core.binary_arrays import driver_connection

Author = Literal["learned"]
"""Author of a version with rates learned by the service. All other versions have None as author."""


def add(
    tx: Connection,
    tenant_id: UUID,
    version: int,
    policy: Policy,
    effective_at: datetime | None = None,
    author: Author | None = None,
) -> None:
    """Insert a version of a tenant's policy, effective from the given time; None means now."""
    body = policy.dump_stored()
    values = {"tenant_id": tenant_id, "version": version, "body": body, "at": effective_at, "author": author}
    tx.execute(_ADD, values)


_ADD = text("""
INSERT INTO policies (tenant_id, version, body, effective_at, author)
VALUES (:tenant_id, :version, CAST(:body AS jsonb), coalesce(CAST(:at AS timestamptz), now()), :author)
""")


def list_learned(tx: Connection, tenant_id: UUID) -> set[int]:
    """Return the versions that contain learned rates written by the service."""
    return set(tx.execute(_LEARNED, {"tenant_id": tenant_id}).scalars())


_LEARNED = text("SELECT version FROM policies WHERE tenant_id = :tenant_id AND author = 'learned'")


def lock(tx: Connection, tenant_id: UUID) -> None:
    """Lock the tenant's row until the transaction ends, so no other transaction adds a policy version."""
    tx.execute(_LOCK, {"tenant_id": tenant_id})


_LOCK = text("SELECT FROM tenants WHERE tenant_id = :tenant_id FOR NO KEY UPDATE")


def read_current(tx: Connection, tenant_id: UUID) -> Policy:
    """Return the policy in force, or the default if none was set."""
    body = tx.execute(_CURRENT, {"tenant_id": tenant_id}).scalar()
    return Policy() if body is None else Policy.load_stored(body)


_CURRENT = text("""
SELECT CAST(body AS text) FROM policies
WHERE tenant_id = :tenant_id AND effective_at <= now() ORDER BY version DESC LIMIT 1
""")


def is_rebased(tx: Connection, tenant_id: UUID, version: int) -> bool:
    """Return True if a completed rebase left no memory under a version older than this."""
    return bool(tx.execute(_IS_REBASED, {"tenant_id": tenant_id, "version": version}).scalar_one())


_IS_REBASED = text("""
SELECT :version = 0 OR EXISTS (
  SELECT FROM policies WHERE tenant_id = :tenant_id AND version >= :version AND rebased_at IS NOT NULL)
""")


def mark_rebased(tx: Connection, tenant_id: UUID, version: int) -> None:
    """Record that no memory remains under an older version."""
    tx.execute(_MARK_REBASED, {"tenant_id": tenant_id, "version": version})


_MARK_REBASED = text("""
UPDATE policies SET rebased_at = now() WHERE tenant_id = :tenant_id AND version = :version AND rebased_at IS NULL
""")


def count_profiles(tx: Connection) -> dict[str, int]:
    """Return the number of tenants per forgetting model, in force or scheduled; needs a role that sees all tenants."""
    return {row.profile: row.tenants for row in tx.execute(_PROFILES)}


_PROFILES = text("""
SELECT coalesce(body #>> '{forgetting,profile}', 'spec') AS profile, count(DISTINCT tenant_id) AS tenants
FROM policies AS policy WHERE NOT EXISTS (
  SELECT FROM policies AS later WHERE later.tenant_id = policy.tenant_id AND later.version > policy.version
    AND later.effective_at <= greatest(policy.effective_at, now()))
GROUP BY 1 ORDER BY 1
""")


def list_versions(tx: Connection, tenant_id: UUID) -> list[tuple[int, float, str]]:
    """Return all policy versions of a tenant: version, effective time in seconds since 1970, and JSON."""
    return driver_connection(tx).execute(VERSIONS, {"tenant": tenant_id}).fetchall()


VERSIONS: Final = """
SELECT version, CAST(extract(epoch FROM effective_at) AS float8) AS since, CAST(body AS text) AS body
FROM policies WHERE tenant_id = %(tenant)s ORDER BY version
"""
