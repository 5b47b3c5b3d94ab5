"""Parameters and result shapes of the mnemex tools against those recorded from cortexgraph 1.2.1.

`cortexgraph_shapes.json` has each tool's parameters with their defaults, and the paths and types of the values in the
results of a recorded session. Our results may have further fields; what is left out is listed here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.mcp.mnemex import mnemex_tools
from tests.api.caller import Api
from tests.mcp.calls import NOBODY
from tests.mcp.clients import done, refused
from tests.mcp.conftest import Offer
from tests.mcp.test_mnemex_tools import consolidate
from tests.services.mergeable import LIKE, Alike

RECORDED = json.loads((Path(__file__).parent / "cortexgraph_shapes.json").read_text())
OTHER_DEFAULTS = {("backfill_embeddings", "model"): None}
"""Parameters whose default differs: the service's settings choose the embedding model."""
LEFT_OUT = {
    "consolidation_linked": {"results[].message", "results[].relations_created", "results[].skipped_existing"},
    "consolidation_applied": {
        *("results[].consolidated_ids[]", "results[].merged_content_length", "results[].merged_entities"),
        *("results[].merged_strength", "results[].merged_tags", "results[].new_memory_id", "results[].space_saved"),
        "results[].success",
    },
}
"""Paths by case: links are written in one request and merges by a job, so that no group has a result of its own."""


def test_each_tool_has_the_recorded_parameters_and_defaults() -> None:
    for tool in mnemex_tools.TOOLS:
        schema = tool.input_schema
        required = set(schema.get("required", ()))
        found = {
            name: "required" if name in required else part.get("default") for name, part in schema["properties"].items()
        }
        expected = RECORDED["parameters"][tool.name]
        expected = {name: OTHER_DEFAULTS.get((tool.name, name), value) for name, value in expected.items()}
        assert found == expected, tool.name


def paths(value: Any, path: str = "") -> dict[str, set[str]]:
    """Return the types of all values of a result by path, of all elements of lists."""
    found: dict[str, set[str]] = {}
    if isinstance(value, dict):
        found[path] = {"object"}
        parts = [(f"{path}.{name}" if path else name, part) for name, part in value.items()]
    elif isinstance(value, list):
        found[path] = {"array"}
        parts = [(f"{path}[]", part) for part in value]
    else:
        kinds = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
        return {path: {kinds[type(value)]}}
    for name, part in parts:
        for inner, kind in paths(part, name).items():
            found.setdefault(inner, set()).update(kind)
    return found


def compare(results: dict[str, Any]) -> None:
    """Compare results by case: each recorded path must exist, with the type of a recorded value or null."""
    for case, result in results.items():
        found = paths(result)
        expected = {
            path: kind for path, kind in RECORDED["results"][case].items() if path not in LEFT_OUT.get(case, ())
        }
        assert expected.keys() - found.keys() == set(), case
        wrong = {
            path: found[path] for path, kind in expected.items() if kind != "null" and not found[path] <= {kind, "null"}
        }
        assert wrong == {}, case


def test_results_of_memories_have_the_recorded_shapes(offer: Offer) -> None:
    api = offer("mnemex")
    saved = done(
        api,
        "save_memory",
        content="We decided with Bob in Graz to use PostgreSQL.",
        tags=["db"],
        source="chat",
        context="a meeting",
    )
    one, other = (
        saved["memory_id"],
        done(api, "save_memory", content="Ann prefers tea.", tags=["drinks"], entities=["Ann"])["memory_id"],
    )
    relation = {"from_memory_id": one, "to_memory_id": other, "relation_type": "related"}
    back = {"from_memory_id": other, "to_memory_id": one, "relation_type": "causes"}
    results = {
        "saved": saved,
        "found": done(api, "search_memory", query="tea", page=1, page_size=1),
        "found_unified": done(api, "search_unified", query="PostgreSQL", page=1, page_size=1),
        "touched": done(api, "touch_memory", memory_id=one),
        "touched_unknown": done(api, "touch_memory", memory_id=NOBODY),
        "related": done(api, "create_relation", **relation, strength=0.5),
        "related_again": done(api, "create_relation", **relation),
        "related_unknown": done(api, "create_relation", **relation | {"to_memory_id": NOBODY}),
        "collected": done(api, "gc"),
        "judged": done(api, "analyze_message", message="We decided to use PostgreSQL."),
        "judged_for_recall": done(api, "analyze_for_recall", message="What did Bob decide in Graz?"),
        "recalled": done(api, "auto_recall_process_message", message="What did we decide with Bob in Graz?"),
        "promotion_candidates": done(api, "promote_memory", memory_id=one, dry_run=True),
        "promotion_refused": done(api, "promote_memory"),
        "measured": done(api, "get_performance_metrics"),
        "reset": done(api, "reset_performance_metrics"),
    }
    done(api, "create_relation", **back)
    results |= {
        "opened": done(api, "open_memories", memory_ids=[one, other], page=1, page_size=1),
        "opened_plainly": done(api, "open_memories", memory_ids=[one], include_relations=False, include_scores=False),
        "opened_none": done(api, "open_memories", memory_ids=[]),
        "graph": done(api, "read_graph", page=1, page_size=1),
    }
    compare(results)
    assert results["opened_plainly"]["memories"][0].keys().isdisjoint({"score", "age_days", "relations"})
    assert (results["graph"]["stats"]["total_memories"], len(results["graph"]["memories"])) == (2, 1)
    assert results["related_again"]["existing_relation_id"] == results["related"]["relation_id"]


def test_results_about_groups_have_the_recorded_shapes(api: Api) -> None:
    api.service.configure(mcp_tools="mnemex")
    Alike(api.service, tenant_id=api.tenant.tenant_id).remember(*LIKE, subject="ann")
    with Api(api.service, api._routes) as agents:
        agents.__dict__["tenant"] = api.tenant
        everything = {"auto_detect": True, "cohesion_threshold": 0}
        results = {
            "clusters": done(agents, "cluster_memories", threshold=0),
            "consolidation_refused": consolidate(agents),
            "consolidation_previewed": consolidate(agents, **everything),
            "consolidation_linked": consolidate(agents, **everything, mode="link"),
            "consolidation_applied": consolidate(agents, **everything, mode="apply"),
        }
        compare(results)
        assert results["consolidation_previewed"]["candidates_found"] == results["clusters"]["clusters_found"] == 1
        assert len(results["clusters"]["clusters"][0]["content_previews"]) == results["clusters"]["clusters"][0]["size"]


def test_duplicates_are_listed_in_pairs(api: Api) -> None:
    api.service.configure(mcp_tools="mnemex")
    Alike(api.service, tenant_id=api.tenant.tenant_id).remember(*LIKE, subject="ann")
    with Api(api.service, api._routes) as agents:
        agents.__dict__["tenant"] = api.tenant
        [cluster] = done(agents, "cluster_memories")["clusters"]
        found = done(agents, "cluster_memories", find_duplicates=True, duplicate_threshold=cluster["cohesion"])
        assert done(agents, "cluster_memories", find_duplicates=True, duplicate_threshold=1)["duplicates"] == []
    compare({"duplicates": found})
    assert found["duplicates_found"] == cluster["size"] - 1
    assert {pair["id2"] for pair in found["duplicates"]} == set(cluster["memory_ids"][1:])


def test_what_cannot_be_done_says_what_to_do_instead(offer: Offer) -> None:
    api = offer("mnemex")
    one, other = (done(api, "save_memory", content=text)["memory_id"] for text in ("one", "other"))
    ends = {"from_memory_id": one, "to_memory_id": other, "relation_type": "related"}
    refusal = done(api, "create_relation", **ends, metadata={"why": "test"})
    assert refusal["success"] is False
    assert "leave `metadata` out" in refusal["message"]
    assert api.get("/v1/links").json()["links"] == []
    assert done(api, "create_relation", **ends, metadata={})["success"] is True
    hints: dict[str, tuple[Any, str]] = {
        "model": ("all-MiniLM-L6-v2", "change it there"),
        "limit": (5, "leave it out"),
        "force": (True, "choose another model"),
    }
    for name, (value, hint) in hints.items():
        refusal = done(api, "backfill_embeddings", **{name: value})
        compare({"backfill_refused": refusal})
        assert name in refusal["error"]
        assert hint in refusal["hint"]
    assert api.get("/v1/jobs").json()["jobs"] == []
    assert done(api, "backfill_embeddings", dry_run=True)["memories"] == 0


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("save_memory", {"content": ""}, "content must not be empty"),
        ("save_memory", {"content": "x", "strength": 5}, "strength is too large (value 5, limit 2)"),
        ("search_memory", {"top_k": 0}, "top_k is too small (value 0, limit 1)"),
        ("search_memory", {"min_score": 50}, "min_score is too large (value 50, limit 1)"),
        ("search_memory", {"tags": ["x"] * 17}, "tags is too long (value 17, limit 16)"),
        ("touch_memory", {"memory_id": "nope"}, "memory_id must be an id (a UUID)"),
        ("open_memories", {"memory_ids": ["nope"]}, "memory_ids"),
        ("consolidate_memories", {"cluster_id": "x"}, "cluster_id must be an id (a UUID)"),
        ("promote_memory", {"memory_id": NOBODY, "target": "x"}, "target isn't one of"),
        ("gc", {"limit": 0}, "limit is too small (value 0, limit 1)"),
        ("auto_recall_process_message", {"message": ""}, "message must not be empty"),
    ],
)
def test_invalid_input_is_an_error(api: Api, tool: str, arguments: dict[str, Any], message: str) -> None:
    api.service.configure(mcp_tools="mnemex")
    with Api(api.service, api._routes) as agents:
        assert message in refused(agents, tool, **arguments)


def test_searches_select_by_any_tag_and_by_state(offer: Offer) -> None:
    api = offer("mnemex")
    tea, bread, plain = (
        done(api, "save_memory", content=f"Ann likes {text}.", tags=tags)["memory_id"]
        for text, tags in (("tea", ["drinks"]), ("bread", ["food", "drinks"]), ("walks", None))
    )

    def found(tool: str = "search_memory", **arguments: Any) -> list[str]:
        name = "id" if tool == "search_memory" else "memory_id"
        return [hit[name] for hit in done(api, tool, **arguments)["results"]]

    assert found(tags=["drinks"]) == [bread, tea]
    assert found(tags=["food", "drinks"]) == [bread, tea]
    assert set(found(query="What does Ann like?", tags=["food", "drinks"])) == {bread, tea}
    assert set(found(query="Ann likes", tags=None)) == {tea, bread, plain}
    done(api, "promote_memory", memory_id=tea, force=True)
    assert found(status="promoted") == [tea]
    assert set(found(status="active")) == {bread, plain}
    assert set(found(query="Ann likes", status=["active", "promoted"])) == {tea, bread, plain}
    assert found("search_unified", query="Ann likes", status="promoted") == [tea]
    assert found(status="archived") == []
    assert {memory["status"] for memory in done(api, "read_graph", status="all")["memories"]} == {"active", "promoted"}
    assert [hit["similarity"] for hit in done(api, "search_memory", query="walks")["results"]] == [None]
