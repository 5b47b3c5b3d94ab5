"""A call of every tool of every set, with arguments that succeed; tests run all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from app.mcp import tool_sets
from app.mcp.tool import Tool

Arguments = Callable[[str, str], dict[str, Any]]
"""Function that returns the arguments of a call for two stored memories."""

ANN: Final = {"name": "Ann", "entityType": "person", "observations": ["Drinks green tea."]}
ACME: Final = {"name": "Acme", "entityType": "company", "observations": []}
WORKS: Final = {"from": "Ann", "to": "Acme", "relationType": "works_at"}
NOTES: Final = "/memories/notes.md"

OWN: Final[dict[str, Arguments]] = {
    "remember": lambda _, __: {"text": "x"},
    "recall": lambda _, __: {"messages": ["x"]},
    "search": lambda _, __: {"query": "safe"},
    "get": lambda one, _: {"id": one},
    "correct": lambda one, _: {"id": one, "text": "y", "confirm": True},
    "supersede": lambda one, other: {"memory": one, "supersedes": other},
    "observe": lambda one, _: {"ids": [one]},
    "why": lambda one, _: {"id": one},
    "link": lambda one, other: {"from_id": one, "to_id": other},
    "reviews": lambda _, __: {},
    "stats": lambda _, __: {},
    "forget": lambda one, _: {"id": one, "confirm": True},
}
MNEMEX: Final[dict[str, Arguments]] = {
    "save_memory": lambda _, __: {"content": "x"},
    "search_memory": lambda _, __: {"query": "safe"},
    "search_unified": lambda _, __: {"query": "safe"},
    "touch_memory": lambda one, _: {"memory_id": one},
    "observe_memory_usage": lambda one, _: {"memory_ids": [one]},
    "create_relation": lambda one, other: {"from_memory_id": one, "to_memory_id": other, "relation_type": "related"},
    "open_memories": lambda one, _: {"memory_ids": one},
    "read_graph": lambda _, __: {},
    "cluster_memories": lambda _, __: {},
    "consolidate_memories": lambda _, __: {"auto_detect": True},
    "promote_memory": lambda one, _: {"memory_id": one, "force": True},
    "gc": lambda _, __: {"dry_run": False},
    "backfill_embeddings": lambda _, __: {},
    "analyze_message": lambda _, __: {"message": "We decided to use PostgreSQL."},
    "analyze_for_recall": lambda _, __: {"message": "the safe's number?"},
    "auto_recall_process_message": lambda _, __: {"message": "the safe's number?"},
    "get_performance_metrics": lambda _, __: {},
    "reset_performance_metrics": lambda _, __: {},
}
GRAPH: Final[dict[str, Arguments]] = {
    "create_entities": lambda _, __: {"entities": [ANN, ACME]},
    "create_relations": lambda _, __: {"relations": [WORKS]},
    "add_observations": lambda _, __: {"observations": [{"entityName": "Ann", "contents": ["Has a dog."]}]},
    "read_graph": lambda _, __: {},
    "search_nodes": lambda _, __: {"query": "tea"},
    "open_nodes": lambda _, __: {"names": ["Ann"]},
    "delete_observations": lambda _, __: {
        "deletions": [{"entityName": "Ann", "observations": ["Has a dog."]}],
        "confirm": True,
    },
    "delete_relations": lambda _, __: {"relations": [WORKS], "confirm": True},
    "delete_entities": lambda _, __: {"entityNames": ["Ann", "Acme"], "confirm": True},
}
FILES: Final[dict[str, Arguments]] = {
    "create": lambda _, __: {"path": NOTES, "file_text": "Tea\n"},
    "view": lambda _, __: {"path": "/memories"},
    "str_replace": lambda _, __: {"path": NOTES, "old_str": "Tea", "new_str": "Milk"},
    "insert": lambda _, __: {"path": NOTES, "insert_line": 1, "insert_text": "Bread"},
    "rename": lambda _, __: {"old_path": NOTES, "new_path": "/memories/list.md"},
    "delete": lambda _, __: {"path": "/memories/list.md"},
}
CALLS: Final = {"ebbing": OWN, "mnemex": MNEMEX, "knowledge_graph": GRAPH, "files": FILES}
"""Calls by set, in an order in which all succeed."""
NOBODY: Final = "00000000-0000-4000-8000-000000000000"
"""An id that no memory has."""


def tools(tool_set: str) -> dict[str, Tool[Any]]:
    """Return the tools of a set by name."""
    return {tool.name: tool for tool in tool_sets.load(tool_set)}
