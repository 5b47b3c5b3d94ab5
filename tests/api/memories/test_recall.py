"""`POST /v1/recall`: its response; recalling doesn't reinforce, observing does."""

from __future__ import annotations

from typing import Any

import pytest

from app.services.ingest import drain
from tests.api.caller import Api, fields

QUESTION = "Is Orla allergic to walnuts?"


def bring(api: Api, **body: Any) -> dict[str, Any]:
    answer = api.post("/v1/recall", json={"messages": [{"role": "user", "content": QUESTION}], **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_recalling_reinforces_nothing_observing_does_once(api: Api) -> None:
    [memory_id, _] = api.remember("Orla is allergic to walnuts", "The car is at the garage")
    api.service.rows("UPDATE memory_state SET anchored_at = anchored_at - interval '9 days'")

    def strength() -> float:
        drain.drain_streams()
        reported: float = api.get(f"/v1/memories/{memory_id}").json()["strength"]
        return reported

    faded = strength()
    brought = bring(api)
    assert brought["ids"] == [memory_id]
    assert memory_id in brought["context"]
    assert brought["tokens"] > 0
    assert brought["took_ms"] > 0
    [memory] = brought["memories"]
    assert memory["strength"] == pytest.approx(faded, abs=1e-4)
    assert api.service.backlog()["entries"] == 0
    assert strength() == pytest.approx(faded, abs=1e-4)
    observed = api.post("/v1/observations", json={"ids": brought["ids"]})
    assert observed.status_code == 202
    assert strength() == pytest.approx(faded + 0.15 * (1 - faded), abs=1e-3)
    assert api.get(f"/v1/memories/{memory_id}").json()["access_count"] == 1


def test_the_ids_of_an_empty_answer_may_be_observed_too(api: Api) -> None:
    api.remember("Orla is allergic to walnuts")
    observed = api.post("/v1/observations", json={"ids": bring(api, messages=["ok"])["ids"]})
    assert observed.status_code == 202
    drain.drain_streams()
    assert api.service.rows("SELECT * FROM dead_letters") == []
    assert api.service.backlog()["entries"] == 0


def test_a_request_may_set_the_bar_and_see_why(api: Api) -> None:
    [memory_id, *_] = api.remember("Orla is allergic to walnuts", "Walnuts are stored in the shed")
    refused = bring(api, messages=["ok then, walnuts"], least=1)
    assert (refused["memories"], refused["thresholds"]) == ([], {"least": 1.0})
    best = bring(api, messages=["ok then, walnuts"], least=0, limit=1, explain=True)
    [found] = best["memories"]
    assert best["ids"] == [found["id"]]
    assert found["highlight"] == found["text"]
    assert found["explain"]["conversation"]["chatting"] == 0.5
    assert found["explain"]["memory"]["near"] > 0
    assert found["explain"]["threshold"] == {"name": "least", "above": 0.0}
    [answered] = bring(api, limit=1)["memories"]
    assert (answered["id"], answered["explain"]) == (memory_id, None)


def test_nothing_in_mind_is_an_answer(api: Api) -> None:
    brought = bring(api)
    assert brought.pop("took_ms") > 0
    usual = {"recall.relevance_above": 0.12}
    assert brought == {"memories": [], "text": "", "context": "", "ids": [], "tokens": 0, "thresholds": usual}


def test_bad_messages_are_refused_by_name(api: Api) -> None:
    refused = api.post("/v1/recall", json={"messages": [{"content": "a\0b"}]})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["messages[0].content"]
