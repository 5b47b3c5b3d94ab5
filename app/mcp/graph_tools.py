"""The nine tools of the protocol's reference memory server, on memories and links."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.domain.formatting import count_of
from app.mcp import graph, graph_shapes
from app.mcp.backend import Backend, Json
from app.mcp.tool import Tool, collect

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order of lists."""

_tool = collect(TOOLS)


@_tool(
    "Create entities",
    scope="ingest",
    also=("read",),
    arguments=graph_shapes.CreateEntities,
    result=graph_shapes.EntitiesShown,
    repeats=True,
)
async def create_entities(backend: Backend, given: graph_shapes.CreateEntities) -> Json:
    """Create entities with observations. Entities whose name exists are left out; the result has the new ones."""
    found = await graph.load(backend)
    distinct: dict[str, graph_shapes.Entity] = {}
    for entity in given.entities:
        distinct.setdefault(entity.name, entity)
    new = [
        msgspec.structs.replace(entity, observations=list(dict.fromkeys(entity.observations)))
        for name, entity in distinct.items()
        if name not in found.nodes
    ]
    memories = [graph.entity_memory(entity) for entity in new]
    memories += [graph.observation_memory(entity.name, text) for entity in new for text in entity.observations]
    await graph.store(backend, memories)
    return {"entities": [msgspec.to_builtins(entity) for entity in new]}


@_tool(
    "Create relations",
    scope="ingest",
    also=("read",),
    arguments=graph_shapes.CreateRelations,
    result=graph_shapes.RelationsShown,
    repeats=True,
)
async def create_relations(backend: Backend, given: graph_shapes.CreateRelations) -> Json:
    """Create relations between existing entities. Existing relations are left out; the result has the new ones."""
    found = await graph.load(backend)
    existing = set(found.relations)
    new = [relation for relation in dict.fromkeys(given.relations) if relation not in existing]
    links = [
        {
            "from": found.node(relation.from_name).memory_id,
            "to": found.node(relation.to_name).memory_id,
            "kind": relation.relation_type,
        }
        for relation in new
    ]
    if links:
        await backend.call("POST", "/v1/links", body=links)
    return {"relations": new}


@_tool(
    "Add observations",
    scope="ingest",
    also=("read",),
    arguments=graph_shapes.AddObservations,
    result=graph_shapes.AddedShown,
    repeats=True,
)
async def add_observations(backend: Backend, given: graph_shapes.AddObservations) -> Json:
    """Add observations to existing entities. Existing observations are left out; the result has the new ones."""
    found = await graph.load(backend)
    results, memories = [], []
    for addition in given.observations:
        node = found.node(addition.entity_name)
        new = [text for text in dict.fromkeys(addition.contents) if text not in node.observations]
        node.observations.update(dict.fromkeys(new, ""))
        memories += [graph.observation_memory(node.name, text) for text in new]
        results.append({"entityName": node.name, "addedObservations": new})
    await graph.store(backend, memories)
    return {"results": results}


@_tool(
    "Delete entities",
    scope="ingest",
    also=("read",),
    arguments=graph_shapes.DeleteEntities,
    result=graph_shapes.Outcome,
    destroys=True,
    repeats=True,
)
async def delete_entities(backend: Backend, given: graph_shapes.DeleteEntities) -> Json:
    """Delete entities with their observations and relations. Without `confirm`, only count what would be deleted."""
    found = await graph.load(backend)
    nodes = [found.nodes[name] for name in dict.fromkeys(given.entity_names) if name in found.nodes]
    observations = [memory_id for node in nodes for memory_id in node.observations.values()]
    return await graph.delete(backend, [*observations, *(node.memory_id for node in nodes)], confirm=given.confirm)


@_tool(
    "Delete observations",
    scope="ingest",
    also=("read",),
    arguments=graph_shapes.DeleteObservations,
    result=graph_shapes.Outcome,
    destroys=True,
    repeats=True,
)
async def delete_observations(backend: Backend, given: graph_shapes.DeleteObservations) -> Json:
    """Delete observations of entities. Without `confirm`, only count what would be deleted."""
    found = await graph.load(backend)
    memory_ids = [
        found.nodes[deletion.entity_name].observations[text]
        for deletion in given.deletions
        if deletion.entity_name in found.nodes
        for text in dict.fromkeys(deletion.observations)
        if text in found.nodes[deletion.entity_name].observations
    ]
    return await graph.delete(backend, list(dict.fromkeys(memory_ids)), confirm=given.confirm)


@_tool(
    "Delete relations",
    scope="ingest",
    also=("read",),
    arguments=graph_shapes.DeleteRelations,
    result=graph_shapes.Outcome,
    destroys=True,
    repeats=True,
)
async def delete_relations(backend: Backend, given: graph_shapes.DeleteRelations) -> Json:
    """Delete relations; the entities remain. Without `confirm`, only count what would be deleted."""
    found = await graph.load(backend)
    existing = set(found.relations)
    removed = [relation for relation in dict.fromkeys(given.relations) if relation in existing]
    counted = count_of(len(removed), "relation", "relations")
    if not given.confirm:
        return graph.preview(counted)
    for relation in removed:
        ends = {"from": found.node(relation.from_name).memory_id, "to": found.node(relation.to_name).memory_id}
        await backend.call("DELETE", "/v1/links", params={**ends, "kind": relation.relation_type})
    return {"success": True, "message": f"{counted} deleted"}


@_tool("Read the graph", scope="read", arguments=graph_shapes.ReadGraph, result=graph_shapes.GraphShown, reads=True)
async def read_graph(backend: Backend, _: graph_shapes.ReadGraph) -> Json:
    """Return the whole graph. For a large one, use `search_nodes`."""
    found = await graph.load(backend)
    return found.subgraph(found.nodes)


@_tool("Search entities", scope="read", arguments=graph_shapes.SearchNodes, result=graph_shapes.GraphShown, reads=True)
async def search_nodes(backend: Backend, given: graph_shapes.SearchNodes) -> Json:
    """Return the entities with a text in their name, type or observations, and the relations of these entities.

    An empty text finds all entities.
    """
    found = await graph.load(backend)
    return found.subgraph(name for name, node in found.nodes.items() if graph.matches(node, given.query))


@_tool("Open entities", scope="read", arguments=graph_shapes.OpenNodes, result=graph_shapes.GraphShown, reads=True)
async def open_nodes(backend: Backend, given: graph_shapes.OpenNodes) -> Json:
    """Return entities by name, and the relations that have at least one of them."""
    return (await graph.load(backend)).subgraph(given.names)
