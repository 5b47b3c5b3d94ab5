"""Learn a tenant's rates of forgetting from when its memories were used: preview, apply, and the nightly step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog

from app.domain.dynamics.rate_fit import fit_speed
from app.domain.dynamics.timeline import Timeline
from app.domain.jobs import Step
from app.domain.policy import learned_rates
from app.domain.policy.learned_rates import LearnedRate, StoredRates
from app.domain.policy.policy import Policy
from app.domain.privacy.audit_chain import SYSTEM
from app.domain.tiers.protection import FORMER_SALIENCE
from app.errors import Conflict, Invalid
from app.services.strength import memory_strength
from app.services.tenants import policy_versions
from app.services.tenants.policy_impact import PolicyImpact
from app.services.tenants.policy_versions import ChangeOutcome, RequestedChange
from app.store.core import database
from app.store.strength import observed_uses
from app.store.strength.observed_uses import Cohort
from app.store.tenants import learned_rates as stored_rates
from app.store.tenants import policies

MEMORIES_MAX: Final = 5_000
"""Number of memories that are read for each rate."""
OBSERVED_DAYS_MAX: Final = 365
EVERY: Final = timedelta(days=7)
"""Time between two nightly runs that learn; `_NIGHT_SHIFT` less suffices, since nights don't start at exact times."""

_NIGHT_SHIFT: Final = timedelta(hours=12)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Learned:
    """Rates learned under the policy in force.

    Attributes:
        policy: That policy.
        latest_version: The highest number of a policy version when the rates were learned; 0 if there is none.
        rates: The rates; none if the profile isn't built in.
        values: Parameters that the next policy version would set, by path below `forgetting.parameters`.
        is_scheduled: True if another version is scheduled, which a change would cancel.
    """

    policy: Policy
    latest_version: int
    rates: list[LearnedRate]
    values: dict[str, float]
    is_scheduled: bool

    @property
    def change(self) -> RequestedChange | None:
        """Change of the policy that applies the values; None without values."""
        if not self.values:
            return None
        fields = {"forgetting": {"parameters": learned_rates.merge_paths({}, self.values)}}
        return RequestedChange(fields, expected_version=self.latest_version, author="learned")


def learn(tenant_id: UUID, as_of: datetime | None = None) -> Learned:
    """Estimate each rate of the policy in force from uses until a time; None for now."""
    with database.tenant(tenant_id) as tx:
        now = as_of or database.now(tx)
        eras = memory_strength.load_eras(tx, tenant_id)
        stored = stored_rates.read(tx, tenant_id)
    times = Timeline(eras)
    policy = times.at(now.timestamp()).policy
    found = []
    for rate in learned_rates.list_rates(policy):
        with database.tenant(tenant_id) as tx:
            observed = observed_uses.read(tx, tenant_id, _cohort(policy, rate.kinds, now), MEMORIES_MAX)
        fit = fit_speed(partial(learned_rates.model_at, policy, rate), observed)
        found.append(learned_rates.weigh(policy, rate, fit, stored.restore_rate(rate)))
    latest = max((era.version for era in eras), default=0)
    values = learned_rates.proposed_parameters(found)
    return Learned(policy, latest, found, values, is_scheduled=bool(times.after(now.timestamp())))


def preview(tenant_id: UUID) -> tuple[Learned, ChangeOutcome | None, PolicyImpact | None]:
    """Return the learned rates, and the outcome and impact of applying them (None if none changes). Write nothing."""
    learned = learn(tenant_id)
    if learned.change is None:
        return learned, None, None
    return learned, *policy_versions.preview_change(tenant_id, learned.change)


def apply(tenant_id: UUID, actor: str) -> tuple[Learned, ChangeOutcome | None, UUID | None]:
    """Learn the rates, and write them as a policy version, or nothing if none should change.

    Args:
        actor: The actor named in the audit log.

    Returns:
        The rates; the outcome, None if no rate changes; the id of the job that rebases the memories, None without one.

    Raises:
        Conflict: Another version was written in the meantime.
    """
    learned = learn(tenant_id)
    if learned.change is None:
        return learned, None, None
    return learned, *_write(tenant_id, learned, learned.change, actor)


def read_proposed(tenant_id: UUID) -> tuple[datetime, dict[str, float]] | None:
    """Return the values proposed by the last nightly run, by path, with its time; None if nothing is proposed."""
    with database.tenant(tenant_id) as tx:
        stored = stored_rates.read(tx, tenant_id)
    if stored.at is None or not stored.proposed:
        return None
    return datetime.fromtimestamp(stored.at, UTC), stored.proposed


def run_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], _until: float) -> Step:
    """Learn in a nightly run if the policy asks for it and the last result is a week old.

    After a crash between writing the policy version and storing the result, the run is repeated, and then finds the
    rates in force.
    """
    with database.tenant(tenant_id) as tx:
        policy = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp()).policy
        stored = stored_rates.read(tx, tenant_id)
        mode = policy.forgetting.learned
        if mode == "off" and stored.proposed:
            stored_rates.write(tx, tenant_id, StoredRates(stored.at, stored.by_hand, stored.applied))
    since = None if stored.at is None else as_of.timestamp() - stored.at
    if mode == "off" or (since is not None and since < (EVERY - _NIGHT_SHIFT).total_seconds()):
        return Step(0, state, finished=True)
    learned = learn(tenant_id, as_of)
    change, applied = learned.change, 0
    notes: tuple[str, ...] = ()
    if change is not None and mode == "apply":
        applied, notes = _try_apply(tenant_id, learned, change)
    with database.tenant(tenant_id) as tx:
        stored = stored_rates.read(tx, tenant_id)
        proposed = {} if applied else learned.values
        stored_rates.write(tx, tenant_id, StoredRates(as_of.timestamp(), stored.by_hand, stored.applied, proposed))
    log.info("rates_learned", tenant=str(tenant_id), proposed=len(proposed), applied=applied)
    if proposed:
        notes = (*notes, "rates of forgetting are proposed: `ebbing policy learn` shows them and their effect")
    return Step(1, state, finished=True, counts={"applied": applied, "proposed": len(proposed)}, notes=notes)


def _try_apply(tenant_id: UUID, learned: Learned, change: RequestedChange) -> tuple[int, tuple[str, ...]]:
    """Apply a change at night, unless that cancels a scheduled version; return the number of changes, and notes."""
    if learned.is_scheduled:
        return 0, ("learned rates weren't applied, because another policy version is scheduled",)
    try:
        outcome, _ = _write(tenant_id, learned, change, SYSTEM)
    except (Conflict, Invalid) as refused:
        log.info("learned_rates_refused", tenant=str(tenant_id), error=type(refused).__name__)
        return 0, ("learned rates weren't applied, because the policy has changed or doesn't permit them",)
    return len(outcome.changes), ()


def _write(tenant_id: UUID, learned: Learned, change: RequestedChange, actor: str) -> tuple[ChangeOutcome, UUID | None]:
    """Write the learned values as a policy version, and note which values they replaced."""
    # Write this before the version: if the version isn't written, the values aren't in force, and this has no effect.
    with database.tenant(tenant_id) as tx:
        policies.lock(tx, tenant_id)
        stored = stored_rates.read(tx, tenant_id)
        stored_rates.write(tx, tenant_id, stored.add_applied([one.rate for one in learned.rates], learned.values))
    return policy_versions.write_change(tenant_id, change, actor)


def _cohort(policy: Policy, kinds: Sequence[int], now: datetime) -> Cohort:
    """Return the memories to observe: those whose uses can't have decided whether they were deleted.

    Decay deletes memories that aren't used. So a memory counts only if it is too young to be deleted, or if its keep
    chance or salience, which don't depend on uses, prevents its deletion.
    """
    tiers, thresholds = policy.tiers, policy.thresholds
    days = min(policy.history_days, OBSERVED_DAYS_MAX)
    by_salience = policy.protection.salience_above is not None
    salience = tiers.deleted_salience_below
    return Cohort(
        kinds=kinds,
        since=now - timedelta(days=days),
        until=now,
        deletable_before=now - timedelta(days=min(thresholds.deleted_after_days, days)),
        kept_chance=None if by_salience else tiers.deleted_keep_chance_below,
        kept_salience=FORMER_SALIENCE if salience is None else salience,
    )
