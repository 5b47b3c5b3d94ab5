"""The eighteen mnemex tools over HTTP: names, shapes and effects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from app.mcp.mnemex import mnemex_tools
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.mcp.clients import MODES, Mode, call, done, refused, talk, text_of
from tests.service import Service
from tests.services.mergeable import LIKE, Alike
from tests.waiting import PATIENCE_SECONDS, until

NAMES = [
    *("save_memory", "search_memory", "search_unified", "touch_memory", "observe_memory_usage", "create_relation"),
    *("open_memories", "read_graph", "cluster_memories", "consolidate_memories", "promote_memory", "gc"),
    *("backfill_embeddings", "analyze_message", "analyze_for_recall", "auto_recall_process_message"),
    *("get_performance_metrics", "reset_performance_metrics"),
]


@pytest.fixture
def agents(api: Api, service: Service) -> Iterator[Api]:
    """Return the API with the mnemex tools, and a worker that stores memories."""
    service.configure(mcp_tools="mnemex", wait_max_seconds=PATIENCE_SECONDS)
    stopped = threading.Event()

    def work() -> None:
        while not stopped.wait(0.05):
            service.work()

    worker = threading.Thread(target=work)
    worker.start()
    with Api(service, api._routes) as started:
        yield started
    stopped.set()
    worker.join()


def save(api: Api, content: str, **fields: Any) -> str:
    saved = done(api, "save_memory", content=content, **fields)
    assert (saved["success"], saved["has_embedding"]) == (True, True)
    memory_id: str = saved["memory_id"]
    return memory_id


@pytest.mark.parametrize("mode", MODES)
def test_the_set_has_the_eighteen_names(agents: Api, mode: Mode) -> None:
    tools = talk(agents, lambda client: client.list_tools(), mode=mode).tools
    assert {tool.name for tool in tools} == set(NAMES)
    assert len(NAMES) == len(mnemex_tools.TOOLS) == 18
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.destructive_hint == (tool.name == "gc")
        assert all("description" in part for part in tool.input_schema["properties"].values()), tool.name


def test_memories_are_saved_found_and_opened(agents: Api) -> None:
    saved = done(
        agents,
        "save_memory",
        content="We decided with Bob in Graz to use PostgreSQL.",
        tags=["db"],
        source="chat",
        meta={"a": 1},
    )
    assert saved["enrichment_applied"] is True
    assert saved["auto_entities"] >= 1
    assert saved["calculated_strength"] == 1.5
    first = saved["memory_id"]
    second = save(agents, "Ann prefers green tea.", tags=["drinks"], strength=1.2, entities=["Ann"])
    assert "Bob" in done(agents, "open_memories", memory_ids=first)["memories"][0]["entities"]
    found = done(agents, "search_memory", query="green tea", use_embeddings=True)
    assert (found["success"], found["results"][0]["id"], found["count"]) == (True, second, len(found["results"]))
    assert found["results"][0].keys() == {
        *("id", "content", "tags", "score", "similarity", "use_count", "last_used", "age_days", "review_priority")
    }
    assert [hit["id"] for hit in done(agents, "search_memory", query="PostgreSQL")["results"]] == [first]
    assert [hit["id"] for hit in done(agents, "search_memory", tags=["drinks"])["results"]] == [second]
    short = done(agents, "search_memory", query="tea", preview_length=3)["results"][0]["content"]
    assert short == "Ann..."
    pages = [done(agents, "search_memory", page=page, page_size=1) for page in (1, 2, 3)]
    assert [page["results"][0]["id"] for page in pages[:2]] == [second, first]
    assert pages[0]["pagination"] == {
        "page": 1,
        "page_size": 1,
        "total_count": 2,
        "total_pages": 2,
        "has_more": True,
        "has_previous": False,
    }
    assert pages[2]["results"] == []
    unified = done(agents, "search_unified", query="green tea")
    assert (unified["results"][0]["memory_id"], unified["results"][0]["source"]) == (second, "stm")
    unknown = str(uuid4())
    opened = done(agents, "open_memories", memory_ids=[first, unknown])
    [memory] = opened["memories"]
    assert (opened["count"], opened["not_found"]) == (1, [unknown])
    assert (memory["meta"], memory["source"], memory["context"]) == ({"a": 1}, "chat", None)
    assert memory["strength"] == 1.5
    assert done(agents, "open_memories", memory_ids=first)["memories"][0]["id"] == first


def test_uses_strengthen_and_are_counted(agents: Api) -> None:
    memory_id, other = save(agents, "Ann prefers green tea.", tags=["drinks"]), save(agents, "Ann lives in Graz.")
    touched = done(agents, "touch_memory", memory_id=memory_id, boost_strength=True)
    assert (touched["success"], touched["use_count"], touched["message"]) == (True, 1, "Memory strengthened")
    again = done(agents, "touch_memory", memory_id=memory_id)
    assert (again["use_count"], again["message"]) == (1, "Not strengthened: refractory")
    unknown = done(agents, "touch_memory", memory_id=str(uuid4()))
    assert unknown.keys() == {"success", "message"}
    assert unknown["success"] is False
    missing = str(uuid4())
    seen = done(agents, "observe_memory_usage", memory_ids=[other, memory_id, missing], context_tags=["travel"])
    assert (seen["reinforced"], seen["count"]) == (True, 2)
    used, soon, absent = seen["results"]
    assert (used["id"], used["status"], used["new_use_count"]) == (other, "reinforced", 1)
    assert (soon["id"], soon["status"], soon["new_use_count"]) == (memory_id, "refractory", 1)
    assert absent == {"id": missing, "status": "not_found"}
    nothing = done(agents, "observe_memory_usage", memory_ids=[missing])
    assert (nothing["reinforced"], nothing["count"], "reason" in nothing) == (False, 0, True)


def test_relations_form_a_graph(agents: Api) -> None:
    one, other = save(agents, "Ann prefers green tea."), save(agents, "Ann lives in Graz.")
    made = done(agents, "create_relation", from_memory_id=one, to_memory_id=other, relation_type="about", strength=0.5)
    assert (made["success"], made["from"], made["to"], made["type"]) == (True, one, other, "about")
    again = done(agents, "create_relation", from_memory_id=one, to_memory_id=other, relation_type="about")
    assert (again["success"], again["existing_relation_id"]) == (False, made["relation_id"])
    unknown = done(agents, "create_relation", from_memory_id=one, to_memory_id=str(uuid4()), relation_type="about")
    assert unknown["success"] is False
    graph = done(agents, "read_graph")
    assert {memory["id"] for memory in graph["memories"]} == {one, other}
    [relation] = graph["relations"]
    assert (relation["id"], relation["strength"]) == (made["relation_id"], 0.5)
    stats = graph["stats"]
    assert (stats["total_memories"], stats["total_relations"], stats["status_filter"]) == (2, 1, "active")
    opened = done(agents, "open_memories", memory_ids=[one, other])["memories"]
    assert [len(memory["relations"]["outgoing"]) for memory in opened] == [1, 0]
    assert [len(memory["relations"]["incoming"]) for memory in opened] == [0, 1]


def consolidate(api: Api, **arguments: Any) -> dict[str, Any]:
    result = talk(api, lambda client: client.call_tool("consolidate_memories", arguments))
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return dict(result.structured_content)


def test_groups_are_previewed_linked_and_merged(api: Api, service: Service) -> None:
    service.configure(mcp_tools="mnemex")
    alike = Alike(service, tenant_id=api.tenant.tenant_id)
    alike.remember(*LIKE, subject="ann")
    with Api(service, api._routes) as agents:
        agents.__dict__["tenant"] = api.tenant
        clusters = done(agents, "cluster_memories")
        [cluster] = clusters["clusters"]
        assert (clusters["success"], clusters["clusters_found"]) == (True, 1)
        others = len(cluster["memory_ids"]) - 1
        assert others >= 2
        assert done(agents, "cluster_memories", max_cluster_size=1)["clusters"] == []
        preview = consolidate(agents, auto_detect=True, cohesion_threshold=0)
        assert (preview["mode"], preview["previews"]) == ("auto_detect_preview", [cluster])
        one = {"cluster_id": cluster["id"], "cohesion_threshold": 0}
        assert consolidate(agents, **one)["previews"] == [cluster]
        assert consolidate(agents, cluster_id=str(uuid4()))["success"] is False
        assert consolidate(agents, **one, mode="apply")["success"] is False
        assert consolidate(agents, **one, mode="link")["total_relations_created"] == others
        assert consolidate(agents, **one, mode="link")["total_relations_created"] == 0
        started = consolidate(agents, auto_detect=True, cohesion_threshold=0, mode="apply")
        assert (started["consolidated_clusters"], started["total_memories_saved"]) == (1, others)
        assert agents.get(f"/v1/jobs/{started['job_id']}").json()["kind"] == "consolidate"


def test_promotion_and_removal_preview_and_start_jobs(agents: Api) -> None:
    one = save(agents, "Ann prefers green tea in the morning.")
    refusal = done(agents, "promote_memory", memory_id=one)
    assert (refusal["success"], refusal["promoted_count"]) == (False, 0)
    previewed = done(agents, "promote_memory", memory_id=one, dry_run=True)
    assert (previewed["promoted_ids"], previewed["candidates"][0]["id"]) == ([], one)
    promoted = done(agents, "promote_memory", memory_id=one, force=True)
    assert (promoted["success"], promoted["promoted_ids"]) == (True, [one])
    assert done(agents, "search_unified", query="morning tea", status="promoted")["results"][0]["source"] == "ltm"
    assert done(agents, "promote_memory", auto_detect=True, dry_run=True)["promoted_ids"] == []
    listed = done(agents, "gc")
    assert (listed["dry_run"], listed["total_affected"], listed["memory_ids"]) == (True, 0, [])
    assert agents.get("/v1/jobs").json()["jobs"] == []
    assert agents.get(f"/v1/jobs/{done(agents, 'gc', dry_run=False)['job_id']}").json()["kind"] == "delete"
    archived = done(agents, "gc", dry_run=False, archive_instead=True)
    assert agents.get(f"/v1/jobs/{archived['job_id']}").json()["kind"] == "archive"
    assert done(agents, "backfill_embeddings")["memories"] == 0


def test_messages_are_judged(agents: Api) -> None:
    advice = done(agents, "analyze_message", message="We decided to use PostgreSQL for the billing service.")
    assert (advice["should_save"], advice["suggested_tags"], advice["suggested_strength"]) == (True, ["decision"], 1.5)
    assert done(agents, "analyze_message", message="What time is it?")["should_save"] is False
    assert done(agents, "analyze_message", message="ok, thanks!")["should_save"] is False
    memory_id = save(agents, "Ann drinks green tea in the morning.", tags=["drinks"])
    found = done(agents, "analyze_for_recall", message="What does Ann drink in the morning?")
    assert (found["should_search"], found["suggested_tags"]) == (True, ["drinks"])
    assert 0 < found["confidence"] <= 1
    assert done(agents, "analyze_for_recall", message="zzz")["should_search"] is False
    recalled = done(agents, "auto_recall_process_message", message="What does Ann drink in the morning?")
    assert [memory["id"] for memory in recalled["memories"]] == [memory_id]
    until(lambda: agents.get(f"/v1/memories/{memory_id}").json()["access_count"] == 1, "the use of the recall")


def test_measurements_are_of_the_own_tenant(agents: Api) -> None:
    done(agents, "reset_performance_metrics")
    done(agents, "search_memory", query="tea")
    metrics = done(agents, "get_performance_metrics")
    assert metrics["search_memory"]["count"] == metrics["search_memory_count"] == 1
    assert metrics["search_memory"]["max_ms"] >= metrics["search_memory"]["avg_ms"] > 0
    other = agents.service.tenant()
    assert done(agents, "get_performance_metrics", key=other.key) == {}
    assert done(agents, "reset_performance_metrics")["message"] == "Forgot 3 measurements"
    assert done(agents, "get_performance_metrics")["reset_performance_metrics"]["count"] == 1


def test_tools_need_the_scopes_of_their_routes_and_stay_in_their_tenant(agents: Api) -> None:
    memory_id = save(agents, "the safe's number is 4711")
    reader = tenants.issue_key(agents.tenant.tenant_id, "reader", ["read"])
    listed = {tool.name for tool in talk(agents, lambda client: client.list_tools(), key=reader).tools}
    assert listed == {tool.name for tool in mnemex_tools.TOOLS if tool.scope == "read"}
    assert "scope 'maintain'" in refused(agents, "gc", key=reader)
    assert "scope 'ingest'" in refused(agents, "touch_memory", key=reader, memory_id=memory_id)
    other = agents.service.tenant()
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("open_memories", {"memory_ids": memory_id}),
        ("search_memory", {"query": "safe"}),
        ("search_unified", {}),
        ("read_graph", {}),
        ("touch_memory", {"memory_id": memory_id}),
        ("promote_memory", {"memory_id": memory_id, "force": True}),
        ("auto_recall_process_message", {"message": "the safe's number?"}),
    ]
    for tool, arguments in attempts:
        result = call(agents, tool, key=other.key, **arguments)
        assert "4711" not in text_of(result), tool
    assert agents.get(f"/v1/memories/{memory_id}").json()["access_count"] == 0
