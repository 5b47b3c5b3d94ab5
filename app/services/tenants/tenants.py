"""Create and list tenants; issue and revoke API keys. A secret is shown only once, at creation."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid4

from app.domain.ingest.memory import check_moment
from app.domain.ingest.sources import Source
from app.domain.policy import api_keys
from app.domain.policy.policy import Policy
from app.domain.privacy.audit_chain import CLI, Detail
from app.errors import Conflict, FieldError, Invalid, NotFound
from app.services.security import audit
from app.store.core import database
from app.store.core.paging import Page
from app.store.tenants import policies, tenants
from app.store.tenants.tenants import KeyRecord, Tenant

FIRST_POLICY_VERSION = 1
NAME_MAX_CHARACTERS = 200
KEYS_MAX = 1_000
TENANT_SCOPES = tuple(scope for scope in api_keys.SCOPES if scope != "admin")


def create(
    name: str, policy: Policy | None = None, scopes: Sequence[str] = TENANT_SCOPES, actor: str = CLI
) -> tuple[Tenant, str]:
    """Create a tenant with its first policy and a key with these scopes.

    Args:
        actor: The actor named in the audit log.

    Returns:
        The tenant, and the key's text, which can't be retrieved again.

    Raises:
        Conflict: The name is taken.
        Invalid: The name is empty or too long.
    """
    _check_name(name)
    tenant_id = uuid4()
    with database.tenant(tenant_id) as tx:
        tenant = tenants.add(tx, tenant_id, name)
        if tenant is None:
            raise Conflict(f'tenant "{name}" already exists')
        policies.add(tx, tenant_id, FIRST_POLICY_VERSION, policy or Policy())
        key = _insert_key(tx, tenant_id, "first", scopes, None)
        audit.append(tx, tenant_id, "tenant_made", actor, details={"policy": FIRST_POLICY_VERSION})
        _audit_created(tx, tenant_id, key, scopes, None, actor=actor)
    return tenant, key


def create_simulated(name: str, policy: Policy, since: datetime) -> UUID:
    """Create a tenant for a simulation, without a key; its policy takes effect at `since`, in simulated time.

    Raises:
        Conflict: The name is taken.
    """
    tenant_id = uuid4()
    with database.tenant(tenant_id) as tx:
        if tenants.add(tx, tenant_id, name, simulated=True) is None:
            raise Conflict(f'tenant "{name}" already exists')
        policies.add(tx, tenant_id, FIRST_POLICY_VERSION, policy, since)
        audit.append(tx, tenant_id, "tenant_made", CLI, details={"policy": FIRST_POLICY_VERSION})
    return tenant_id


def list_tenants(after: str = "", limit: int = 100) -> Page[Tenant]:
    """Return a page of tenants by name, after the given name."""
    with database.shared() as tx:
        return tenants.list_tenants(tx, after, limit)


find_tenant = database.in_shared(tenants.find_tenant)
"""Return the tenant of this name."""


def issue_key(
    tenant_id: UUID,
    name: str,
    scopes: Sequence[str] = TENANT_SCOPES,
    expires_at: datetime | None = None,
    actor: str = CLI,
    source: Source = "unknown",
) -> str:
    """Issue another key for a tenant and return its text, which can't be retrieved again.

    Args:
        source: The most trusted source that the key may give to memories.
        actor: The actor named in the audit log.

    Raises:
        NotFound: There is no such tenant.
        Conflict: The tenant is being deleted, or deleted.
        Invalid: A scope is unknown or none is given, the name is empty or too long, or the expiry is out of range.
    """
    _check_name(name)
    if expires_at is not None:
        check_moment(expires_at, "expires_at")
    unknown = [scope for scope in scopes if scope not in api_keys.SCOPES]
    if unknown or not scopes:
        raise Invalid(
            errors=[FieldError("scopes", "must be some of the known scopes", None, ", ".join(api_keys.SCOPES))]
        )
    with database.tenant(tenant_id) as tx:
        tenant = tenants.lock(tx, tenant_id)
        if tenant is None:
            raise NotFound("Tenant not found")
        if tenant.deletion_id is not None:
            raise Conflict(f"this tenant is {tenant.status.replace('_', ' ')}, so it gets no keys")
        text = _insert_key(tx, tenant_id, name, scopes, expires_at, source)
        _audit_created(tx, tenant_id, text, scopes, expires_at, actor=actor, source=source)
    return text


def is_closed(tenant_id: UUID) -> bool:
    """Return True if a tenant is being deleted, or deleted."""
    with database.shared() as tx:
        tenant = tenants.get(tx, tenant_id)
    return tenant is not None and tenant.deletion_id is not None


find_key = database.in_shared(tenants.find_key)
"""Return a key by its id, including revoked and expired keys."""


def list_keys(tenant_id: UUID | None = None, after: str | None = None, limit: int = KEYS_MAX) -> Page[KeyRecord]:
    """Return a page of the keys of a tenant, or of all tenants, newest first.

    Args:
        after: Id of the previous page's last key.
    """
    with database.shared() as tx:
        return tenants.list_keys(tx, tenant_id, after, limit)


def revoke_key(key_id: str, actor: str = CLI) -> None:
    """Revoke a key. Every API process refuses it within 5 seconds.

    Args:
        actor: The actor named in the audit log.

    Raises:
        NotFound: There is no such key.
    """
    key = find_key(key_id) if key_id.isalnum() else None
    if key is None:
        raise NotFound("API key not found")
    with database.tenant(key.tenant_id) as tx:
        if tenants.revoke_key(tx, key_id):
            audit.append(tx, key.tenant_id, "key_revoked", actor, details={"key": key_id})


def _check_name(name: str) -> None:
    if not 0 < len(name) <= NAME_MAX_CHARACTERS:
        raise Invalid(errors=[FieldError("name", "has the wrong length", len(name), NAME_MAX_CHARACTERS)])
    if "\0" in name:
        raise Invalid(errors=[FieldError("name", "contains a NUL character, which can't be stored")])


def _audit_created(
    tx: database.Transaction,
    tenant_id: UUID,
    text: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    *,
    actor: str,
    source: Source = "unknown",
) -> None:
    parsed = api_keys.parse(text)
    details: dict[str, Detail] = {
        "key": parsed.key_id if parsed else None,
        "scopes": sorted(scopes),
        "expires_at": None if expires_at is None else expires_at.isoformat(),
        "source": source,
    }
    audit.append(tx, tenant_id, "key_made", actor, details=details)


def _insert_key(
    tx: database.Transaction,
    tenant_id: UUID,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    source: Source = "unknown",
) -> str:
    text = api_keys.make_key(secrets.token_bytes(api_keys.ID_BYTES), secrets.token_bytes(api_keys.SECRET_BYTES))
    parsed = api_keys.parse(text)
    if parsed is None:
        raise ValueError("a newly generated key can't be parsed")
    tenants.add_key(
        tx,
        key_id=parsed.key_id,
        tenant_id=tenant_id,
        name=name,
        digest=api_keys.digest_secret(parsed.secret),
        scopes=scopes,
        expires_at=expires_at,
        source=source,
    )
    return text
