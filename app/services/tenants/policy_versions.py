"""The versions of a tenant's policy: which one holds, what a change would do, and the change itself."""

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
from app.domain.policy import amendment
from app.domain.policy.amendment import FieldChange
from app.domain.privacy.audit import SYSTEM, Detail
from app.errors import Conflict, FieldError, Invalid, NotFound
from app.services.jobs import jobs, schedule
from app.services.security import audit
from app.services.strength import rebase, strengths
from app.services.tenants import effects
from app.services.tenants.effects import Effects
from app.store.core import database
from app.store.search import searches
from app.store.tenants import policies

AHEAD_DAYS_MAX: Final = 366

Status = Literal["in force", "waiting", "past", "superseded"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Version:
    """A version of the policy.

    Attributes:
        era: Its number, its policy, and from when on it holds.
        status: `superseded` where a higher version began before it could.
    """

    era: Era
    status: Status


@dataclass(frozen=True)
class Change:
    """What is to be changed.

    Attributes:
        fields: Laid over the policy that holds at that moment; see `amendment.amended`. Where neither they nor a
            preset name anything, versions that wait are called off.
        preset: Laid over it before.
        effective_at: From when on; None is at once.
        expected_version: What the latest version must be; None is any.
    """

    fields: Mapping[str, Any]
    preset: str | None = None
    effective_at: datetime | None = None
    expected_version: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What a change has led to, or would.

    Attributes:
        era: The policy that holds from then on; where nothing changes, the one that holds anyway.
        latest_version: The highest version there was.
        changes: Field by field.
        superseded: Versions that wait, and won't hold any more.
    """

    era: Era
    latest_version: int
    changes: list[FieldChange]
    superseded: list[int]

    @property
    def is_new(self) -> bool:
        """Whether it takes a new version."""
        return bool(self.changes or self.superseded)


def in_force(tenant_id: UUID) -> tuple[Version, list[Era], int]:
    """The version that holds now, those that wait, and the number of the latest."""
    found = _versions(tenant_id)
    [held] = [version for version in found if version.status == "in force"]
    waiting = [version.era for version in found if version.status == "waiting"]
    return held, waiting, found[-1].era.version


def get(tenant_id: UUID, number: int) -> Version:
    """A version.

    Raises:
        NotFound: There is no such version.
    """
    for version in _versions(tenant_id):
        if version.era.version == number:
            return version
    raise NotFound(f"this tenant's policy has no version {number}")


def page(tenant_id: UUID, below: int | None, limit: int) -> list[Version]:
    """Versions from the latest on, those under a number alone where it is given."""
    found = _versions(tenant_id)
    wanted = [version for version in reversed(found) if below is None or version.era.version < below]
    return wanted[:limit]


def preview(tenant_id: UUID, change: Change) -> tuple[Outcome, Effects]:
    """What a change would do; nothing is written.

    Raises:
        Invalid: A field is wrong, or `effective_at` lies in the past or too far ahead.
        Conflict: The latest version isn't the one expected.
        ProfileMissing: A model of forgetting isn't installed.
    """
    with database.tenant(tenant_id) as tx:
        eras = strengths.eras(tx, tenant_id)
        outcome, since = _outcome(eras, change, database.now(tx))
    era = Era(outcome.latest_version + 1, since, outcome.era.policy)
    return outcome, effects.of(tenant_id, Timeline(eras), era)


def put(tenant_id: UUID, change: Change, actor: str = SYSTEM) -> tuple[Outcome, UUID | None]:
    """Write a change as a new version, unless it changes nothing: then sent twice, it is done once.

    Args:
        tenant_id: The tenant.
        change: What is to be changed.
        actor: Who it is audited for.

    Returns:
        The outcome, and the job that moves the memories to the new policy where there is one: a policy that holds
        later is taken up by the nightly sweep.

    Raises:
        Invalid: As `preview`.
        Conflict: As `preview`.
    """
    with database.tenant(tenant_id) as tx:
        searches.lock(tx, tenant_id)
        # By a clock read under the lock, versions begin in the order of their numbers.
        policies.lock(tx, tenant_id)
        now = database.now(tx)
        eras = strengths.eras(tx, tenant_id)
        outcome, _ = _outcome(eras, change, now)
        if not outcome.is_new:
            return outcome, None
        era = outcome.era
        policies.add(tx, tenant_id, era.version, era.policy, change.effective_at or now)
        schedule.follow_policy(tx, tenant_id)
        if change.effective_at is None and not era.policy.record_searches:
            searches.delete_all(tx, tenant_id)
        fields = [changed.field for changed in outcome.changes]
        moves = any(name.partition(".")[0] in amendment.DYNAMIC for name in fields)
        if not moves and policies.is_rebased(tx, tenant_id, Timeline(eras).at(era.since).version):
            policies.mark_rebased(tx, tenant_id, era.version)  # what is fit for the one before is for this
        parts = sorted({name.partition(".")[0] for name in fields})  # deeper names may be the tenant's own
        details: dict[str, Detail] = {"version": era.version, "parts": parts, "superseded": len(outcome.superseded)}
        audit.enter(tx, tenant_id, "policy_set", actor, details=details)
    log.info("policy_set", tenant=str(tenant_id), version=outcome.era.version, since=outcome.era.since, fields=fields)
    if change.effective_at is not None or not moves:
        return outcome, None
    return outcome, jobs.create(tenant_id, rebase.KIND, {}, lone=True)


def _outcome(eras: Sequence[Era], change: Change, now: datetime) -> tuple[Outcome, float]:
    """What the change comes to, and the moment from which on it holds."""
    since = _since(change.effective_at, now)
    times, latest = Timeline(eras), max((era.version for era in eras), default=DEFAULT.version)
    base = times.at(since)
    policy = amendment.amended(base.policy, change.fields, change.preset)
    changes = amendment.differences(base.policy, policy)
    superseded = [era.version for era in times.eras if era.since > since]
    names_nothing = not change.fields and change.preset is None
    if not changes and not (superseded and names_nothing):
        return Outcome(base, latest, [], []), since
    if change.expected_version is not None and change.expected_version != latest:
        raise Conflict(
            f"the latest version of the policy is {latest}, not {change.expected_version}: somebody has changed it "
            "since; look at it, and decide anew"
        )
    return Outcome(Era(latest + 1, since, policy), latest, changes, superseded), since


def _since(effective_at: datetime | None, now: datetime) -> float:
    if effective_at is None:
        return now.timestamp()
    check_moment(effective_at, "effective_at")
    if effective_at < now:
        raise Invalid(errors=[FieldError("effective_at", "lies in the past: leave it out for a change at once")])
    if effective_at > now + timedelta(days=AHEAD_DAYS_MAX):
        raise Invalid(errors=[FieldError("effective_at", "is too many days ahead", None, AHEAD_DAYS_MAX)])
    return effective_at.timestamp()


def _versions(tenant_id: UUID) -> list[Version]:
    """All versions by number; the default policy only where it holds."""
    with database.tenant(tenant_id) as tx:
        eras = strengths.eras(tx, tenant_id)
        now = database.now(tx).timestamp()
    times = Timeline(eras)
    held = times.at(now)
    kept = {era.version for era in times.eras}
    if held.version == DEFAULT.version:
        eras = [held, *eras]
    return [Version(era, _status(era, held, kept, now)) for era in eras]


def _status(era: Era, held: Era, kept: AbstractSet[int], now: float) -> Status:
    if era.version == held.version:
        return "in force"
    if era.version not in kept:
        return "superseded"
    return "waiting" if era.since > now else "past"
