"""Replace the defaults of earlier versions in stored policies by the defaults of this version."""

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
    """Write new versions of all policies, in force or scheduled, that contain former defaults.

    Values set by a tenant are preserved. Idempotent.

    Returns:
        The number of tenants with a new version.
    """
    with database.shared() as tx:
        outdated_ids = tenants.find_behind(tx, CURRENT)
    return sum(upgrade_tenant(tenant_id) for tenant_id in outdated_ids)


def upgrade_tenant(tenant_id: UUID) -> bool:
    """Upgrade the policies of one tenant. Return whether it has a new version."""
    with database.tenant(tenant_id) as tx:
        policies.lock(tx, tenant_id)
        now = database.now(tx)
        eras = memory_strength.load_eras(tx, tenant_id)
        times = Timeline(eras)
        written_under = tenants.read_defaults_version(tx, tenant_id)
        in_force = times.at(now.timestamp())
        latest = max((era.version for era in eras), default=0)
        fields: set[str] = set()
        added = 0
        for era in (in_force, *times.after(now.timestamp())):
            changed, names = _upgrade_policy(era.policy, written_under)
            # After writing one version, rewrite every later scheduled version as well: with a lower number than the new
            # version, it would never take effect.
            if not names and not added:
                continue
            added += 1
            since = now if era is in_force else datetime.fromtimestamp(era.since, UTC)
            policies.add(tx, tenant_id, latest + added, changed, since)
            if era is in_force and policies.is_rebased(tx, tenant_id, era.version):
                policies.mark_rebased(tx, tenant_id, latest + added)
            fields.update(names)
        tenants.mark_written_under(tx, tenant_id, CURRENT)
        if not added:
            return False
        details: dict[str, Detail] = {
            "version": latest + added,
            "parts": sorted({name.partition(".")[0] for name in fields}),
            "superseded": 0,
        }
        audit.append(tx, tenant_id, "policy_set", SYSTEM, details=details)
    log.info("policy_follows_defaults", tenant=str(tenant_id), version=latest + added, fields=sorted(fields))
    return True


def _upgrade_policy(policy: Policy, written_under: int) -> tuple[Policy, list[str]]:
    """Return the policy under this version's defaults, and the names of the fields that differ."""
    followed = follow_defaults(policy, written_under)
    return followed, [change.field for change in policy_diff.list_differences(policy, followed)]
