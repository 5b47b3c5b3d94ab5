"""Keys, tenants, scopes, hosts and hostile arguments: what a tool may do is what its key may do over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import structlog
from mcp import Client
from mcp.shared.exceptions import MCPError

from app import logs
from app.domain.policy.api_keys import SCOPES
from app.mcp import own_tools
from app.services.tenants import tenants
from tests.api.caller import Api, fields
from tests.mcp.clients import call, done, refused, talk, text_of

SECRET = "the safe's number is 4711"
Arguments = Callable[[str, str], dict[str, Any]]
CALLS: dict[str, Arguments] = {
    "remember": lambda _, __: {"text": "x"},
    "recall": lambda _, __: {"messages": ["x"]},
    "search": lambda _, __: {"query": "safe"},
    "get": lambda one, _: {"id": one},
    "correct": lambda one, _: {"id": one, "text": "y", "confirm": True},
    "supersede": lambda one, other: {"memory": one, "supersedes": other},
    "forget": lambda one, _: {"id": one, "confirm": True},
    "observe": lambda one, _: {"ids": [one]},
    "why": lambda one, _: {"id": one},
    "link": lambda one, other: {"from_id": one, "to_id": other},
    "reviews": lambda _, __: {},
    "stats": lambda _, __: {},
}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"accept": "application/json, text/event-stream"}


def key_with(api: Api, *scopes: str) -> str:
    return tenants.issue_key(api.tenant.tenant_id, "-".join(scopes), scopes)


def test_every_tool_is_in_the_table() -> None:
    assert set(CALLS) == {tool.name for tool in own_tools.TOOLS}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_may_do_by_tools_what_its_scope_permits(api: Api, scope: str) -> None:
    key = key_with(api, scope)
    listed = {tool.name for tool in talk(api, lambda client: client.list_tools(), key=key).tools}
    permitted = {tool.name for tool in own_tools.TOOLS if tool.scope == scope}
    assert listed == permitted
    for name, arguments in CALLS.items():
        one, other = api.remember("one", "another")
        result = call(api, name, key=key, **arguments(one, other))
        assert result.is_error == (name not in permitted), (name, text_of(result))
        if result.is_error:
            needed = next(tool.scope for tool in own_tools.TOOLS if tool.name == name)
            assert f"requires a key with the scope '{needed}'" in text_of(result), name


def test_a_refused_call_changes_nothing(api: Api) -> None:
    one, other = api.remember("one", "another")
    key = key_with(api, "read", "maintain", "privacy", "admin")
    for name in ("remember", "correct", "supersede", "forget", "observe", "link"):
        refused(api, name, key=key, **CALLS[name](one, other))
    api.service.work()
    shown = done(api, "get", id=one)
    assert (shown["text"], shown["links"], shown["supersedes"], shown["access_count"]) == ("one", [], [], 0)
    assert done(api, "stats")["memories"]["active"] == 2


def test_the_result_of_a_review_needs_the_scope_ingest(api: Api) -> None:
    [memory_id] = api.remember("one")
    message = refused(api, "reviews", key=key_with(api, "read"), id=memory_id, result="passed")
    assert "requires a key with the scope 'ingest'" in message


def test_no_tool_reaches_another_tenant(api: Api) -> None:
    mine, linked = api.remember(SECRET, "another")
    other = api.service.tenant()
    for name, arguments in CALLS.items():
        result = call(api, name, key=other.key, **arguments(mine, linked))
        assert SECRET not in text_of(result), name
        if name in {"get", "correct", "forget", "why", "supersede"}:
            assert result.is_error, name
    api.service.work()
    shown = done(api, "get", id=mine)
    assert (shown["text"], shown["links"], shown["access_count"]) == (SECRET, [], 0)
    message = refused(api, "get", key=other.key, id=mine)
    nobodys = refused(api, "get", key=other.key, id=str(uuid4()))
    assert message.partition(" (request")[0] == nobodys.partition(" (request")[0]


def test_no_resource_or_prompt_reaches_another_tenant(api: Api) -> None:
    [mine] = api.remember(SECRET)
    other = api.service.tenant()

    async def read(client: Client) -> tuple[str, Any]:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"ebbing://memories/{mine}")
        return str(caught.value), await client.get_prompt("answer_with_memories", {"question": SECRET})

    message, prompt = talk(api, read, key=other.key)
    assert message.startswith("Not found: Memory not found")
    assert "No stored memory is relevant." in prompt.messages[0].content.text


def test_a_deletion_by_a_tool_is_audited_like_its_twin(api: Api) -> None:
    one, another = api.remember("one", "another")
    done(api, "forget", id=one, confirm=True)
    api.delete(f"/v1/memories/{another}")
    listed = api.get("/v1/privacy/audit", params={"limit": 2}).json()["entries"]
    events = [{name: entry[name] for name in ("action", "actor", "items", "subject")} for entry in listed]
    assert events[0] == events[1]
    assert (events[0]["action"], events[0]["actor"]) == ("erasure_requested", api.tenant.key_id)


# --- Requests without the library's client ---


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "has no API key"),
        ({"authorization": "Basic YTpi"}, "must begin with `Bearer`"),
        ({"authorization": "Bearer ebb_half"}, "copy the whole key"),
    ],
)
def test_a_request_without_a_valid_key_is_refused(api: Api, headers: dict[str, str], reason: str) -> None:
    answer = api.post("http://localhost/mcp", key=None, headers=headers | ACCEPT, json=RPC)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert reason in answer.json()["detail"]
    fields(answer)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_other_methods_are_refused_at_once(api: Api, method: str) -> None:
    answer = api.request(method, "http://localhost/mcp", headers=ACCEPT)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    fields(answer)


def test_a_host_must_be_allowed(api: Api) -> None:
    def status(url: str, **headers: str) -> int:
        return api.post(url, headers={**ACCEPT, **headers}, json=RPC).status_code

    assert status("http://localhost:8000/mcp") == 200
    assert status("http://127.0.0.1/mcp") == 200
    assert status("http://evil.example/mcp") == 421
    assert status("http://localhost/mcp", origin="http://evil.example") == 421
    assert status("http://localhost/mcp", origin="null") == 421
    assert status("http://localhost/mcp", origin="http://localhost:3000") == 200
    api.service.configure(mcp_hosts="api, other.example", public_url="https://ebbing.example.com/base")
    assert status("http://api:8000/mcp") == 200
    assert status("https://ebbing.example.com/mcp") == 200
    assert status("http://evil.example/mcp") == 421
    api.service.configure(mcp_hosts="*")
    assert status("http://evil.example/mcp", origin="http://evil.example") == 200


def test_the_endpoint_can_be_off(api: Api, service: Any) -> None:
    service.configure(mcp="off")
    with Api(service, api._routes) as closed:
        answer = closed.post("http://localhost/mcp", headers=ACCEPT, json=RPC)
        assert answer.status_code == 404
        fields(answer)


def test_bodies_have_the_limits_of_the_api(api: Api) -> None:
    api.service.configure(request_body_max_bytes=2048)
    answer = api.post("http://localhost/mcp", headers=ACCEPT, json=RPC | {"id": "x" * 3000})
    assert answer.status_code == 413
    assert fields(answer) == ["body"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'],
)
def test_a_malformed_message_is_a_clear_error(api: Api, body: bytes) -> None:
    for version in ({}, {"mcp-protocol-version": "2026-07-28"}):
        headers = ACCEPT | {"content-type": "application/json"} | version
        answer = api.post("http://localhost/mcp", headers=headers, content=body)
        assert answer.status_code < 500
        assert answer.json()["error"]["code"] < 0


# --- Hostile arguments ---

LONG = "s" * 40_000
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("remember", {}, "text is missing"),
    ("remember", {"text": ""}, "text must not be empty"),
    ("remember", {"text": "   "}, "text must not be blank"),
    ("remember", {"text": LONG}, "text is too long (value 40000, limit 32768)"),
    ("remember", {"text": "é" * 20_000}, "text is too long in bytes (value 40000, limit 32768)"),
    ("remember", {"text": "a\0b"}, "text contains a NUL character"),
    ("remember", {"text": 5}, "text must be a string"),
    ("remember", {"text": SECRET, "tag": ["x"]}, "Unknown field `tag`; did you mean `tags`?"),
    ("remember", {"text": SECRET, "kind": SECRET}, "kind isn't one of"),
    ("remember", {"text": SECRET, "salience": 2}, "salience is too large (value 2, limit 1)"),
    ("remember", {"text": SECRET, "tags": ["x"] * 65}, "tags is too long (value 65, limit 64)"),
    ("remember", {"text": SECRET, "occurred_at": "yesterday"}, "occurred_at must be a time"),
    ("remember", {"text": SECRET, "occurred_at": "2026-01-01T00:00:00"}, "occurred_at needs an offset"),
    ("remember", {"text": SECRET, "supersedes": ["x"]}, "supersedes[0] must be an id (a UUID)"),
    ("remember", {"text": SECRET, "keep_days": 0}, "keep_days is too small"),
    ("recall", {"messages": []}, "messages must not be empty"),
    ("recall", {"messages": [{"text": SECRET, "content": "y"}]}, "messages[0]"),
    ("recall", {"messages": [SECRET], "limit": 21}, "limit is too large (value 21, limit 20)"),
    ("search", {"query": "   "}, "query must be given"),
    ("search", {"query": "x", "limit": 0}, "limit is too small (value 0, limit 1)"),
    ("search", {"query": "x", "tiers": []}, "tiers must not be empty"),
    ("search", {"query": "x", "reinforce": True}, "Unknown field `reinforce`"),
    ("get", {"id": "../../v1/admin/keys"}, "id must be an id (a UUID)"),
    ("get", {"id": None}, "id must be an id (a UUID)"),
    ("correct", {"id": str(uuid4())}, "Nothing to change"),
    ("correct", {"id": str(uuid4()), "text": "  "}, "text must not be blank"),
    ("correct", {"id": str(uuid4()), "text": "x", "confirm": "yes"}, "confirm must be true or false"),
    ("forget", {"id": str(uuid4()), "confirm": 1}, "confirm must be true or false"),
    ("observe", {"ids": []}, "ids must not be empty"),
    ("observe", {"ids": [str(uuid4())] * 1001}, "ids is too long (value 1001, limit 1000)"),
    ("link", {"from_id": str(uuid4()), "to_id": str(uuid4()), "weight": float(2)}, "weight is too large"),
    ("link", {"from_id": str(uuid4()), "to_id": str(uuid4()), "kind": "a\0"}, "kind contains a NUL character"),
    ("reviews", {"id": str(uuid4())}, "result is missing"),
    ("reviews", {"result": "passed"}, "id is missing"),
    ("stats", {"tenant": "x"}, "Unknown field `tenant`"),
]


def test_hostile_arguments_get_clear_errors_that_quote_no_text(api: Api) -> None:
    async def send(client: Client) -> list[tuple[str, str, bool, str]]:
        answers = []
        for tool, arguments, expected in HOSTILE:
            result = await client.call_tool(tool, arguments)
            answers.append((tool, expected, bool(result.is_error), text_of(result)))
        return answers

    wrong = [
        (tool, expected, message)
        for tool, expected, failed, message in talk(api, send)
        if not failed or expected not in message or SECRET in message or "sss" in message
    ]
    assert wrong == []


def test_an_unknown_tool_resource_or_prompt_is_an_error_that_names_what_exists(api: Api) -> None:
    async def send(client: Client) -> list[str]:
        messages = []
        for work in (
            lambda: client.call_tool(SECRET, {}),
            lambda: client.read_resource("ebbing://memories/../stats"),
            lambda: client.read_resource("file:///etc/passwd"),
            lambda: client.get_prompt(SECRET, {}),
            lambda: client.get_prompt("answer_with_memories", {}),
            lambda: client.get_prompt("answer_with_memories", {"question": LONG}),
        ):
            with pytest.raises(MCPError) as caught:
                await work()
            messages.append(str(caught.value))
        return messages

    tool, *resources, prompt, arguments, long = talk(api, send)
    assert "remember, recall" in tool
    assert all("ebbing://memories/{id}" in message for message in resources)
    assert "answer_with_memories" in prompt
    assert "expected question" in arguments
    assert "messages[0] is too long" in long
    assert SECRET not in tool + prompt
    assert "sss" not in long


def test_an_unexpected_failure_shows_and_logs_no_text(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    [memory_id] = api.remember(SECRET)

    async def fail(*_: object) -> dict[str, Any]:
        raise RuntimeError(SECRET)

    tool = next(tool for tool in own_tools.TOOLS if tool.name == "get")
    monkeypatch.setitem(tool.__dict__, "run", fail)
    with structlog.testing.capture_logs(processors=[logs._only_type_of_errors]) as lines:
        assert refused(api, "get", id=memory_id) == "The tool failed. The service's log names the cause."
    [line] = [line for line in lines if line["event"] == "mcp_failed"]
    assert (line["tool"], line["error"]) == ("get", "RuntimeError")
    assert SECRET not in str(lines)
