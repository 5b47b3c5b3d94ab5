"""`/memory-decay` (seed 003, section "HTTP"): a session of its calls, ticks beside real time, holds, keys."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.services.tenants import tenants
from app.services.ticks import decay_ticks
from app.services.ticks.ticked_memories import RECALLED_ABOVE
from app.store.core import database
from app.store.tiers import row_deletion
from tests.api.caller import Api
from tests.service import Service
from tests.waiting import until

AT = "/memory-decay"
FACT, EPISODE = 0.02, 0.035


def store(api: Api, text: str, **fields: Any) -> str:
    answer = api.post(f"{AT}/store", json={"text": text} | fields)
    assert answer.status_code == 200, answer.text
    memory_id: str = answer.json()["id"]
    return memory_id


def memory(api: Api, memory_id: str) -> dict[str, Any]:
    answer = api.get(f"{AT}/admin/memories/{memory_id}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def requested(api: Api) -> list[dict[str, Any]]:
    """Return the audit entries of requested erasures, newest first."""
    entries = api.get("/v1/privacy/audit").json()["entries"]
    return [entry for entry in entries if entry["action"] == "erasure_requested"]


def test_a_session_of_a_plugin(theirs: Api) -> None:
    assert theirs.get(f"{AT}/health").json() == {"status": "ok", "current_tick": 0}
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 0
    dark = store(theirs, "The user prefers dark mode", importance=0.9, category="preference", speaker="ann")
    answer = theirs.post(
        f"{AT}/store-batch",
        json=[
            {"text": "Chose SQLite over Postgres for simplicity", "importance": 0.8, "category": "decision"},
            {"text": "Finished the migration of the parser", "mtype": "episode", "associations": [dark]},
        ],
    )
    assert (answer.status_code, answer.json()["count"], answer.json()["tick"]) == (200, 2, 0)
    sqlite, parser = answer.json()["ids"]
    assert theirs.post(f"{AT}/tick", json={"count": 10}).json() == {"current_tick": 10}
    [best, *_] = theirs.post(f"{AT}/search", json={"query": "Does the user prefer dark mode?", "top_k": 2}).json()[
        "results"
    ]
    faded = math.exp(-10 * FACT / (1 + 0.5 * 0.9))
    assert best.pop("score") > RECALLED_ABOVE
    assert best == {
        "id": dark,
        "text": "The user prefers dark mode",
        "storage_score": round(faded, 4),
        "retrieval_score": round(faded, 4),
        "category": "preference",
        "mtype": "fact",
        "created_tick": 0,
        "speaker": "ann",
    }
    used = memory(theirs, dark)
    assert (used["retrieval_score"], used["storage_score"]) == (round(faded + 0.1, 4), round(faded + 0.025, 4))
    assert (used["stability"], used["retrieval_count"], used["importance"]) == (0.2, 1, 0.9)
    later = store(theirs, "The parser is released")
    assert memory(theirs, later)["created_tick"] == 10
    listed = theirs.get(f"{AT}/admin/memories", params={"per_page": 3}).json()
    assert (listed["total"], [each["id"] for each in listed["memories"]]) == (4, [later, parser, sqlite])
    listed = theirs.get(f"{AT}/admin/memories", params={"per_page": 3, "page": 2}).json()
    assert [each["id"] for each in listed["memories"]] == [dark]
    for name, value, found in (("mtype", "episode", parser), ("category", "decision", sqlite)):
        listed = theirs.get(f"{AT}/admin/memories", params={name: value}).json()
        assert ([each["id"] for each in listed["memories"]], listed["total"]) == ([found], 1), name
    history = theirs.get(f"{AT}/admin/memories/{sqlite}/history", params={"start_tick": 3, "end_tick": 7}).json()
    expected = [round(math.exp(-tick * FACT / 1.4), 4) for tick in range(3, 8)]
    assert [(point["tick"], point["storage_score"]) for point in history["history"]] == list(
        zip(range(3, 8), expected, strict=True)
    )
    summary = theirs.get(f"{AT}/admin/history/summary").json()
    assert (summary["total_memories"], summary["at_risk_count"], summary["current_tick"]) == (4, 0, 10)
    assert [(each["category"], each["count"]) for each in summary["categories"]] == [
        ("decision", 1),
        ("episode", 1),
        ("fact", 1),
        ("preference", 1),
    ]
    assert [each["tick"] for each in summary["timeline"]] == list(range(1, 11))
    assert theirs.delete(f"{AT}/forget/{parser}").json() == {"deleted": parser}
    assert theirs.delete(f"{AT}/forget/{parser}").status_code == 404
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 3
    assert theirs.post(f"{AT}/reset").json() == {"status": "ok", "cleared": 3}
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 0
    assert theirs.post(f"{AT}/search", json={"query": "dark mode"}).json() == {"results": []}
    assert theirs.get(f"{AT}/health").json()["current_tick"] == 0


def test_ticks_move_decay_time_and_nothing_else(theirs: Api) -> None:
    store(theirs, "opens the clock")
    [ours] = theirs.remember({"text": "Bo drinks tea", "salience": 0.4, "kind": "semantic", "keep_days": 1}, work=False)
    until(lambda: theirs.get(f"/v1/memories/{ours}").json()["status"] == "embedded", "the memory is embedded", 60)
    before = theirs.get(f"/v1/memories/{ours}").json()
    assert theirs.post(f"{AT}/tick", json={"count": 1000}).json() == {"current_tick": 1000}
    after = theirs.get(f"/v1/memories/{ours}").json()
    assert after["strength"] == pytest.approx(math.exp(-1000 * FACT / 1.2), rel=1e-9)
    assert (before["strength"], after["decay_tier"]) == (1.0, "cold")
    for field in ("created_at", "expires_at", "valid_from", "tier", "access_count", "updated_at"):
        assert after[field] == before[field], field
    listed = theirs.get(f"{AT}/admin/memories/{ours}/history").json()["history"]
    assert [point["tick"] for point in listed] == list(range(801, 1001)), "the newest 200 ticks"
    later = datetime.now(UTC) + timedelta(days=30)
    shown = theirs.get(f"/v1/memories/{ours}", params={"as_of": later.isoformat()}).json()
    assert shown["strength"] == after["strength"], "real time alone doesn't weaken it"


def test_each_type_decays_at_its_rate_and_ticks_add_up(theirs: Api) -> None:
    fact, episode = store(theirs, "a", importance=0.2), store(theirs, "b", importance=0.2, mtype="episode")
    for count in (1, 2, 4):
        theirs.post(f"{AT}/tick", json={"count": count})
    assert memory(theirs, fact)["storage_score"] == round(math.exp(-7 * FACT / 1.1), 4)
    assert memory(theirs, episode)["storage_score"] == round(math.exp(-7 * EPISODE / 1.1), 4)
    assert theirs.post(f"{AT}/tick", json={}).json() == {"current_tick": 8}


def test_a_memory_of_a_later_tick_waits_for_it(theirs: Api) -> None:
    later = store(theirs, "The launch is in spring", created_tick=3)
    theirs.post(f"{AT}/tick", json={"count": 2})
    assert memory(theirs, later)["storage_score"] == 1
    assert theirs.post(f"{AT}/search", json={"query": "launch"}).json() == {"results": []}
    theirs.post(f"{AT}/tick", json={"count": 2})
    assert memory(theirs, later)["storage_score"] == round(math.exp(-2 * FACT / 1.35), 4)
    assert len(theirs.post(f"{AT}/search", json={"query": "launch"}).json()["results"]) == 1


def test_automatic_ticks_follow_the_interval(theirs: Api) -> None:
    assert theirs.get(f"{AT}/admin/tick-interval").json() == {"tick_interval_seconds": 3600}
    assert theirs.post(f"{AT}/auto-tick").json()["ticks_applied"] == 0
    theirs.service.rows("UPDATE decay_clocks SET ticked_at = ticked_at - interval '5.5 hours'")
    done = theirs.post(f"{AT}/auto-tick").json()
    assert (done["ticks_applied"], done["current_tick"]) == (5, 5)
    assert done["elapsed_seconds"] >= 5.5 * 3600
    assert theirs.put(f"{AT}/admin/tick-interval", json={"tick_interval_seconds": 60}).status_code == 200
    theirs.service.rows("UPDATE decay_clocks SET ticked_at = ticked_at - interval '5.5 hours'")
    assert theirs.post(f"{AT}/auto-tick").json()["ticks_applied"] == decay_ticks.AUTO_TICKS_MAX


def test_parameters_are_those_of_the_policy(theirs: Api) -> None:
    shown = theirs.get(f"{AT}/admin/decay-params").json()["params"]
    assert (shown["lambda_fact"], shown["alpha"], shown["reinforcement_gain_direct"]) == (FACT, 0.5, 0.2)
    fact = store(theirs, "a", importance=0.2)
    changed = theirs.put(f"{AT}/admin/decay-params", json={"params": {"lambda_fact": 0.1, "alpha": 0}})
    assert changed.json()["params"] == shown | {"lambda_fact": 0.1, "alpha": 0}
    theirs.post(f"{AT}/tick", json={"count": 3})
    assert memory(theirs, fact)["storage_score"] == round(math.exp(-0.3), 4)
    forgetting = theirs.get("/v1/policy").json()["policy"]["forgetting"]
    assert (forgetting["profile"], forgetting["parameters"]["impact_weight"]) == ("memory_decay", 0)
    for params, named in (({"lambda": 1}, "lambda"), ({"alpha": -1}, "alpha"), ({"alpha": None}, "alpha")):
        answer = theirs.put(f"{AT}/admin/decay-params", json={"params": params})
        assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", "params", named])
    theirs.put("/v1/policy", json={"policy": {"forgetting": {"profile": "spec"}}})
    assert theirs.post(f"{AT}/tick").status_code == 409
    assert memory(theirs, fact)["current_tick"] == 3, "a refused tick isn't counted"


def test_held_memories_are_neither_forgotten_nor_reset(theirs: Api) -> None:
    held, free = store(theirs, "held"), store(theirs, "free")
    theirs.post(f"{AT}/tick", json={"count": 2})
    hold = theirs.post("/v1/privacy/holds", json={"reason": "a claim", "ids": [held]}).json()["id"]
    assert theirs.delete(f"{AT}/forget/{held}").status_code == 409
    answer = theirs.post(f"{AT}/reset")
    assert (answer.status_code, "legal hold" in answer.json()["detail"]) == (409, True)
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 2
    assert theirs.get(f"{AT}/health").json()["current_tick"] == 2
    theirs.post(f"{AT}/tick")
    assert memory(theirs, held)["storage_score"] == round(math.exp(-3 * FACT / 1.35), 4), "a hold doesn't stop decay"
    assert theirs.delete(f"{AT}/forget/{free}").status_code == 200
    theirs.post(f"/v1/privacy/holds/{hold}/release", json={})
    assert theirs.post(f"{AT}/reset").json() == {"status": "ok", "cleared": 1}
    [asked, *_] = requested(theirs)
    assert asked["actor"] == theirs.tenant.key_id
    assert theirs.post(f"/v1/privacy/erasures/{asked['details']['erasure']}/cancel").status_code == 200
    assert theirs.get(f"/v1/memories/{held}").json()["text"] == "held"


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "store", {}, ["body", "text"]),
        ("POST", "store", {"text": ""}, ["body", "[0]", "text"]),
        ("POST", "store", {"text": "x" * 32_769}, ["body", "[0]", "text"]),
        ("POST", "store", {"text": "x", "importance": 1.5}, ["body", "importance"]),
        ("POST", "store", {"text": "x", "created_tick": -1}, ["body", "created_tick"]),
        ("POST", "search", {"query": "x", "top_k": 51}, ["body", "top_k"]),
        ("POST", "tick", {"count": 1001}, ["body", "count"]),
        ("PUT", "admin/tick-interval", {"tick_interval_seconds": 0}, ["body", "tick_interval_seconds"]),
        ("GET", "admin/memories?per_page=1001", None, ["query", "per_page"]),
    ],
)
def test_bad_input_is_named(theirs: Api, method: str, path: str, body: object, place: list[str]) -> None:
    answer = theirs.request(method, f"{AT}/{path}", json=body)
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, place), answer.text


def test_unknown_memories_are_404(theirs: Api) -> None:
    for name in ("nonexistent", str(uuid4())):
        for answer in (
            theirs.delete(f"{AT}/forget/{name}"),
            theirs.get(f"{AT}/admin/memories/{name}"),
            theirs.get(f"{AT}/admin/memories/{name}/history"),
        ):
            assert (answer.status_code, answer.json()) == (404, {"detail": f"Memory {name} not found"})


def test_keys_and_their_scopes_are_required(theirs: Api) -> None:
    tenant = theirs.tenant
    assert theirs.get(f"{AT}/stats", key=None).status_code == 401
    other = theirs.service.tenant()
    assert theirs.get(f"{AT}/stats", key=other.key).status_code == 403, "another tenant's key"
    for scope, calls in {
        "read": (("GET", "stats"), ("GET", "admin/memories"), ("GET", "admin/decay-params")),
        "ingest": (("POST", "store-batch"), ("DELETE", f"forget/{uuid4()}")),
        "maintain": (("POST", "tick"), ("POST", "auto-tick")),
        "privacy": (("POST", "reset"),),
    }.items():
        without = tenants.issue_key(tenant.tenant_id, "k", [each for each in tenants.TENANT_SCOPES if each != scope])
        having = tenants.issue_key(tenant.tenant_id, "k", [scope])
        for method, path in calls:
            body: list[object] | None = [] if path == "store-batch" else None
            assert theirs.request(method, f"{AT}/{path}", key=without, json=body).status_code == 403, path
            assert theirs.request(method, f"{AT}/{path}", key=having, json=body).status_code in {200, 404}, path


def test_without_keys_only_local_programs_are_served(theirs: Api) -> None:
    theirs.service.configure(compat_memory_decay_keys=False)
    assert theirs.get(f"{AT}/stats", key=None, headers={"host": "127.0.0.1:8000"}).status_code == 200
    assert theirs.get(f"{AT}/stats", key=None, headers={"host": "ebbing"}).status_code == 200
    for headers in ({"host": "127.0.0.1", "origin": "https://evil.example"}, {"host": "rebound.example"}):
        assert theirs.post(f"{AT}/reset", key=None, headers=headers).status_code == 403, headers
    answer = theirs.post(f"{AT}/store", key=None, json={"text": "x"}, headers={"host": "localhost"})
    assert answer.status_code == 200
    theirs.delete(f"{AT}/forget/{answer.json()['id']}", key=None, headers={"host": "localhost"})
    [entry, *_] = requested(theirs)
    assert entry["actor"] == "memory-decay"


def test_a_missing_tenant_is_named(theirs: Api) -> None:
    theirs.service.configure(compat_memory_decay="nobody")
    answer = theirs.get(f"{AT}/health")
    assert (answer.status_code, "EBBING_COMPAT_MEMORY_DECAY" in answer.json()["detail"]) == (503, True)


def test_a_store_that_is_not_indexed_in_time_is_202(api: Api) -> None:
    """No worker runs: the memory is accepted and found later."""
    api.service.configure(compat_memory_decay="waits", wait_max_seconds=0)
    key = tenants.create("waits")[1]
    with Api(api.service) as started:
        answer = started.post(f"{AT}/store", key=key, json={"text": "slow"})
        assert answer.status_code == 202
        api.service.work()
        assert memory_of(started, key, answer.json()["id"])["content"] == "slow"


def memory_of(api: Api, key: str, memory_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = api.get(f"{AT}/admin/memories/{memory_id}", key=key).json()
    return shown


def test_it_is_off_by_default(service: Service) -> None:
    with Api(service) as started:
        assert not [path for path in started.paths() if path.startswith(AT)]
        assert started.get(f"{AT}/health").status_code == 404


def test_erased_memories_leave_no_activation(theirs: Api) -> None:
    gone, kept = store(theirs, "gone"), store(theirs, "kept")
    theirs.post(f"{AT}/tick", json={"count": 3})
    with database.tenant(theirs.tenant.tenant_id) as tx:
        row_deletion.remove(tx, theirs.tenant.tenant_id, [UUID(gone)])
    counts = theirs.service.rows("SELECT memory_id, count(*) FROM activation_history GROUP BY memory_id")
    assert counts == [(UUID(kept), 1)]


def test_the_history_follows_uses_and_parameters(theirs: Api) -> None:
    """Values are derived from few stored states; they must be those that each tick had."""
    used = store(theirs, "The cat sleeps on the sofa", importance=0.4)
    seen: dict[int, float] = {}

    def tick(count: int) -> None:
        theirs.post(f"{AT}/tick", json={"count": count})
        shown = memory(theirs, used)
        seen[shown["current_tick"]] = shown["retrieval_score"]

    tick(2)
    tick(1)
    theirs.post(f"/v1/memories/{used}/touch")
    tick(1)
    tick(3)
    theirs.put(f"{AT}/admin/decay-params", json={"params": {"lambda_fact": 0.2}})
    tick(1)
    tick(2)
    theirs.patch(f"/v1/memories/{used}", json={"salience": 1.0})
    tick(2)
    points = theirs.get(f"{AT}/admin/memories/{used}/history").json()["history"]
    assert [point["tick"] for point in points] == list(range(1, 13))
    retrieval = {point["tick"]: point["retrieval_score"] for point in points}
    assert {number: retrieval[number] for number in seen} == seen
    stored = theirs.service.one("SELECT count(*) FROM activation_history")
    assert stored == 4, "the first state, and one for the use, the parameters and the salience"
    timeline = theirs.get(f"{AT}/admin/history/summary").json()["timeline"]
    assert {each["tick"]: each["avg_retrieval"] for each in timeline} == retrieval, "the only memory is the average"
