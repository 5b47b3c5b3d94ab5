"""Every tool of Ebbing's own set over HTTP, in both forms of the protocol."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client
from mcp_types import TextResourceContents

from app.mcp import own_tools
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.mcp.clients import MODES, VERSIONS, Mode, call, done, refused, talk, text_of


def remember(api: Api, text: str, mode: Mode = "auto", **fields: Any) -> str:
    memory_id: str = done(api, "remember", mode=mode, text=text, **fields)["id"]
    api.service.work()
    return memory_id


@pytest.mark.parametrize("mode", MODES)
def test_each_tool_does_its_work(api: Api, mode: Mode) -> None:
    tea = remember(api, "Ann drinks green tea in the morning.", mode, subject="ann", tags=["drinks"])
    coffee = remember(api, "Ann drinks coffee in the morning.", mode, subject="ann", kind="semantic")
    found = done(api, "search", mode=mode, query="What does Ann drink?", subject="ann")
    assert {hit["id"] for hit in found["results"]} == {tea, coffee}
    recalled = done(api, "recall", mode=mode, messages=["What does Ann drink in the morning?"])
    assert set(recalled["ids"]) <= {tea, coffee}
    assert recalled["ids"]
    shown = done(api, "get", mode=mode, id=tea)
    assert (shown["text"], shown["tags"], shown["access_count"]) == (
        "Ann drinks green tea in the morning.",
        ["drinks"],
        0,
    )
    assert done(api, "observe", mode=mode, ids=[tea]) == {"accepted": 1}
    api.service.work()
    assert done(api, "get", mode=mode, id=tea)["access_count"] == 1
    assert done(api, "why", mode=mode, id=tea)["tier"] == "active"
    assert done(api, "link", mode=mode, from_id=tea, to_id=coffee, kind="contrast") == {"added": 1, "updated": 0}
    assert done(api, "get", mode=mode, id=tea)["links"] == [
        {"from": tea, "to": coffee, "kind": "contrast", "weight": 1.0}
    ]
    made = done(api, "supersede", mode=mode, memory=tea, supersedes=coffee)
    assert (made["status"], made["memory"], made["supersedes"]) == ("active", tea, coffee)
    found = done(api, "search", mode=mode, query="What does Ann drink?")
    assert [hit["id"] for hit in found["results"]] == [tea]
    assert done(api, "reviews", mode=mode, by="due")["recorded"] is None
    passed = done(api, "reviews", mode=mode, id=tea, result="passed")
    assert passed["recorded"]["changed"] is True
    assert done(api, "stats", mode=mode)["memories"]["active"] == 2


@pytest.mark.parametrize("mode", MODES)
def test_destructive_tools_only_preview_unless_confirmed(api: Api, mode: Mode) -> None:
    [memory_id] = api.remember({"text": "Bob lives in Graz.", "subject": "bob", "salience": 0.4})
    preview = done(api, "correct", mode=mode, id=memory_id, text="Bob lives in Linz.", salience=0.9)
    assert preview["before"] == {"text": "Bob lives in Graz.", "salience": 0.4}
    assert preview["after"] == {"text": "Bob lives in Linz.", "salience": 0.9}
    assert (preview["changed"], done(api, "get", id=memory_id)["text"]) == (False, "Bob lives in Graz.")
    changed = done(api, "correct", mode=mode, id=memory_id, text="Bob lives in Linz.", subject=None, confirm=True)
    assert (changed["changed"], changed["next_step"]) == (True, None)
    stored = done(api, "get", mode=mode, id=memory_id)
    assert (stored["text"], stored["subject"]) == ("Bob lives in Linz.", None)
    preview = done(api, "forget", mode=mode, id=memory_id)
    assert (preview["forgotten"], preview["text"], preview["holds"]) == (False, "Bob lives in Linz.", [])
    assert "confirm=true" in preview["next_step"]
    deleted = done(api, "forget", mode=mode, id=memory_id, confirm=True)
    assert (deleted["forgotten"], deleted["text"]) == (True, None)
    assert deleted["erasure_id"]
    assert "Not found" in refused(api, "get", mode=mode, id=memory_id)


def test_a_preview_names_legal_holds_and_the_deletion_is_refused(api: Api) -> None:
    [memory_id] = api.remember({"text": "held", "subject": "ann"})
    placed = api.post("/v1/privacy/holds", json={"subject": "ann", "reason": "a claim"}).json()
    preview = done(api, "forget", id=memory_id)
    assert preview["holds"] == [placed["id"]]
    assert "hold" in preview["next_step"]
    assert "hold" in refused(api, "forget", id=memory_id, confirm=True)
    assert done(api, "get", id=memory_id)["text"] == "held"


def test_a_replaced_fact_is_superseded_when_it_is_stored(api: Api) -> None:
    [older] = api.remember("The office is in Graz.")
    newer = remember(api, "The office is in Linz.", supersedes=[older])
    assert done(api, "get", id=newer)["supersedes"] == [older]
    assert done(api, "get", id=older)["superseded_by"] == [newer]


def test_a_tools_key_neither_supersedes_nor_reverts_what_a_person_stated(api: Api) -> None:
    user, tool = (tenants.issue_key(api.tenant.tenant_id, source, source=source) for source in ("user", "tool"))

    def said(key: str, text: str, **fields: Any) -> str:
        memory_id: str = done(api, "remember", key=key, text=text, **fields)["id"]
        api.service.work()
        return memory_id

    graz = said(user, "The office is in Graz.")
    linz = said(user, "The office is in Linz.", supersedes=[graz])
    wien = said(tool, "The office is in Vienna.", supersedes=[linz])
    made = done(api, "supersede", key=tool, memory=wien, supersedes=linz)
    assert made["status"] == "proposed"
    assert "supersedes the newer one" in refused(api, "supersede", key=tool, memory=graz, supersedes=linz)
    assert done(api, "get", id=graz)["superseded_by"] == [linz]
    assert done(api, "get", id=linz)["superseded_by"] == []
    [row] = [each for each in api.get("/v1/supersessions").json()["supersessions"] if each["status"] == "proposed"]
    assert api.post(f"/v1/supersessions/{row['id']}/reject", key=user).json()["status"] == "rejected"
    assert done(api, "supersede", key=tool, memory=wien, supersedes=linz)["status"] == "rejected"
    assert done(api, "supersede", key=user, memory=wien, supersedes=linz)["status"] == "active"


def test_searches_and_recalls_by_tools_strengthen_nothing(api: Api) -> None:
    [memory_id] = api.remember("Ann drinks green tea.")
    done(api, "search", query="green tea")
    done(api, "recall", messages=[{"text": "Does Ann drink green tea?", "role": "user"}])
    api.service.work()
    assert done(api, "get", id=memory_id)["access_count"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_lists_describe_every_tool_completely(api: Api, mode: Mode) -> None:
    tools = talk(api, lambda client: client.list_tools(), mode=mode).tools
    assert [tool.name for tool in tools] == [
        *("remember", "recall", "search", "get", "correct", "supersede"),
        *("forget", "observe", "why", "link", "reviews", "stats"),
    ]
    for tool in tools:
        hints = tool.annotations
        assert hints is not None
        assert None not in {hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint}
        assert hints.open_world_hint is False
        assert tool.description
        assert tool.title
        fields = tool.input_schema["properties"]
        assert hints.destructive_hint == ("confirm" in fields), tool.name
        assert tool.input_schema["additionalProperties"] is False
        assert all(field.get("description") for field in fields.values()), tool.name
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"
    reading = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
    assert reading == {"recall", "search", "get", "why", "stats"}


@pytest.mark.parametrize("mode", MODES)
def test_a_memory_is_a_resource(api: Api, mode: Mode) -> None:
    [memory_id] = api.remember("Ann drinks green tea.")

    async def read(client: Client) -> tuple[Any, Any, Any]:
        templates = await client.list_resource_templates()
        memory = await client.read_resource(f"ebbing://memories/{memory_id}")
        [listed] = (await client.list_resources()).resources
        return templates.resource_templates, memory.contents, (await client.read_resource(listed.uri)).contents

    [template], [memory], [counts] = talk(api, read, mode=mode)
    assert template.uri_template == "ebbing://memories/{id}"
    assert isinstance(memory, TextResourceContents)
    assert json.loads(memory.text)["text"] == "Ann drinks green tea."
    assert json.loads(counts.text)["memories"]["active"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_prompts_bring_memories(api: Api, mode: Mode) -> None:
    [memory_id] = api.remember("Ann drinks green tea in the morning.")

    async def ask(client: Client) -> tuple[list[str], Any, Any]:
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        given = {"question": "What does Ann drink in the morning?"}
        return names, await client.get_prompt(names[0], given), await client.get_prompt(names[1], {})

    names, answer, review = talk(api, ask, mode=mode)
    assert names == ["answer_with_memories", "review_session"]
    assert "green tea" in answer.messages[0].content.text
    assert memory_id in answer.messages[0].content.text
    assert "No memory is due" in review.messages[0].content.text


@pytest.mark.parametrize("mode", MODES)
def test_both_forms_of_the_protocol_are_served(api: Api, mode: Mode) -> None:
    async def read_version(client: Client) -> str:
        await client.list_tools()
        return client.protocol_version

    assert talk(api, read_version, mode=mode) == VERSIONS[mode]


def test_the_text_of_a_result_is_its_structure_as_json(api: Api) -> None:
    result = call(api, "stats")
    assert json.loads(text_of(result)) == result.structured_content


def test_the_message_of_a_refusal_has_the_id_of_its_request(api: Api) -> None:
    message = refused(api, "get", id=str(uuid4()))
    assert message.startswith("Not found: Memory not found (request ")


def test_the_page_has_every_tool_with_its_scope() -> None:
    page = (Path(__file__).resolve().parents[2] / "ops" / "mcp.md").read_text()
    page = page.partition("## The mnemex tools")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\w+)`", page, flags=re.MULTILINE)
    assert rows == [(tool.name, tool.scope) for tool in own_tools.TOOLS]
