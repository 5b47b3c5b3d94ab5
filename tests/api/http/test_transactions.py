"""No transaction is open during a call to a client: neither Redis, the broker nor the embedder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection

from app import queues
from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.responses import Usage
from app.domain.jobs import Job, Step
from app.domain.policy.policy import Forgetting, Policy
from app.services.jobs import queue, runner, schedule
from app.services.tenants import budget
from app.store.core import database
from app.store.ingest import dead_letters
from tests.api.caller import Api
from tests.services.job_kinds import set_kind

open_here = threading.local()


class Watch:
    """Recorder of client calls, and of those made while the same thread had a transaction open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: set[str] = set()
        self.wrong: list[str] = []
        for name in ("tenant", "shared", "drain"):
            monkeypatch.setattr(database, name, self._noting(getattr(database, name)))
        for owner, method in (
            (redis.Redis, "execute_command"),
            (redis.client.Pipeline, "execute"),
            (StaticEmbedder, "embed_memories"),  # not the embedding of a query, which takes a fraction of a millisecond
            (queues, "enqueue"),
        ):
            name = f"{owner.__name__}.{method}"
            monkeypatch.setattr(owner, method, self._watched(name, getattr(owner, method)))

    def _noting(self, opened: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def transaction(*given: Any) -> Iterator[Connection]:
            with opened(*given) as tx:
                open_here.count = getattr(open_here, "count", 0) + 1
                try:
                    yield tx
                finally:
                    open_here.count -= 1

        return transaction

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def watched(*given: Any, **more: Any) -> Any:
            self.called.add(name)
            if getattr(open_here, "count", 0):
                self.wrong.append(name)
            return call(*given, **more)

        return watched


@pytest.fixture
def watch(api: Api, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def everything(api: Api) -> None:
    """Call every path through the service, failures included."""
    api.service.configure(budget_tokens=5)
    ids = api.remember(
        {"text": "the cat", "thread": "t"},
        {"text": "the dog", "thread": "t", "external_id": "k"},
        {"text": "a vector", "embedding": [1.0] * 256},
        "plain",
    )
    api.remember({"text": "the dog again", "thread": "u", "external_id": "k"})
    api.post("/v1/memories", json={"text": "waits"}, headers={"prefer": "wait=0", "idempotency-key": "k"})
    pending = api.post("/v1/memories", json={"text": "pending"}).json()["ids"][0]
    api.post("/v1/links", json={"from": ids[0], "to": ids[3]})
    for memory_id in (ids[0], pending):
        api.post("/v1/links", json={"from": memory_id, "to": ids[1]})
        api.get("/v1/links", params={"memory": memory_id})
        api.delete("/v1/links", params={"memory": memory_id})
        api.get(f"/v1/memories/{memory_id}")
        api.post(f"/v1/memories/{memory_id}/restore")
        held = api.post("/v1/privacy/holds", json={"memory_ids": [memory_id], "reason": "x"})
        assert api.delete(f"/v1/memories/{memory_id}").status_code in {409, 503}
        for hold in [held.json()["id"]] if held.status_code == 201 else []:
            assert api.post(f"/v1/privacy/holds/{hold}/release").status_code == 200
        api.post(f"/v1/memories/{memory_id}/touch", json={"context_tags": ["t"]})
        api.patch(f"/v1/memories/{memory_id}", json={"text": "another", "thread": "u"})
        api.delete(f"/v1/memories/{memory_id}")
    api.get("/v1/memories")
    api.post("/v1/observations", json={"memories": [*ids, pending]})
    api.post("/v1/search", json={"query": "cat"})
    recording = api.service.tenant(Policy(record_searches=True))
    api.remember("the cat", key=recording.key)
    assert api.post("/v1/search", json={"query": "cat"}, key=recording.key).json()["results"]
    for body in ({}, {"again": True}, {"policy": {"forgetting": {"profile": "cmm"}}}):
        assert api.post("/v1/policy/replay", json=body, key=recording.key).json()["searches"] == 1
    assert api.post("/v1/policy/fit", json={}, key=recording.key).status_code == 200
    associating = api.service.tenant(Policy(forgetting=Forgetting(profile="cmm")))
    api.remember("the cat", key=associating.key)
    for turn in range(2):
        found = api.post("/v1/search", json={"query": "cat", "session": "s", "turn": turn}, key=associating.key)
        assert found.json()["results"]
    for path in (f"/v1/memories/{ids[1]}/history", f"/v1/memories/{pending}/history", "/v1/memories", "/v1/reviews"):
        api.get(path)
    for memory_id in (ids[1], pending):
        api.post(f"/v1/reviews/{memory_id}", json={"result": "passed"})
    api.post("/v1/search", json={"query": "cat", "review_blend": 0.5})
    api.post("/v1/recall", json={"messages": ["the cat"]})
    api.post("/v1/forecast", json={"policy": {"forgetting": {"profile": "cmm"}}})
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", Usage(calls=1, input_tokens=5))
    assert budget.budget_state(api.tenant.tenant_id) is budget.BudgetState.HARD  # the count is in Redis
    for path in ("/v1/stats", "/v1/usage", "/v1/privacy/audit/verify", "/readyz", "/metrics"):
        assert api.get(path).status_code == 200
    for dry_run in (True, False):
        assert api.put("/v1/policy", json={"policy": {"history_days": 30}, "dry_run": dry_run}).status_code == 200
    api.post("/v1/admin/keys", json={"name": "x"}, key=api.admin.key)
    api.service.post(api.tenant.tenant_id, b"no JSON")
    api.service.work()
    letters(api, ids)
    long_work(api)


def letters(api: Api, ids: list[str]) -> None:
    with database.tenant(api.tenant.tenant_id) as tx:
        for stage in ("index", "rate"):
            dead_letters.add(tx, api.tenant.tenant_id, stage=stage, reason="X", attempts=1, memory_ids=[UUID(ids[3])])
    path = "/v1/admin/dead-letters"
    for letter in api.get(path).json()["dead_letters"]:
        assert api.post(f"{path}/{letter['id']}/replay").status_code == 202
    api.service.work()
    for reason in ("Unreadable", "Unreadable"):
        assert api.post(f"{path}/replay", json={"reason": reason}).json()["replayed"] == 1
        api.service.work()
    assert api.post(f"{path}/discard", json={"reason": "Unreadable", "because": "x"}).json()["discarded"] == 1


def long_work(api: Api) -> None:
    def step(job: Job) -> Step:
        if not job.state:
            raise ConnectionError
        return Step(1, {"n": 2}, finished=True)

    with pytest.MonkeyPatch.context() as patched:
        set_kind(patched, "test", step)
        done = queue.create(api.tenant.tenant_id, "test", {}, lone=False)
        cancelled = queue.create(api.tenant.tenant_id, "test", {}, lone=False)
        assert api.post(f"/v1/jobs/{cancelled}/cancel").status_code == 202
        with pytest.raises(ConnectionError):
            runner.run_slice(done)
        api.service.rows("UPDATE jobs SET claimed_until = now(), state = '{\"n\": 1}'")
        for job_id in (done, cancelled):
            runner.run_slice(job_id)
    assert [job["status"] for job in api.get("/v1/jobs").json()["jobs"]] == ["cancelled", "done"]


def test_no_call_to_a_client_is_made_in_a_transaction(api: Api, watch: Watch) -> None:
    everything(api)
    schedule.insert_due_runs(["night"])
    for path in ("/v1/schedule/night/pause", "/v1/schedule/night/resume", "/v1/schedule/night/run"):
        assert api.post(path).is_success
    api.service.rows("UPDATE schedules SET next_run_at = now()")
    schedule.insert_due_runs(["night"])
    for (job_id,) in api.service.rows("SELECT job_id FROM runs"):
        runner.run_slice(job_id)
    for path in ("/v1/schedule", "/v1/schedule/night/runs"):
        assert api.get(path).is_success
    assert len(watch.called) == 4, watch.called
    assert watch.wrong == []


def test_a_call_in_a_transaction_would_be_seen(api: Api, watch: Watch) -> None:
    """Otherwise the test above proves nothing."""
    with database.shared():
        queues.nudge(queues.DRAIN)
    assert "Redis.execute_command" in watch.wrong
