"""`POST /v1/forecast` over HTTP."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from tests.api.caller import Api, fields

pytestmark = pytest.mark.usefixtures("whole_day")

TIERS = {"active", "archived", "cold", "deleted"}


def ask(api: Api, **wanted: Any) -> dict[str, Any]:
    answer = api.post("/v1/forecast", json=wanted)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_ninety_days_are_told_by_date_and_tier(api: Api) -> None:
    fading = {"protection": {"salience_above": 1}}
    assert api.request("PUT", "/v1/policy", json={"policy": fading}).status_code == 200
    api.remember({"text": "x", "salience": 0.5}, {"text": "y", "salience": 0.5})
    found = ask(api)
    assert found.keys() == {"as_of", "keep_chance_above", "days"}
    assert found["keep_chance_above"] is None, "the policy decides by salience"
    today = datetime.fromisoformat(found["as_of"]).date()
    assert [date.fromisoformat(day["date"]) for day in found["days"]] == [today + timedelta(days=n) for n in range(91)]
    assert found["days"][0] == {"date": today.isoformat(), "active": 2, "archived": 0, "cold": 0, "deleted": 0}
    assert [day["active"] for day in found["days"][:23]] == [2] * 23, "strength falls below .30 after 22.5 days"
    assert [day["archived"] for day in found["days"][24:32]] == [2] * 8
    assert all(day.keys() == TIERS | {"date"} for day in found["days"])


def test_another_policy_is_shown_beside_with_what_it_would_move(api: Api) -> None:
    [about_ann, _] = api.remember({"text": "x", "subject": "ann"}, "y")
    tiers = {"archived_below": 1.0, "cold_below": 1.0, "deleted_below": 0}
    hard = {"tiers": tiers, "protection": {"grace_days": 0}}
    found = ask(api, days=1, policy=hard, subject="ann")
    assert [day["active"] for day in found["days"]] == [1, 1]
    assert [day["cold"] for day in found["what_if"]] == [1, 1]
    assert found["moves"] == [{"from": "active", "to": "cold", "memories": 1, "ids": [about_ann]}]
    assert ask(api, days=0, policy={})["moves"] == []


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"days": 3651}, "days"),
        ({"days": -1}, "days"),
        ({"subject": "a\0"}, "body"),
        ({"policy": 5}, "policy"),
        (
            {"policy": {"forgetting": {"profile": "mnemex", "parameters": {"half_life_days": 0}}}},
            "policy.forgetting.parameters.half_life_days",
        ),
        ({"policy": {"importance": {"weights": {"recency": -1}}}}, "policy.importance.weights.recency"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(api: Api, wanted: dict[str, Any], field: str) -> None:
    answer = api.post("/v1/forecast", json=wanted)
    assert answer.status_code == 422
    assert fields(answer) == [field]
