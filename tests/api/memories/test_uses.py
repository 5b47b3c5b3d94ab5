"""Uses over HTTP: observations, touching one memory, and reinforcement by searches."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.domain.policy.policy import Policy, Reinforcement
from app.metrics import DROPPED_TOUCHES
from app.services.ingest import drain
from tests.api.caller import Api, fields
from tests.service import Service
from tests.waiting import until

QUEUE = "ebbing:{s0}:celery:ingest"
NUDGE = "ebbing:{s0}:nudge:ingest.drain"


def counts(api: Api, *ids: str) -> list[int]:
    """Drain the queue and return each memory's access count."""
    drain.drain_streams()
    return [api.get(f"/v1/memories/{memory_id}").json()["access_count"] for memory_id in ids]


def observe(api: Api, *memories: Any, headers: dict[str, str] | None = None, **more: Any) -> str:
    answer = api.post("/v1/observations", json={"memories": memories, **more}, headers=headers)
    assert answer.status_code == 202, answer.text
    reported: str = answer.json()["request_id"]
    assert answer.json().keys() == {"request_id"}
    return reported


# --- Observations ---


def test_what_was_observed_is_reinforced(api: Api) -> None:
    ids = api.remember("one", "two", "three")
    reported = observe(api, ids[0], {"id": ids[1], "used_at": "2026-01-01T00:00:00Z"}, str(uuid4()))
    assert reported
    assert counts(api, *ids) == [1, 1, 0]
    assert api.get(f"/v1/memories/{ids[0]}").json()["accessed_at"]


def test_an_observation_wakes_the_drain(service: Service) -> None:
    with Api(service) as api:
        observe(api, str(uuid4()))
        until(lambda: service.redis.llen(QUEUE), "a nudge for the drain")
    assert b"ingest.drain" in service.redis.lrange(QUEUE, 0, -1)[0]


def test_the_same_key_has_one_effect_and_the_same_answer(api: Api) -> None:
    [memory_id] = api.remember({"text": "x"})
    api.service.rows("UPDATE memory_state SET accessed_at = accessed_at - interval '1 day'")
    headers = {"idempotency-key": "k"}
    first = observe(api, memory_id, headers=headers, session="s")
    assert observe(api, memory_id, headers=headers, session="s") == first
    assert api.service.backlog()["entries"] == 1
    other = api.post("/v1/observations", json={"memories": [memory_id], "session": "t"}, headers=headers)
    assert other.status_code == 409
    as_memory = api.post("/v1/memories", json={"text": "x"}, headers=headers)
    assert as_memory.status_code == 409
    assert counts(api, memory_id) == [1]


def test_what_is_wrong_with_an_observation_is_named(api: Api) -> None:
    answer = api.post("/v1/observations", json={"memories": [str(uuid4())] * 1001})
    assert answer.status_code == 422
    assert fields(answer) == ["memories"]
    [error] = answer.json()["errors"]
    assert (error["field"], error["value"], error["limit"]) == ("memories", 1001, 1000)
    assert api.post("/v1/observations", content=b"{").status_code == 400


def test_the_doors_limits_hold_for_observations(api: Api) -> None:
    api.service.configure(tenant_backlog_entries=1)
    with Api(api.service) as limited:
        observe(limited, str(uuid4()))
        answer = limited.post("/v1/observations", json={"memories": [str(uuid4())]})
    assert answer.status_code == 429
    assert answer.headers["retry-after"]


# --- One touch ---


def test_a_touch_answers_before_and_after(api: Api) -> None:
    [memory_id] = api.remember("x")
    api.service.rows(
        "UPDATE memory_state SET created_at = created_at - interval '20 days', accessed_at = "
        "accessed_at - interval '20 days', anchored_at = anchored_at - interval '20 days'"
    )
    done = api.post(f"/v1/memories/{memory_id}/touch").json()
    assert done.keys() == {"id", "strength", "score", "access_count", "multiplier", "reinforced"}
    assert (done["id"], done["access_count"], done["multiplier"], done["reinforced"]) == (memory_id, 1, 1, True)
    before, after = done["strength"]["before"], done["strength"]["after"]
    assert after == pytest.approx(before + 0.15 * (1 - before))
    assert done["score"] == done["strength"]
    again = api.post(f"/v1/memories/{memory_id}/touch", json={"boost": True}).json()
    assert (again["reinforced"], again["why"], again["access_count"]) == (False, "refractory", 1)
    late = api.post(f"/v1/memories/{memory_id}/touch", json={"used_at": "2020-01-01T00:00:00Z"}).json()
    assert (late["reinforced"], late["why"], late["access_count"]) == (False, "late", 2)


def test_a_touch_of_what_waits_says_so(api: Api) -> None:
    [memory_id] = api.remember("x", work=False)
    answer = api.post(f"/v1/memories/{memory_id}/touch")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    for unknown in (str(uuid4()), "x"):
        assert api.post(f"/v1/memories/{unknown}/touch").status_code == 404
    assert api.post(f"/v1/memories/{memory_id}/touch", json={"tags": []}).status_code == 422


# --- Searches ---


def search(api: Api, **more: Any) -> list[str]:
    answer = api.post("/v1/search", json={"query": "mint tea", **more})
    assert answer.status_code == 200, answer.text
    return [result["id"] for result in answer.json()["results"]]


def test_a_search_reinforces_what_it_finds_once(api: Api) -> None:
    tea, *_ = ids = api.remember("mint tea", "green tea", "a bicycle")
    assert search(api, limit=1) == [tea]
    assert search(api, limit=1) == [tea]
    assert counts(api, *ids) == [1, 0, 0]
    search(api, limit=2, session="another")
    assert counts(api, *ids) == [2, 0, 0], "results far behind the best aren't reinforced"
    kinds = api.service.rows("SELECT DISTINCT kind FROM memory_events")
    assert kinds == [("use",)]


def test_a_search_that_is_told_not_to_reinforces_nothing(api: Api) -> None:
    ids = api.remember("mint tea")
    assert search(api, reinforce=False) == ids
    assert search(api, reinforce=False, session="s") == ids
    assert api.service.is_idle()
    assert counts(api, *ids) == [0]


def test_the_policy_decides_where_the_search_does_not(service: Service) -> None:
    with Api(service) as api:
        api.tenant = service.tenant(Policy(reinforcement=Reinforcement(by_search=False)))
        ids = api.remember("mint tea")
        search(api)
        assert counts(api, *ids) == [0]
        search(api, reinforce=True)
        assert counts(api, *ids) == [1]


def test_the_policy_says_how_near_the_best_a_result_is_used(service: Service) -> None:
    with Api(service) as api:
        api.tenant = service.tenant(Policy(reinforcement=Reinforcement(by_search_share=0)))
        ids = api.remember("mint tea", "green tea", "a bicycle")
        assert search(api, limit=2) == ids[:2]
        assert counts(api, *ids) == [1, 1, 0]


def test_what_finds_nothing_puts_nothing_into_the_queue(api: Api) -> None:
    assert search(api) == []
    assert api.service.is_idle()


def test_a_full_queue_fails_no_search(service: Service) -> None:
    service.configure(tenant_backlog_entries=1)
    with Api(service) as api:
        ids = api.remember("mint tea")
        api.post("/v1/memories", json={"text": "waits"})
        dropped = DROPPED_TOUCHES._value.get()
        assert search(api) == ids
        assert DROPPED_TOUCHES._value.get() == dropped + 1
        assert counts(api, *ids) == [0]


def test_a_search_wakes_no_drain_and_leaves_the_nudge_to_others(service: Service) -> None:
    with Api(service) as api:
        ids = api.remember("mint tea")
        until(lambda: service.redis.llen(QUEUE), "a nudge for the drain")
        service.redis.delete(QUEUE, NUDGE)
        assert search(api) == ids
        assert service.redis.llen(QUEUE) == 0
        assert not service.redis.exists(NUDGE)
        service.work()  # as beat's drain does every second
        assert counts(api, *ids) == [1]
        api.post("/v1/memories", json={"text": "wakes it"})
        until(lambda: service.redis.llen(QUEUE), "a nudge for the drain")
