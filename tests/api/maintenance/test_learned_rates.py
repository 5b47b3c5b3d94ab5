"""`/v1/policy/learned` over HTTP: estimates, proposals and their application."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.dynamics.rate_fit import SpeedFit
from app.domain.policy import learned_rates as rates
from app.domain.policy.policy import Policy
from app.services.tenants import learned_rates
from app.store.core import database
from app.store.tenants import learned_rates as stored_rates
from tests.api.caller import Api

PATH = "/v1/policy/learned"
EPISODIC = "forgetting.parameters.kinds.episodic"


@pytest.fixture
def two_thirds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every tenant's uses say that episodic memories should fade at half of the default rate."""
    rate = rates.list_rates(Policy())[0]
    fit = SpeedFit(-0.693, 0.05, 3_000, 4_000)
    found = rates.weigh(Policy(), rate, fit, rate)

    def learn(_tenant_id: Any, _as_of: datetime | None = None) -> learned_rates.Learned:
        return learned_rates.Learned(Policy(), 1, [found], rates.proposed_parameters([found]), is_scheduled=False)

    monkeypatch.setattr(learned_rates, "learn", learn)


def test_a_tenant_without_uses_has_nothing_to_learn_from(api: Api) -> None:
    found = api.get(PATH).json()
    assert (found["profile"], found["latest_version"], found["changes"], found["effects"]) == ("spec", 1, [], None)
    assert [rate["field"].removeprefix("forgetting.parameters.") for rate in found["rates"]] == [
        *("kinds.episodic", "kinds.semantic", "kinds.procedural", "kinds.emotional", "kinds.system")
    ]
    first = found["rates"][0]
    assert (first["memories"], first["uses"], first["estimate"], first["interval"], first["proposed"]) == (
        *(0, 0, None, None, None),
    )
    assert first["half_life_days"]["now"] == pytest.approx(first["half_life_days"]["learned"])
    done = api.post(PATH).json()
    assert (done["version"], done["changes"], done["job_id"]) == (1, [], None)
    assert api.get("/v1/policy").json()["version"] == 1


@pytest.mark.usefixtures("two_thirds")
def test_a_proposal_shows_its_effects_and_becomes_a_version(api: Api) -> None:
    change = {"field": EPISODIC, "from": 1.0, "to": 0.6667}
    found = api.get(PATH).json()
    assert (found["changes"], found["superseded"], found["effects"]["memories"]) == ([change], [], 0)
    [rate] = found["rates"]
    assert (rate["estimate"], rate["interval"], rate["proposed"]) == (0.5001, [0.4534, 0.5516], 0.6667)
    assert rate["learned"] == pytest.approx(0.5, abs=0.001)
    done = api.post(PATH).json()
    assert (done["version"], done["changes"]) == (2, [change])
    assert done["job_id"] is not None
    versions = api.get("/v1/policy/versions").json()["versions"]
    assert [(one["version"], one["is_learned"]) for one in versions] == [(2, True), (1, False)]
    again = api.post(PATH).json()
    assert (again["version"], again["changes"], again["job_id"]) == (2, [], None), "values in force aren't set again"


def test_what_the_night_proposes_is_shown_with_the_policy(api: Api) -> None:
    assert api.get("/v1/policy").json()["learned"] is None
    at = datetime(2026, 11, 1, 2, tzinfo=UTC)
    with database.tenant(api.tenant.tenant_id) as tx:
        stored_rates.write(
            tx, api.tenant.tenant_id, rates.StoredRates(at.timestamp(), proposed={"kinds.episodic": 0.7})
        )
    learned = api.get("/v1/policy").json()["learned"]
    assert datetime.fromisoformat(learned["at"]) == at
    assert learned["parameters"] == {"kinds.episodic": 0.7}
