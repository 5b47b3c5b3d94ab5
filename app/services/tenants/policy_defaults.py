"""Upgrade stored policies that hold an earlier version's defaults to the defaults of this version."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import structlog

from app.domain.dynamics.timeline import Timeline
from app.domain.policy import policy_diff
from app.domain.policy.policy import Policy
from app.domain.policy.policy_defaults import CURRENT, follow_defaults
from app.domain.privacy.audit_chain import SYSTEM, Detail
from app.services.security import audit
from app.services.strength import memory_strength
from app.store.core import database
from app.store.tenants import policies, tenants

log = structlog.get_logger(__name__)


def upgrade_all() -> int:
    """Write new versions of all policies in force or scheduled that hold former defaults.

    Values set by a tenant are preserved. Idempotent.

    Returns:
        The number of tenants with a new version.
    """
    with database.shared() as tx:
        behind = tenants.find_behind(tx, CURRENT)
    return sum(upgrade_tenant(tenant_id) for tenant_id in behind)


def upgrade_tenant(tenant_id: UUID) -> bool:
    """Upgrade the policies of one tenant. Return whether it has a new version."""
    with database.tenant(tenant_id) as tx:
        policies.lock(tx, tenant_id)
        now = database.now(tx)
        eras = memory_strength.load_eras(tx, tenant_id)
        times = Timeline(eras)
        under = tenants.read_defaults_version(tx, tenant_id)
        held = times.at(now.timestamp())
        latest = max((era.version for era in eras), default=0)
        fields: set[str] = set()
        written = 0
        for era in (held, *times.after(now.timestamp())):
            changed, names = _upgrade_policy(era.policy, under)
            # Once a version has been written, rewrite all scheduled ones after it: a lower number would never be in
            # force.
            if not names and not written:
                continue
            written += 1
            since = now if era is held else datetime.fromtimestamp(era.since, UTC)
            policies.add(tx, tenant_id, latest + written, changed, since)
            if era is held and policies.is_rebased(tx, tenant_id, era.version):
                policies.mark_rebased(tx, tenant_id, latest + written)
            fields.update(names)
        tenants.mark_written_under(tx, tenant_id, CURRENT)
        if not written:
            return False
        details: dict[str, Detail] = {
            "version": latest + written,
            "parts": sorted({name.partition(".")[0] for name in fields}),
            "superseded": 0,
        }
        audit.append(tx, tenant_id, "policy_set", SYSTEM, details=details)
    log.info("policy_follows_defaults", tenant=str(tenant_id), version=latest + written, fields=sorted(fields))
    return True


def _upgrade_policy(policy: Policy, written_under: int) -> tuple[Policy, list[str]]:
    """Return the policy under this version's defaults, and the names of the fields that differ."""
    followed = follow_defaults(policy, written_under)
    return followed, [change.field for change in policy_diff.list_differences(policy, followed)]
