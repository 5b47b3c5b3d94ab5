"""The tools of a knowledge graph over HTTP: names, shapes and effects of the reference memory server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.mcp import graph, graph_tools
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.mcp.clients import MODES, Mode, done, refused, talk
from tests.service import Service
from tests.waiting import PATIENCE_SECONDS

ANN = {"name": "Ann", "entityType": "person", "observations": ["Drinks green tea.", "Lives in Graz."]}
ACME = {"name": "Acme", "entityType": "company", "observations": []}
WORKS = {"from": "Ann", "to": "Acme", "relationType": "works_at"}


@pytest.fixture
def agents(api: Api, service: Service) -> Iterator[Api]:
    """Return the API with the tools of the graph, and a worker that stores pending requests."""
    service.configure(mcp_tools="knowledge_graph", wait_max_seconds=PATIENCE_SECONDS)
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


def empty(api: Api) -> bool:
    return done(api, "read_graph") == {"entities": [], "relations": []}


@pytest.mark.parametrize("mode", MODES)
def test_each_tool_has_the_effect_of_the_reference_server(agents: Api, mode: Mode) -> None:
    api = agents

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        return done(api, tool, mode=mode, **arguments)

    assert call("create_entities", entities=[ANN, ACME, ANN | {"observations": []}]) == {"entities": [ANN, ACME]}
    assert call("create_entities", entities=[ANN | {"entityType": "cat"}]) == {"entities": []}
    assert call("create_relations", relations=[WORKS, WORKS]) == {"relations": [WORKS]}
    assert call("create_relations", relations=[WORKS]) == {"relations": []}
    assert call("read_graph") == {"entities": [ANN, ACME], "relations": [WORKS]}
    additions = [{"entityName": "Ann", "contents": ["Lives in Graz.", "Has a dog.", "Has a dog."]}]
    assert call("add_observations", observations=additions) == {
        "results": [{"entityName": "Ann", "addedObservations": ["Has a dog."]}]
    }
    whole = ANN | {"observations": ["Drinks green tea.", "Lives in Graz.", "Has a dog."]}
    assert call("search_nodes", query="GREEN") == {"entities": [whole], "relations": [WORKS]}
    assert call("search_nodes", query="compan") == {"entities": [ACME], "relations": [WORKS]}
    assert call("search_nodes", query="nobody") == {"entities": [], "relations": []}
    assert call("open_nodes", names=["Acme", "Bob"]) == {"entities": [ACME], "relations": [WORKS]}


@pytest.mark.parametrize("mode", MODES)
def test_deletions_only_count_unless_confirmed(agents: Api, mode: Mode) -> None:
    api = agents
    done(api, "create_entities", mode=mode, entities=[ANN, ACME])
    done(api, "create_relations", mode=mode, relations=[WORKS])
    before = done(api, "read_graph")

    def delete(tool: str, expected: int, noun: str, **arguments: Any) -> None:
        preview = done(api, tool, mode=mode, **arguments)
        assert preview["success"] is False
        assert f"Would delete {expected} {noun}" in preview["message"]
        assert done(api, "read_graph") == before
        assert done(api, tool, mode=mode, confirm=True, **arguments)["success"] is True

    gone = [{"entityName": "Ann", "observations": ["Lives in Graz.", "never said"]}]
    delete("delete_observations", 1, "memory", deletions=gone)
    before = done(api, "read_graph")
    assert before["entities"] == [ANN | {"observations": ["Drinks green tea."]}, ACME]
    delete("delete_relations", 1, "relation", relations=[WORKS])
    before = done(api, "read_graph")
    assert before["relations"] == []
    delete("delete_entities", 3, "memories", entityNames=["Ann", "Acme", "Bob"])
    assert empty(api)
    again = done(api, "delete_entities", mode=mode, entityNames=["Ann"], confirm=True)
    assert again == {"success": True, "message": "0 memories deleted"}
    assert done(api, "create_entities", mode=mode, entities=[ANN]) == {"entities": [ANN]}
    assert done(api, "read_graph")["entities"] == [ANN]


def test_a_relation_goes_with_its_entity(agents: Api) -> None:
    done(agents, "create_entities", entities=[ANN, ACME])
    done(agents, "create_relations", relations=[WORKS])
    done(agents, "delete_entities", entityNames=["Acme"], confirm=True)
    assert done(agents, "read_graph") == {"entities": [ANN], "relations": []}


def test_an_unknown_entity_is_an_error_and_nothing_is_stored(agents: Api) -> None:
    done(agents, "create_entities", entities=[ANN])
    message = refused(agents, "create_relations", relations=[WORKS])
    assert message.startswith("Entity not found")
    additions = [
        {"entityName": "Ann", "contents": ["Has a dog."]},
        {"entityName": "Bob", "contents": ["Has a cat."]},
    ]
    assert refused(agents, "add_observations", observations=additions).startswith("Entity not found")
    assert done(agents, "read_graph") == {"entities": [ANN], "relations": []}


def test_entities_stay_and_observations_are_memories_like_others(agents: Api) -> None:
    done(agents, "create_entities", entities=[ANN])
    found = {memory["text"]: memory for memory in agents.get("/v1/memories").json()["memories"]}
    assert found.keys() == {"Ann (person)", *ANN["observations"]}
    assert found["Ann (person)"]["salience"]["value"] == 1
    assert {memory["entities"][0] for memory in found.values()} == {"Ann"}
    hits = agents.post("/v1/search", json={"query": "tea", "reinforce": False}).json()["results"]
    assert hits[0]["text"] == "Drinks green tea."


def test_a_graph_is_of_its_tenant_and_needs_the_scopes_of_its_routes(agents: Api) -> None:
    done(agents, "create_entities", entities=[ANN])
    other = agents.service.tenant()
    assert done(agents, "read_graph", key=other.key) == {"entities": [], "relations": []}
    assert "0 memories" in done(agents, "delete_entities", key=other.key, entityNames=["Ann"], confirm=True)["message"]
    reader = tenants.issue_key(agents.tenant.tenant_id, "reader", ["read"])
    listed = [tool.name for tool in talk(agents, lambda client: client.list_tools(), key=reader).tools]
    assert listed == ["read_graph", "search_nodes", "open_nodes"]
    assert "scope 'ingest'" in refused(agents, "create_entities", key=reader, entities=[ACME])
    assert done(agents, "read_graph")["entities"] == [ANN]


def test_limits_are_named(agents: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "entities[0].name is too long (value 257, limit 256)" in refused(
        agents, "create_entities", entities=[ANN | {"name": "x" * 257}]
    )
    assert "relations[0].relationType" in refused(
        agents, "create_relations", relations=[WORKS | {"relationType": "x" * 65}]
    )
    assert "Unknown field `entities[0].type`" in refused(
        agents, "create_entities", entities=[{"name": "x", "type": "y", "observations": []}]
    )
    done(agents, "create_entities", entities=[ANN])
    monkeypatch.setattr(graph, "DELETED_MAX", 2)
    assert "value 3, limit 2" in refused(agents, "delete_entities", entityNames=["Ann"], confirm=True)
    monkeypatch.setattr(graph, "PAGE", 1)
    monkeypatch.setattr(graph, "PAGES_MAX", 1)
    assert "too large for these tools" in refused(agents, "read_graph")


def test_every_tool_is_described() -> None:
    assert [tool.name for tool in graph_tools.TOOLS] == [
        *("create_entities", "create_relations", "add_observations"),
        *("delete_entities", "delete_observations", "delete_relations"),
        *("read_graph", "search_nodes", "open_nodes"),
    ]
    for tool in graph_tools.TOOLS:
        assert tool.is_destructive == ("confirm" in tool.input_schema["properties"])
        assert tool.is_read_only == tool.name.startswith(("read_", "search_", "open_"))
        assert tool.description
        assert all("description" in part for part in tool.input_schema["properties"].values())
