"""The costs page compares a model's ratings with the rules, for the visitor's tenant alone."""

from __future__ import annotations

from collections.abc import Callable

from app.clients.llm.model_clients import model_clients
from app.domain.salience.llm_scoring import CUES_PROMPT_VERSION
from app.services.enrichment import score_by_model
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.provider.server import provider

Visit = Callable[..., Visitor]


def test_ratings_are_compared_by_model_and_prompt_version(api: Api, visit: Visit) -> None:
    assert "Ratings by a model" not in said(visit("maintain").page("/money"))
    with provider() as fake:
        api.service.configure(openai_base_url=fake.url, salience_model="small")
        other = api.service.tenant()
        api.service.send(other.tenant_id, "Hello")
        [memory_id, *_] = api.service.send(
            api.tenant.tenant_id, *(f"It rained {number} times." for number in range(12))
        )
        api.service.work()
        rated = 0
        while done := score_by_model.rate_memories():
            rated += done
        model_clients.close()
    assert rated == 13
    text = said(visit("maintain").page("/money"))
    assert f"Mean difference small {CUES_PROMPT_VERSION} 12 " in text
    shown = said(visit("read").page(f"/memories/{memory_id}"))
    assert "Rating by a model salience" in shown
    assert f"small/{CUES_PROMPT_VERSION}" in shown
    found = api.get(f"/v1/memories/{memory_id}/why").json()["rating"]
    assert (found["model"], found["prompt_version"]) == ("small", CUES_PROMPT_VERSION)
    assert found["rules_salience"] is not None
    [agreement] = api.get("/v1/stats").json()["rating_agreement"]
    assert (agreement["model"], agreement["ratings"]) == ("small", 12)
