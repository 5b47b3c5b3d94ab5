"""Store a knowledge graph in memories: one for each entity and each observation; relations are links of entities.

An entity's memory has the salience 1, so that it stays while its observations fade like other memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from app.domain.formatting import count_memories
from app.mcp.backend import Backend, Json, ToolFailure, memory_path, read_pages
from app.mcp.graph_shapes import Entity, EntityShown, Relation

ENTITY: Final = "kg:entity"
OBSERVATION: Final = "kg:observation"
NAME: Final = "kg_name"
TYPE: Final = "kg_type"
WAIT: Final = {"prefer": "wait=5"}
PAGE: Final = 500
PAGES_MAX: Final = 10
"""Pages of entities, of observations and of links that a call reads: the graph has at most 5,000 of each."""
DELETED_MAX: Final = 200
"""Maximum number of memories that a call deletes, because each deletion is a request."""


@dataclass
class Node:
    """An entity with the ids of its memories.

    Attributes:
        observations: Ids of the observations' memories by text, in the order of acceptance.
    """

    name: str
    kind: str
    memory_id: str
    observations: dict[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> EntityShown:
        """The entity as tools show it."""
        return EntityShown(self.name, self.kind, list(self.observations))


@dataclass
class Graph:
    """The graph of a tenant: nodes by name, and relations."""

    nodes: dict[str, Node]
    relations: list[Relation]

    def subgraph(self, names: Iterable[str]) -> Json:
        """Return these entities, and the relations that have at least one of them."""
        chosen = dict.fromkeys(names)
        shown = [node.shown for name, node in self.nodes.items() if name in chosen]
        relations = [one for one in self.relations if one.from_name in chosen or one.to_name in chosen]
        return {"entities": shown, "relations": relations}

    def node(self, name: str) -> Node:
        """Return an entity.

        Raises:
            ToolFailure: There is no entity with this name.
        """
        if name not in self.nodes:
            raise ToolFailure("Entity not found: create it first, or look for its name with `search_nodes`", 404)
        return self.nodes[name]


async def load(backend: Backend) -> Graph:
    """Return the whole graph.

    Raises:
        ToolFailure: The graph exceeds the limit, or the API refused a request.
    """
    nodes = {
        memory["metadata"][NAME]: Node(memory["metadata"][NAME], memory["metadata"][TYPE], memory["id"])
        for memory in await _list(backend, "/v1/memories", "memories", tag=ENTITY)
        if {NAME, TYPE} <= memory["metadata"].keys()
    }
    for memory in await _list(backend, "/v1/memories", "memories", tag=OBSERVATION):
        node = nodes.get(memory["metadata"].get(NAME))
        if node is not None:
            node.observations[memory["text"]] = memory["id"]
    names = {node.memory_id: node.name for node in nodes.values()}
    relations = [
        Relation(names[link["from"]], names[link["to"]], link["kind"])
        for link in await _list(backend, "/v1/links", "links")
        if link["from"] in names and link["to"] in names
    ]
    return Graph(nodes, relations)


async def _list(backend: Backend, path: str, noun: str, **params: str) -> list[Json]:
    """Return all entries of a list in reverse order: the oldest first if the API lists the newest first.

    Raises:
        ToolFailure: The list exceeds the limit.
    """
    entries, is_complete = await read_pages(backend, path, noun, PAGES_MAX, limit=PAGE, **params)
    if is_complete:
        return entries[::-1]
    raise ToolFailure(f"The graph is too large for these tools: more than {PAGE * PAGES_MAX:,} {noun}")


def entity_memory(entity: Entity) -> Json:
    """Return the memory of an entity."""
    return {
        "text": f"{entity.name} ({entity.entity_type})",
        "external_id": f"{ENTITY}:{_digest(entity.name)}",
        "kind": "semantic",
        "salience": 1,
        "tags": [ENTITY],
        "entities": [entity.name],
        "metadata": {NAME: entity.name, TYPE: entity.entity_type},
    }


def observation_memory(name: str, text: str) -> Json:
    """Return the memory of an observation; the same observation of an entity is the same memory."""
    return {
        "text": text,
        "external_id": f"{OBSERVATION}:{_digest(name, text)}",
        "tags": [OBSERVATION],
        "entities": [name],
        "metadata": {NAME: name},
    }


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:32]


async def store(backend: Backend, memories: Sequence[Json]) -> None:
    """Store memories in one request, and wait until they can be found.

    Raises:
        ToolFailure: A field is invalid, or the memories aren't stored after 5 seconds.
    """
    if not memories:
        return
    reply = await backend.call("POST", "/v1/memories", body=list(memories), headers=WAIT)
    if reply.status != 200:
        raise ToolFailure("Accepted but not stored within 5 s: the new entries appear in the graph later", reply.status)


async def delete(backend: Backend, memory_ids: Sequence[str], *, confirm: bool) -> Json:
    """Delete memories, or only count them without `confirm`; one that is gone already counts as deleted.

    Raises:
        ToolFailure: There are too many, or the API refused a deletion.
    """
    if len(memory_ids) > DELETED_MAX:
        raise ToolFailure(f"Too many memories for one call (value {len(memory_ids)}, limit {DELETED_MAX})")
    if not confirm:
        return preview(count_memories(len(memory_ids)))
    for memory_id in memory_ids:
        try:
            await backend.call("DELETE", memory_path(memory_id))
        except ToolFailure as failure:
            if failure.status != 404:
                raise
    return {"success": True, "message": f"{count_memories(len(memory_ids))} deleted"}


def preview(what: str) -> Json:
    """Return the outcome of a deletion without `confirm`."""
    return {"success": False, "message": f"Would delete {what}. Call again with confirm=true to delete."}


def matches(node: Node, text: str) -> bool:
    """Return whether a text occurs in an entity's name, type or observations, ignoring case."""
    wanted = text.casefold()
    return any(wanted in part.casefold() for part in (node.name, node.kind, *node.observations))
