"""Read, preview and change the versions of a tenant's policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

import structlog

from app.domain.dynamics.timeline import DEFAULT, Era, Timeline
from app.domain.ingest.memory import check_moment
from app.domain.policy import policy_diff
from app.domain.policy.policy_diff import FieldChange
from app.domain.privacy.audit_chain import SYSTEM, Detail
from app.errors import Conflict, FieldError, Invalid, NotFound
from app.services.jobs import queue, schedule
from app.services.security import audit
from app.services.strength import memory_strength, rebase
from app.services.tenants import policy_impact
from app.services.tenants.policy_impact import PolicyImpact
from app.store.changes import feed
from app.store.core import database
from app.store.core.paging import Page, page_of
from app.store.search import recorded_searches
from app.store.tenants import policies
from app.store.tenants.policies import Author

AHEAD_DAYS_MAX: Final = 366

Status = Literal["in force", "waiting", "past", "superseded"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PolicyVersion:
    """A version of the policy.

    Attributes:
        era: The version's number and policy, and the time at which it takes effect.
        status: `superseded` if a higher version takes effect at the same time or earlier, so this version never
            applies.
        is_learned: True if its change consists of learned rates of forgetting.
    """

    era: Era
    status: Status
    is_learned: bool


@dataclass(frozen=True)
class RequestedChange:
    """A requested policy change.

    Attributes:
        fields: Overrides for the policy in force at `effective_at`; see `policy_diff.amend_policy`. Every
            change cancels the versions scheduled after `effective_at`; a request without fields and preset only cancels
            them.
        preset: Name of a preset that is applied before the fields.
        effective_at: When the change takes effect; None for now.
        expected_version: Required latest version; None for any.
        author: `learned` if the fields are learned rates.
    """

    fields: Mapping[str, Any]
    preset: str | None = None
    effective_at: datetime | None = None
    expected_version: int | None = None
    author: Author | None = None


@dataclass(frozen=True)
class ChangeOutcome:
    """The result of a change, or of its preview.

    Attributes:
        era: The new version; if nothing changes, the version in force at that time.
        latest_version: The highest version before the change.
        changes: The differences by field.
        superseded: Scheduled versions that this change cancels.
    """

    era: Era
    latest_version: int
    changes: list[FieldChange]
    superseded: list[int]

    @property
    def is_new(self) -> bool:
        """True if the change requires a new version."""
        return bool(self.changes or self.superseded)


def list_in_force(tenant_id: UUID) -> tuple[PolicyVersion, list[Era], int]:
    """Return the version in force now, the scheduled versions, and the highest version number."""
    versions = _versions(tenant_id)
    [current] = [version for version in versions if version.status == "in force"]
    waiting = [version.era for version in versions if version.status == "waiting"]
    return current, waiting, versions[-1].era.version


def get(tenant_id: UUID, number: int) -> PolicyVersion:
    """Return a version.

    Raises:
        NotFound: There is no such version.
    """
    for version in _versions(tenant_id):
        if version.era.version == number:
            return version
    raise NotFound(f"this tenant's policy has no version {number}")


def list_versions(tenant_id: UUID, below: int | None, limit: int) -> Page[PolicyVersion]:
    """Return a page of versions, latest first, optionally only those below a number."""
    versions = _versions(tenant_id)
    selected = [version for version in reversed(versions) if below is None or version.era.version < below]
    return page_of(selected[:limit], limit, lambda version: version.era.version)


def preview_change(tenant_id: UUID, change: RequestedChange) -> tuple[ChangeOutcome, PolicyImpact]:
    """Return the effects of a change without writing it.

    Raises:
        Invalid: A field is invalid, or `effective_at` is in the past or too far ahead.
        Conflict: The latest version isn't the expected one.
        ProfileMissing: A forgetting model isn't installed.
    """
    with database.tenant(tenant_id) as tx:
        eras = memory_strength.load_eras(tx, tenant_id)
        outcome, since = _outcome(eras, change, database.now(tx))
    era = Era(outcome.latest_version + 1, since, outcome.era.policy)
    return outcome, policy_impact.measure_impact(tenant_id, Timeline(eras), era)


def write_change(tenant_id: UUID, change: RequestedChange, actor: str = SYSTEM) -> tuple[ChangeOutcome, UUID | None]:
    """Write a change as a new version, or nothing if the policy stays equal, so that a repeated request is idempotent.

    Args:
        actor: The actor named in the audit log.

    Returns:
        The outcome, and the id of the job that rebases the memories onto the new policy; None if no rebase is needed,
        or if the policy takes effect later, because the nightly sweep then rebases the memories.

    Raises:
        Invalid: A field is invalid, or `effective_at` is in the past or too far ahead.
        Conflict: The latest version isn't the expected one.
    """
    with database.tenant(tenant_id) as tx:
        recorded_searches.lock(tx, tenant_id)
        # Reading the clock under the lock makes versions take effect in the order of their numbers.
        policies.lock(tx, tenant_id)
        now = database.now(tx)
        eras = memory_strength.load_eras(tx, tenant_id)
        outcome, _ = _outcome(eras, change, now)
        if not outcome.is_new:
            return outcome, None
        era = outcome.era
        policies.add(tx, tenant_id, era.version, era.policy, change.effective_at or now, change.author)
        schedule.follow_policy(tx, tenant_id)
        if era.policy.changes.keep_days and not Timeline(eras).at(era.since).policy.changes.keep_days:
            feed.interrupt(tx, tenant_id)
        if change.effective_at is None and not era.policy.record_searches:
            recorded_searches.delete_all(tx, tenant_id)
        fields = [changed.field for changed in outcome.changes]
        needs_rebase = any(name.partition(".")[0] in policy_diff.DYNAMIC for name in fields)
        if not needs_rebase and policies.is_rebased(tx, tenant_id, Timeline(eras).at(era.since).version):
            policies.mark_rebased(tx, tenant_id, era.version)  # an earlier rebase remains valid
        groups = sorted({name.partition(".")[0] for name in fields})  # nested names may be chosen by the tenant
        details: dict[str, Detail] = {"version": era.version, "parts": groups, "superseded": len(outcome.superseded)}
        if change.author is not None:
            details["author"] = change.author
        audit.append(tx, tenant_id, "policy_set", actor, details=details)
    log.info("policy_set", tenant=str(tenant_id), version=outcome.era.version, since=outcome.era.since, fields=fields)
    if change.effective_at is not None or not needs_rebase:
        return outcome, None
    return outcome, queue.create(tenant_id, rebase.KIND, {}, lone=True)


def _outcome(eras: Sequence[Era], change: RequestedChange, now: datetime) -> tuple[ChangeOutcome, float]:
    """Return the outcome of the change and the time at which it takes effect."""
    since = _since(change.effective_at, now)
    times, latest = Timeline(eras), max((era.version for era in eras), default=DEFAULT.version)
    base = times.at(since)
    policy = policy_diff.amend_policy(base.policy, change.fields, change.preset)
    changes = policy_diff.list_differences(base.policy, policy)
    superseded = [era.version for era in times.eras if era.since > since]
    is_empty = not change.fields and change.preset is None
    if not changes and not (superseded and is_empty):
        return ChangeOutcome(base, latest, [], []), since
    if change.expected_version is not None and change.expected_version != latest:
        raise Conflict(
            f"the policy has changed: its latest version is {latest}, not {change.expected_version}. "
            "Read the policy, then repeat the request if the change still applies"
        )
    return ChangeOutcome(Era(latest + 1, since, policy), latest, changes, superseded), since


def _since(effective_at: datetime | None, now: datetime) -> float:
    if effective_at is None:
        return now.timestamp()
    check_moment(effective_at, "effective_at")
    if effective_at < now:
        raise Invalid(errors=[FieldError("effective_at", "is in the past: omit it to change the policy immediately")])
    if effective_at > now + timedelta(days=AHEAD_DAYS_MAX):
        raise Invalid(errors=[FieldError("effective_at", "is too many days ahead", None, AHEAD_DAYS_MAX)])
    return effective_at.timestamp()


def _versions(tenant_id: UUID) -> list[PolicyVersion]:
    """Return all versions by number, including the default policy only if it is in force."""
    with database.tenant(tenant_id) as tx:
        eras = memory_strength.load_eras(tx, tenant_id)
        learned = policies.list_learned(tx, tenant_id)
        now = database.now(tx).timestamp()
    times = Timeline(eras)
    current = times.at(now)
    effective = {era.version for era in times.eras}
    if current.version == DEFAULT.version:
        eras = [current, *eras]
    return [PolicyVersion(era, _status(era, current, effective, now), era.version in learned) for era in eras]


def _status(era: Era, current: Era, effective: AbstractSet[int], now: float) -> Status:
    if era.version == current.version:
        return "in force"
    if era.version not in effective:
        return "superseded"
    return "waiting" if era.since > now else "past"
