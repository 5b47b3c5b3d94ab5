"""`POST /v1/search`: mode, weights, tiers and as_of."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.policy.policy import Forgetting, Policy
from tests.api.caller import Api, fields


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"mode": "psychic"}, "mode"),
        ({"weights": {"strength": 1.1}}, "weights.strength"),
        ({"weights": {"recency": -0.1}}, "weights.recency"),
        ({"weights": {"importance": "much"}}, "weights.importance"),
        ({"weights": {"words": 11}}, "weights.words"),
        ({"weights": {"wish": 1}}, "weights.wish"),
        ({"tiers": ["deleted"]}, "tiers[0]"),
        ({"tiers": []}, "tiers"),
        ({"tiers": "active"}, "tiers"),
        ({"as_of": "2026-11-20"}, "as_of"),
        ({"as_of": "2026-11-20T12:00:00Z", "reinforce": True}, "reinforce"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(api: Api, given: dict[str, Any], field: str) -> None:
    answer = api.post("/v1/search", json={"query": "kettle", **given})
    assert (answer.status_code, fields(answer)) == (422, [field])


def test_mode_and_weights_of_a_search(api: Api) -> None:
    api.service.send(api.tenant.tenant_id, {"text": "the red kettle", "salience": 1.0})
    api.service.work()

    def explained(**given: Any) -> dict[str, Any]:
        """Return the score's components and its factors."""
        body = {"query": "red kettle", "explain": True, "reinforce": False, **given}
        [result] = api.post("/v1/search", json=body).raise_for_status().json()["results"]
        assert result["tier"] == "active"
        return {
            name: reported
            for name, reported in result["explain"].items()
            if name == "factors" or isinstance(reported, float)
        }

    assert explained(mode="lexical").keys() == {"words", "factors"}
    assert explained(mode="dense").keys() == {"relevance", "factors"}
    assert explained(mode="cmm")["factors"].keys() == {"strength", "importance"}
    assert explained(mode="memory_decay").keys() == {"relevance", "words", "factors"}
    weights = {"words": 2, "strength": 0, "recency": 0.5, "importance": 0}
    reported = explained(weights=weights)
    assert reported["words"] == 2
    assert reported["factors"] == {"recency": pytest.approx(1.5, abs=0.001)}
    assert explained(as_of="2126-01-01T00:00:00Z", weights=weights)["factors"] == {"recency": pytest.approx(1)}


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("profile", ["spec", "memory_decay"])
def test_any_moment_can_be_looked_at(api: Api, profile: str, moment: str) -> None:
    tenant = api.service.tenant(Policy(forgetting=Forgetting(profile=profile)))
    api.service.send(tenant.tenant_id, "the red kettle")
    api.service.work()
    answer = api.post("/v1/search", json={"query": "kettle", "as_of": moment}, key=tenant.key)
    assert answer.status_code == 200
    assert len(answer.json()["results"]) == (moment > "2026")
