"""The library's client in the same process: every tool of every set, in both forms of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.api.caller import Api
from tests.mcp.calls import ANN, CALLS, NOBODY, tools
from tests.mcp.clients import MODES, VERSIONS, Mode, talk_in_memory, text_of
from tests.mcp.conftest import Offer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool_set", CALLS)
def test_every_tool_runs(offer: Offer, tool_set: str, mode: Mode) -> None:
    api = offer(tool_set)
    one, other = stored(api)

    async def run(client: Client) -> dict[str, Any]:
        assert {tool.name for tool in (await client.list_tools()).tools} == tools(tool_set).keys()
        results = {}
        for name, arguments in CALLS[tool_set].items():
            result = await client.call_tool(name, arguments(one, other))
            assert not result.is_error, (name, text_of(result))
            is_text = tools(tool_set)[name].result is None
            assert is_text or json.loads(text_of(result)) == result.structured_content, name
            results[name] = text_of(result) if is_text else result.structured_content
        assert client.protocol_version == VERSIONS[mode]
        return results

    results = talk_in_memory(api, tool_set, run, mode=mode)
    if tool_set == "ebbing":
        assert (results["get"]["text"], results["correct"]["changed"], results["link"]["added"]) == ("safe", True, 1)
        assert (results["supersede"]["supersedes"], results["forget"]["forgotten"]) == (other, True)
    elif tool_set == "mnemex":
        assert {name: results[name]["success"] for name in ("save_memory", "touch_memory", "create_relation")} == {
            "save_memory": True,
            "touch_memory": True,
            "create_relation": True,
        }
        assert results["open_memories"]["memories"][0]["id"] == one
    elif tool_set == "knowledge_graph":
        assert results["read_graph"]["entities"][0] == ANN | {"observations": [*ANN["observations"], "Has a dog."]}
        assert results["delete_entities"]["message"] == "3 memories deleted"
    else:
        assert results["str_replace"].endswith("     1\tMilk\n     2\t")
        assert results["delete"] == "Successfully deleted /memories/list.md"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool_set", CALLS)
def test_resources_and_prompts_of_every_set_can_be_read(offer: Offer, tool_set: str, mode: Mode) -> None:
    api = offer(tool_set)
    one, _ = stored(api)

    async def read(client: Client) -> tuple[dict[str, Any], list[str], str]:
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        found = {uri: json.loads((await client.read_resource(uri)).contents[0].text) for uri in [*listed, memory]}  # type: ignore[union-attr]  # text
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"ebbing://memories/{NOBODY}")
        return found, prompts, str(caught.value)

    memory = f"ebbing://memories/{one}"
    found, prompts, refusal = talk_in_memory(api, tool_set, read, mode=mode)
    assert found[memory]["text"] == "safe"
    assert found["ebbing://stats"]["memories"]["active"] == 2
    assert found.get("memory://knowledge-graph") == (
        {"entities": [], "relations": []} if tool_set == "knowledge_graph" else None
    )
    assert prompts == (["answer_with_memories", "review_session"] if tool_set == "ebbing" else [])
    assert refusal.startswith("Not found")


def stored(api: Api) -> list[str]:
    answer = api.post("/v1/memories", json=[{"text": "safe"}, {"text": "another"}], headers={"prefer": "wait=300"})
    assert answer.status_code == 200, answer.text
    ids: list[str] = answer.json()["ids"]
    return ids
