"""`ebbing mcp` as a client starts it: a process that speaks over standard input and output with a running service."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from app.embedded import free_ports
from app.mcp import own_tools
from tests.installation import make_tenant
from tests.mcp.calls import CALLS
from tests.mcp.clients import MODES, VERSIONS, Mode, text_of
from tests.processes import Processes
from tests.servers import Servers, logical_database, new_database
from tests.waiting import PATIENCE_SECONDS

FIRST_LOGICAL_DATABASE: Final = 4
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mcp-stdio")]


@dataclass
class Running:
    """A running service with the key of a tenant."""

    url: str
    key: str

    @asynccontextmanager
    async def agent(self, errors: Path, mode: Mode = "auto", tools: str = "ebbing") -> AsyncIterator[Client]:
        """A client that starts `ebbing mcp`, whose standard error goes into a file."""
        environment = {"EBBING_API_URL": self.url, "EBBING_API_KEY": self.key, "PATH": os.environ["PATH"]}
        environment["EBBING_MCP_TOOLS"] = tools
        command = StdioServerParameters(command=sys.executable, args=["-m", "app.cli", "mcp"], env=environment)
        with errors.open("w") as log:
            async with Client(stdio_client(command, errlog=log), mode=mode) as client:
                yield client


@pytest.fixture(scope="module")
def running(
    servers: Servers, template: str, logged_redis: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("mcp")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with new_database(servers.database_url, template) as database_url:
        _, key = make_tenant(database_url, "agents")
        environment = {
            "EBBING_HOME": str(folder),
            "EBBING_DATABASE_URL": database_url,
            "EBBING_REDIS_URL": logical_database(servers.redis_url, FIRST_LOGICAL_DATABASE),
            "EBBING_PORT": str(port),
        }
        processes = Processes(folder, environment)
        try:
            processes.start("api", "api")
            for lane in ("ingest", "embed"):
                processes.start(lane, "worker", "--lane", lane)
            processes.wait_until_answers("api", f"{url}/readyz")
            yield Running(url, key)
        finally:
            processes.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_process_runs_every_tool(running: Running, tmp_path: Path, mode: Mode) -> None:
    called: set[str] = set()

    async def talk() -> list[str]:
        async with running.agent(tmp_path / "errors", mode) as client:

            async def done(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments, read_timeout_seconds=PATIENCE_SECONDS)
                assert not result.is_error, f"{tool}: {text_of(result)}"
                called.add(tool)
                assert result.structured_content is not None
                return dict(result.structured_content)

            one = (await done("remember", text=f"Ann drinks green tea ({mode})."))["id"]
            stored = await done("remember", text=f"Ann drank coffee before ({mode}).")
            assert stored["searchable"] is True
            other = stored["id"]
            assert one in {hit["id"] for hit in (await done("search", query="green tea"))["results"]}
            assert one in (await done("recall", messages=[f"Does Ann drink green tea ({mode})?"]))["ids"]
            await done("observe", ids=[one])
            assert (await done("why", id=one))["tier"] == "active"
            assert (await done("link", from_id=one, to_id=other))["added"] == 1
            assert (await done("supersede", memory=one, supersedes=other))["status"] == "active"
            assert (await done("get", id=one))["supersedes"] == [other]
            assert (await done("correct", id=one, text="Ann drinks tea.", confirm=True))["changed"] is True
            assert (await done("reviews"))["recorded"] is None
            assert (await done("forget", id=other, confirm=True))["forgotten"] is True
            assert (await done("stats"))["dead_letters"] == 0
            resource = await client.read_resource(f"ebbing://memories/{one}")
            assert json.loads(resource.contents[0].text)["text"] == "Ann drinks tea."  # type: ignore[union-attr]  # text
            assert client.protocol_version == VERSIONS[mode]
            prompt = await client.get_prompt("review_session", {})
            assert prompt.messages
            refusal = await client.call_tool("get", {"id": other})
            assert text_of(refusal).startswith("Not found: Memory not found (request ")
            return [tool.name for tool in (await client.list_tools()).tools]

    listed = asyncio.run(asyncio.wait_for(talk(), PATIENCE_SECONDS))
    assert called == set(listed) == {tool.name for tool in own_tools.TOOLS}
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool_set", ["mnemex", "knowledge_graph", "files"])
def test_a_process_offers_the_set_of_the_settings(running: Running, tmp_path: Path, tool_set: str, mode: Mode) -> None:
    async def talk() -> dict[str, str]:
        async with running.agent(tmp_path / "own errors") as own:
            facts = [f"the safe is green ({mode})", f"the key is under the mat ({mode})"]
            stored = [await own.call_tool("remember", {"text": fact}) for fact in facts]
        one, other = [str((result.structured_content or {})["id"]) for result in stored]
        async with running.agent(tmp_path / "errors", mode, tool_set) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == CALLS[tool_set].keys()
            texts: dict[str, str] = {}
            for name, arguments in CALLS[tool_set].items():
                result = await client.call_tool(name, arguments(one, other), read_timeout_seconds=PATIENCE_SECONDS)
                assert not result.is_error, (name, text_of(result))
                texts[name] = text_of(result)
            return texts

    texts = asyncio.run(asyncio.wait_for(talk(), PATIENCE_SECONDS))
    name, expected = {
        "mnemex": ("open_memories", f"the safe is green ({mode})"),
        "knowledge_graph": ("search_nodes", '{"name":"Ann","entityType":"person"'),
        "files": ("delete", "Successfully deleted /memories/list.md"),
    }[tool_set]
    assert expected in texts[name]
    assert (tmp_path / "errors").read_text() == ""


def test_a_service_that_is_down_is_a_failed_tool_and_not_a_failed_process(running: Running, tmp_path: Path) -> None:
    [port] = free_ports(1)
    down = Running(f"http://127.0.0.1:{port}", running.key)

    async def talk() -> tuple[str, int]:
        async with down.agent(tmp_path / "errors") as client:
            tools = (await client.list_tools()).tools
            return text_of(await client.call_tool("stats", {}, read_timeout_seconds=PATIENCE_SECONDS)), len(tools)

    message, tools = asyncio.run(asyncio.wait_for(talk(), PATIENCE_SECONDS))
    assert "can't be reached" in message
    assert running.key not in message
    assert tools == len(own_tools.TOOLS)


def test_the_program_of_the_page_works_over_http(running: Running) -> None:
    page = Path(__file__).resolve().parents[2] / "ops" / "mcp.md"
    [program] = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    environment = {"EBBING_API_URL": running.url, "EBBING_API_KEY": running.key, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert "My son Max is allergic to peanuts." in done.stdout
