"""Keys, tenants, scopes, hosts and hostile arguments: what a tool may do is what its key may do over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog
import yaml
from mcp import Client
from mcp.shared.exceptions import MCPError

from app import logs
from app.domain.policy.api_keys import SCOPES
from app.mcp import own_tools, tool_sets
from app.services.tenants import tenants
from tests.api.caller import Api, fields
from tests.mcp.calls import CALLS, OWN, tools
from tests.mcp.clients import call, done, refused, talk, text_of
from tests.mcp.conftest import Offer

SECRET = "the safe's number is 4711"
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MEMORY = "ebbing://memories/{}"
ACCEPT = {"accept": "application/json, text/event-stream"}


def key_with(api: Api, *scopes: str) -> str:
    return tenants.issue_key(api.tenant.tenant_id, "-".join(scopes), scopes)


KEYS = [*((scope,) for scope in SCOPES), ("read", "ingest"), ("read", "maintain")]


def stored(api: Api, *texts: str) -> list[str]:
    """Store memories while a worker runs, and return their ids."""
    answer = api.post("/v1/memories", json=[{"text": text} for text in texts], headers={"prefer": "wait=300"})
    assert answer.status_code == 200, answer.text
    ids: list[str] = answer.json()["ids"]
    return ids


def content_of(api: Api) -> dict[str, tuple[str, int, list[str]]]:
    """Return the text, the number of uses and the tags of each memory."""
    memories = api.get("/v1/memories").json()["memories"]
    return {memory["id"]: (memory["text"], memory["access_count"], memory["tags"]) for memory in memories}


def test_every_tool_is_in_the_table() -> None:
    assert CALLS.keys() == tool_sets.SETS.keys()
    for tool_set, calls in CALLS.items():
        assert calls.keys() == tools(tool_set).keys()


@pytest.mark.parametrize("tool_set", CALLS)
def test_a_key_may_do_by_tools_what_its_scopes_permit(offer: Offer, tool_set: str) -> None:
    api, offered = offer(tool_set), tools(tool_set)
    for given in KEYS:
        api.change_tenant()
        key = key_with(api, *given)
        listed = {tool.name for tool in talk(api, lambda client: client.list_tools(), key=key).tools}
        assert listed == {name for name, tool in offered.items() if tool.scopes <= set(given)}, given
        one, other = stored(api, "one", "another")
        for name, arguments in CALLS[tool_set].items():
            result = call(api, name, key=key, **arguments(one, other))
            assert result.is_error == (name not in listed), (given, name, text_of(result))
            if result.is_error:
                assert "requires a key with the scope" in text_of(result), name


def test_a_refused_call_changes_nothing(api: Api) -> None:
    one, other = api.remember("one", "another")
    key = key_with(api, "read", "maintain", "privacy", "admin")
    for name in ("remember", "correct", "supersede", "forget", "observe", "link"):
        refused(api, name, key=key, **OWN[name](one, other))
    api.service.work()
    shown = done(api, "get", id=one)
    assert (shown["text"], shown["links"], shown["supersedes"], shown["access_count"]) == ("one", [], [], 0)
    assert done(api, "stats")["memories"]["active"] == 2


def test_the_result_of_a_review_needs_the_scope_ingest(api: Api) -> None:
    [memory_id] = api.remember("one")
    message = refused(api, "reviews", key=key_with(api, "read"), id=memory_id, result="passed")
    assert "requires a key with the scope 'ingest'" in message


BY_ID = {"get", "correct", "forget", "why", "supersede"}
"""Own tools that fail for an id of another tenant; others of the own set ignore it."""


def answers_of(api: Api, tool_set: str, key: str, one: str, other: str) -> dict[str, tuple[bool, str]]:
    """Call every tool and read every resource and prompt with this key, and return what failed and all texts."""

    async def ask(client: Client) -> dict[str, tuple[bool, str]]:
        found = {}
        for name, arguments in CALLS[tool_set].items():
            result = await client.call_tool(name, arguments(one, other))
            found[name] = (bool(result.is_error), text_of(result))
        for uri in [*(str(listed.uri) for listed in (await client.list_resources()).resources), MEMORY.format(one)]:
            try:
                found[uri] = (False, str((await client.read_resource(uri)).contents))
            except MCPError as error:
                found[uri] = (True, str(error))
        for prompt in (await client.list_prompts()).prompts:
            given = {argument.name: "the safe's number?" for argument in prompt.arguments or ()}
            found[prompt.name] = (False, str((await client.get_prompt(prompt.name, given)).messages))
        return found

    return talk(api, ask, key=key)


@pytest.mark.parametrize("tool_set", CALLS)
def test_no_tool_resource_or_prompt_reaches_another_tenant(offer: Offer, tool_set: str) -> None:
    api = offer(tool_set)
    mine, linked = stored(api, SECRET, "another")
    secret = {"name": "Safe", "entityType": "thing", "observations": [SECRET]}
    if tool_set == "knowledge_graph":
        done(api, "create_entities", entities=[secret])
    if tool_set == "files":
        assert not call(api, "create", path="/memories/safe", file_text=SECRET).is_error
    before = content_of(api)
    other = api.service.tenant(scopes=SCOPES)
    found = answers_of(api, tool_set, other.key, mine, linked)
    assert [name for name, (_, text) in found.items() if SECRET in text] == []
    assert {name for name in BY_ID & found.keys() if not found[name][0]} == set()
    assert found[MEMORY.format(mine)][0]
    if tool_set == "mnemex":
        for name in ("touch_memory", "promote_memory", "create_relation"):
            assert '"success":false' in found[name][1], name
        assert '"reinforced":false' in found["observe_memory_usage"][1]
    if tool_set == "files":
        assert call(api, "view", key=other.key, path="/memories/safe").is_error
    [last] = stored(api, "a last one")  # is processed after everything that was accepted before
    assert content_of(api) == before | {last: ("a last one", 0, [])}
    assert api.get("/v1/links", params={"memory": mine}).json()["links"] == []


def test_an_id_of_another_tenant_looks_like_an_unknown_one(api: Api) -> None:
    [mine] = api.remember(SECRET)
    other = api.service.tenant()
    message = refused(api, "get", key=other.key, id=mine)
    nobodys = refused(api, "get", key=other.key, id=str(uuid4()))
    assert message.partition(" (request")[0] == nobodys.partition(" (request")[0]


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


def test_the_examples_of_deployments_allow_the_names_of_their_service(api: Api) -> None:
    root = Path(__file__).resolve().parents[2]
    compose = yaml.safe_load((root / "docker-compose.yml").read_text())["services"]["api"]["environment"]
    cluster = yaml.safe_load((root / "ops/kubernetes/base/config.yaml").read_text())["data"]
    by_compose = compose["EBBING_MCP_HOSTS"].removeprefix("${EBBING_MCP_HOSTS:-").removesuffix("}")

    def status(hosts: str, url: str, **more: str) -> int:
        api.service.configure(mcp_hosts=hosts, host="0.0.0.0", **more)  # noqa: S104 - as in the examples
        return api.post(url, headers=ACCEPT, json=RPC).status_code

    assert status(by_compose, "http://api:8000/mcp") == 200
    assert status("", "http://api:8000/mcp") == 421
    for name in ("api", "api.ebbing", "api.ebbing.svc", "api.ebbing.svc.cluster.local"):
        assert status(cluster["EBBING_MCP_HOSTS"], f"http://{name}:8000/mcp") == 200, name
    assert status("", "https://ebbing.example.com/mcp") == 421
    assert status("", "https://ebbing.example.com/mcp", public_url="https://ebbing.example.com") == 200


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
