"""`/v1/policy/learned`: rates of forgetting learned from uses, their effect, and their application."""

from __future__ import annotations

import math
from typing import Any, Final

from fastapi import APIRouter, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.maintenance.policy import render_changes, render_effects
from app.domain.ingest.memory import KINDS
from app.domain.policy.learned_rates import LearnedRate
from app.services.tenants import learned_rates
from app.services.tenants.learned_rates import Learned

router = APIRouter(prefix="/v1/policy/learned", tags=["policy"])

_PREFIX: Final = "forgetting.parameters."


@router.get("", summary="Learn rates of forgetting from uses")
def get(caller: Maintainer) -> Response:
    """Return how fast uses of memories become rare, the change proposed for the policy, and its effects. Read-only.

    The rate is fitted with the profile's own curve to the uses of up to 5,000 memories for each parameter. The
    result is a weighted mean of this fit and the last value that wasn't learned; few uses give the fit a low weight.
    """
    learned, outcome, effects = learned_rates.preview(caller.tenant_id)
    changes = {
        "changes": [] if outcome is None else render_changes(outcome),
        "superseded": [] if outcome is None else outcome.superseded,
        "effects": effects and render_effects(effects),
    }
    return responses.answer(_render(learned) | changes)


@router.post("", summary="Apply learned rates of forgetting")
def post(caller: Maintainer) -> Response:
    """Learn again, and create a policy version with the proposed change; earlier decay isn't computed again.

    Without a proposed change, no version is created. One request changes a rate by a factor of at most 1.5.
    """
    learned, outcome, job_id = learned_rates.apply(caller.tenant_id, caller.key_id)
    done = {
        "version": learned.latest_version if outcome is None else outcome.era.version,
        "changes": [] if outcome is None else render_changes(outcome),
        "superseded": [] if outcome is None else outcome.superseded,
        "job_id": job_id,
    }
    return responses.answer(_render(learned) | done)


def _render(learned: Learned) -> dict[str, Any]:
    return {
        "profile": learned.policy.forgetting.profile,
        "latest_version": learned.latest_version,
        "rates": [_render_rate(one) for one in learned.rates],
    }


def _render_rate(one: LearnedRate) -> dict[str, Any]:
    rate = one.rate

    def value(speed: float | None) -> float | None:
        """Return the parameter at which memories fade `speed` times as fast as now, to four digits; None for None."""
        return None if speed is None else float(f"{rate.at_speed(speed)[rate.name]:.4g}")

    ends = [value(one.low), value(one.high)]
    now, learned = (days if math.isfinite(days) else None for days in one.half_lives)
    return {
        "field": _PREFIX + rate.name,
        "kinds": [KINDS[kind] for kind in rate.kinds],
        "value": rate.values[rate.name],
        "memories": one.memories,
        "uses": one.uses,
        "estimate": value(one.speed),
        "interval": None if None in ends else sorted(end for end in ends if end is not None),
        "weight": round(one.weight, 4),
        "learned": value(one.learned),
        "proposed": None if one.proposed == 1 else value(one.proposed),
        "half_life_days": {"now": now, "learned": learned},
    }
