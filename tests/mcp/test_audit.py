"""The audit log has the same entries for a tool as for the HTTP requests that do the same work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tests.api.caller import Api
from tests.mcp.calls import CALLS, tools
from tests.mcp.clients import call, text_of
from tests.mcp.conftest import Offer

Twin = Callable[[Api, str, str], None]
"""Function that does over HTTP what a tool does to two memories."""


def sends(method: str, path: str, body: Callable[[str, str], Any] | None = None, **params: Any) -> Twin:
    """Return a twin that sends one request; `{one}` in the path is the first memory."""

    def send(api: Api, one: str, other: str) -> None:
        given: dict[str, Any] = {} if body is None else {"json": body(one, other)}
        answer = api.request(method, path.format(one=one), params=params, **given)
        assert answer.status_code < 400, answer.text

    return send


def nothing(_: Api, __: str, ___: str) -> None:
    """Do nothing: the tool only reads, and reading leaves no entry."""


def add_graph(api: Api, *_: str) -> None:
    """Store two entities and an observation, as memories and a link."""
    memories = [
        {"text": "Ann (person)", "tags": ["kg:entity"], "metadata": {"kg_name": "Ann", "kg_type": "person"}},
        {"text": "Acme (company)", "tags": ["kg:entity"], "metadata": {"kg_name": "Acme", "kg_type": "company"}},
        {"text": "Drinks green tea.", "tags": ["kg:observation"], "metadata": {"kg_name": "Ann"}},
    ]
    assert api.post("/v1/memories", json=memories, headers={"prefer": "wait=300"}).status_code == 200


def delete_tagged(*wanted: str) -> Twin:
    """Return a twin that deletes the memories with one of these texts."""

    def delete(api: Api, *_: str) -> None:
        for memory in api.get("/v1/memories").json()["memories"]:
            if memory["text"] in wanted:
                assert api.delete(f"/v1/memories/{memory['id']}").status_code == 202

    return delete


FILE = "/memories/notes.md"
TWINS: dict[str, dict[str, Twin]] = {
    "ebbing": {
        "remember": sends("POST", "/v1/memories", lambda _, __: {"text": "x"}),
        "correct": sends("PATCH", "/v1/memories/{one}", lambda _, __: {"text": "y"}),
        "supersede": sends("POST", "/v1/supersessions", lambda one, other: {"memory": one, "supersedes": other}),
        "observe": sends("POST", "/v1/observations", lambda one, _: {"ids": [one]}),
        "link": sends("POST", "/v1/links", lambda one, other: {"from": one, "to": other}),
        "forget": sends("DELETE", "/v1/memories/{one}"),
    },
    "mnemex": {
        "save_memory": sends("POST", "/v1/memories", lambda _, __: {"text": "x"}),
        "touch_memory": sends("POST", "/v1/memories/{one}/touch", lambda _, __: {}),
        "observe_memory_usage": sends("POST", "/v1/memories/{one}/touch", lambda _, __: {}),
        "create_relation": sends("POST", "/v1/links", lambda one, other: {"from": one, "to": other}),
        "promote_memory": sends("POST", "/v1/memories/{one}/promote", lambda _, __: {"force": True}),
        "gc": sends("POST", "/v1/maintenance/delete", lambda _, __: {}),
    },
    "knowledge_graph": {
        "create_entities": add_graph,
        "add_observations": sends(
            "POST", "/v1/memories", lambda _, __: {"text": "Has a dog.", "tags": ["kg:observation"]}
        ),
        "delete_observations": delete_tagged("Has a dog."),
        "delete_entities": delete_tagged("Ann (person)", "Acme (company)", "Drinks green tea."),
    },
    "files": {
        "create": sends("POST", "/v1/files/create", lambda _, __: {"path": FILE, "file_text": "Tea\n"}),
        "str_replace": sends(
            "POST", "/v1/files/str_replace", lambda _, __: {"path": FILE, "old_str": "Tea", "new_str": "Milk"}
        ),
        "insert": sends(
            "POST", "/v1/files/insert", lambda _, __: {"path": FILE, "insert_line": 1, "insert_text": "Bread"}
        ),
        "rename": sends("POST", "/v1/files/rename", lambda _, __: {"old_path": FILE, "new_path": "/memories/list.md"}),
        "delete": sends("POST", "/v1/files/delete", lambda _, __: {"path": "/memories/list.md"}),
    },
}
"""Requests by tool. All other tools only read, or change links of the graph, which the log doesn't record."""


def entries(api: Api) -> list[dict[str, Any]]:
    """Return all entries of the audit log, oldest first, with ids in the details replaced by their kind."""
    listed = api.get("/v1/privacy/audit", params={"limit": 500}).json()["entries"]
    return [
        {
            **{name: entry[name] for name in ("action", "items", "subject")},
            "by": "caller" if entry["actor"] == api.tenant.key_id else entry["actor"],
            "details": {name: "an id" if is_id(value) else value for name, value in (entry["details"] or {}).items()},
        }
        for entry in reversed(listed)
    ]


def is_id(value: object) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True


def recorded(api: Api, act: Callable[[str, str, str], None], names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Do something for each name, with two memories of its own, in a new tenant; return the new entries by name."""
    api.change_tenant()
    found = {}
    for name in names:
        answer = api.post("/v1/memories", json=[{"text": "one"}, {"text": "other"}], headers={"prefer": "wait=300"})
        one, other = answer.json()["ids"]
        before = len(entries(api))
        act(name, one, other)
        found[name] = entries(api)[before:]
    return found


@pytest.mark.parametrize("tool_set", CALLS)
def test_a_tool_leaves_the_entries_of_its_twin(offer: Offer, tool_set: str) -> None:
    api = offer(tool_set)
    names = list(CALLS[tool_set])
    twins = TWINS[tool_set]
    assert twins.keys() <= set(names)

    def by_tool(name: str, one: str, other: str) -> None:
        result = call(api, name, **CALLS[tool_set][name](one, other))
        assert not result.is_error, (name, text_of(result))

    def by_http(name: str, one: str, other: str) -> None:
        twins.get(name, nothing)(api, one, other)

    left = recorded(api, by_tool, names)
    assert left == recorded(api, by_http, names)
    changing = {name for name, found in left.items() if found}
    assert changing >= EXPECTED[tool_set]
    assert all(entry["by"] == "caller" for found in left.values() for entry in found)
    assert not any(tools(tool_set)[name].is_read_only for name in changing)


EXPECTED = {
    "ebbing": {"supersede", "forget"},
    "mnemex": {"promote_memory", "gc"},
    "knowledge_graph": {"delete_observations", "delete_entities"},
    "files": {"delete"},
}
"""Tools of which the audit log has an entry."""
