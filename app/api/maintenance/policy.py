"""`/v1/policy`: read, preview and change the tenant's policy; list its versions."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.cursors import PAGE_MAX, number
from app.api.http.request_body import json_body
from app.domain.dynamics.conversion import LOSSES
from app.domain.dynamics.timeline import Era
from app.domain.policy import policy_diff
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.services.tenants import learned_rates, policy_versions
from app.services.tenants.policy_impact import LATER_DAYS, PolicyImpact
from app.services.tenants.policy_versions import ChangeOutcome, PolicyVersion, RequestedChange

router = APIRouter(prefix="/v1/policy", tags=["policy"])

VERSION_MAX = 2**31 - 1
_VERSION = number(len(str(VERSION_MAX)))

_Number = Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)]


class PolicyChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Change of the policy.

    Attributes:
        policy: Fields to change, at any depth. Omitted fields keep their value, null resets a field to its default.
            Parameters of a newly selected profile start at its defaults. A request without fields and preset only
            cancels the versions scheduled after `effective_at`.
        preset: Preset to apply before the fields.
        effective_at: Time from which the change applies, at most a year ahead; default now. Versions scheduled for
            later are cancelled.
        expected_version: Latest version known to the caller (`latest_version`); 409 if a later one exists.
        dry_run: Only return the changes and their effects on the memories.
    """

    policy: dict[str, Any] = {}
    preset: str | None = None
    effective_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    expected_version: _Number | None = None
    dry_run: bool = False


@router.get("", summary="Get the policy")
def get(caller: Maintainer, version: Annotated[int | None, Query(ge=0, le=VERSION_MAX)] = None) -> Response:
    """Return the current policy with all values, and the next scheduled version. `version` selects another version."""
    if version is not None:
        return responses.answer(_version(policy_versions.get(caller.tenant_id, version)))
    held, waiting, latest = policy_versions.list_in_force(caller.tenant_id)
    following = {"version": waiting[0].version, "effective_at": _moment(waiting[0])} if waiting else None
    proposed = learned_rates.read_proposed(caller.tenant_id)
    learned = None if proposed is None else {"at": proposed[0], "parameters": proposed[1]}
    return responses.answer(_version(held) | {"latest_version": latest, "next": following, "learned": learned})


@router.get("/versions", summary="List policy versions, latest first")
def versions(
    caller: Maintainer, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50, cursor: str | None = None
) -> Response:
    """Return a page of versions without their values."""
    return responses.page(
        "versions",
        policy_versions.list_versions(caller.tenant_id, _VERSION.decode(cursor), limit),
        _render_listed,
        _VERSION,
    )


@router.put("", summary="Change the policy")
def put(caller: Maintainer, wanted: Annotated[PolicyChange, Depends(json_body(PolicyChange))]) -> Response:
    """Create a policy version with the changed fields. Events before it takes effect are not re-evaluated.

    A request that changes nothing creates no version, so it is safe to repeat.
    """
    change = RequestedChange(wanted.policy, wanted.preset, wanted.effective_at, wanted.expected_version)
    if wanted.dry_run:
        outcome, effects = policy_versions.preview_change(caller.tenant_id, change)
        latest = {"latest_version": outcome.latest_version}
        return responses.answer(_outcome(outcome) | latest | {"effects": render_effects(effects)})
    outcome, job_id = policy_versions.write_change(caller.tenant_id, change, caller.key_id)
    latest = {"latest_version": max(outcome.latest_version, outcome.era.version)}
    return responses.answer(_outcome(outcome) | latest | {"job_id": job_id})


def _version(version: PolicyVersion) -> dict[str, Any]:
    return _render_listed(version) | {"policy": policy_diff.as_full_json(version.era.policy)}


def _render_listed(version: PolicyVersion) -> dict[str, Any]:
    return {
        "version": version.era.version,
        "effective_at": _moment(version.era),
        "status": version.status,
        "is_learned": version.is_learned,
    }


def _outcome(outcome: ChangeOutcome) -> dict[str, Any]:
    return {
        "version": outcome.era.version,
        "effective_at": _moment(outcome.era),
        "changes": render_changes(outcome),
        "superseded": outcome.superseded,
        "policy": policy_diff.as_full_json(outcome.era.policy),
    }


def render_changes(outcome: ChangeOutcome) -> list[dict[str, Any]]:
    """Return the changed fields with their values before and after."""
    return [{"field": one.field, "from": one.before, "to": one.after} for one in outcome.changes]


def render_effects(effects: PolicyImpact) -> dict[str, Any]:
    """Return the effects of a policy on the stored memories."""
    return {
        "memories": effects.memories,
        "complete": effects.complete,
        "tiers": {"before": _by_tier(effects.before), "after": _by_tier(effects.after)},
        "moves": [{"from": old, "to": new, "memories": count} for (old, new), count in effects.moves.most_common()],
        "sample": [{"id": memory_id, "from": old, "to": new} for memory_id, old, new in effects.sample],
        "later": {
            "days": LATER_DAYS,
            "before": _by_tier(effects.later_before),
            "after": _by_tier(effects.later_after),
        },
        "found_threshold": effects.found and responses.found_threshold(effects.found),
        "lost": [
            {"what": name, "memories": count, "why": LOSSES[name]} for name, count in effects.lost.items() if count
        ],
    }


def _by_tier(counts: dict[str, int]) -> dict[str, int]:
    return {tier: counts.get(tier, 0) for tier in DECAY_TIERS}


def _moment(era: Era) -> datetime | None:
    return datetime.fromtimestamp(era.since, UTC) if math.isfinite(era.since) else None
