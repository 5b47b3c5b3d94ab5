"""`EbbingMemoryTool` with the real SDK: its texts are those of the SDK's own tool on a folder."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import BetaLocalFilesystemMemoryTool, ToolError

from ebbing_client import AsyncEbbing, Ebbing
from ebbing_client.adapters.anthropic import AsyncEbbingMemoryTool, EbbingMemoryTool

PAGE = Path(__file__).resolve().parents[2] / "client" / "docs" / "anthropic.md"
SESSION: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/notes.md", "file_text": "Tea\nBread\nTea\n"},
    {"command": "create", "path": "/memories/notes.md", "file_text": "other"},
    {"command": "create", "path": "/memories/food/bread/rye.md", "file_text": "x" * 1536},
    {"command": "create", "path": "/memories/food/tea.md", "file_text": "green\n"},
    {"command": "create", "path": "/memories/.hidden", "file_text": "unseen"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/food"},
    {"command": "view", "path": "/memories/notes.md"},
    {"command": "view", "path": "/memories/notes.md", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/notes.md", "view_range": [2, -1]},
    {"command": "view", "path": "/memories/none.md"},
    {"command": "str_replace", "path": "/memories/notes.md", "old_str": "Bread", "new_str": "Rye bread\nand butter"},
    {"command": "str_replace", "path": "/memories/notes.md", "old_str": "Tea", "new_str": "Milk"},
    {"command": "str_replace", "path": "/memories/notes.md", "old_str": "Coffee", "new_str": "Milk"},
    {"command": "str_replace", "path": "/memories/none.md", "old_str": "a", "new_str": "b"},
    {"command": "insert", "path": "/memories/notes.md", "insert_line": 0, "insert_text": "First\n"},
    {"command": "insert", "path": "/memories/notes.md", "insert_line": 2, "insert_text": "Between"},
    {"command": "insert", "path": "/memories/notes.md", "insert_line": 99, "insert_text": "Never"},
    {"command": "insert", "path": "/memories/none.md", "insert_line": 0, "insert_text": "Never"},
    {"command": "view", "path": "/memories/notes.md"},
    {"command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/list/all.md"},
    {"command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/x.md"},
    {"command": "rename", "old_path": "/memories/list/all.md", "new_path": "/memories/food/tea.md"},
    {"command": "view", "path": "/memories/list/all.md"},
    {"command": "delete", "path": "/memories/none.md"},
    {"command": "delete", "path": "/memories"},
    {"command": "delete", "path": "/memories/food"},
    {"command": "delete", "path": "/memories/list/all.md"},
    {"command": "delete", "path": "/memories/.hidden"},
]
OUTSIDE = ("/etc/passwd", "/memories/../etc/passwd", "/memories/%2e%2e/etc/passwd", "../secret")


@pytest.fixture
def client() -> Iterator[Ebbing]:
    with Ebbing(os.environ["EBBING_API_URL"], os.environ["EBBING_API_KEY"], timeout=120) as opened:
        yield opened
        EbbingMemoryTool(opened)
        for memory in opened.memories(tag="explicitly_saved"):
            opened.delete(memory.id)


def outcome(tool: Any, command: dict[str, Any]) -> tuple[str, str]:
    try:
        return ("done", tool.call(command))
    except ToolError as error:
        return ("failed", str(error))


def without_sizes_of_directories(text: str) -> str:
    """Return a text without the sizes of directories, which file systems count differently."""
    return re.sub(r"^\S+\t(/memories(?:.*/)?)$", r"\t\1", text, flags=re.MULTILINE)


def test_a_session_has_the_texts_of_the_sdks_own_tool(client: Ebbing, tmp_path: Path) -> None:
    ours, theirs = EbbingMemoryTool(client), BetaLocalFilesystemMemoryTool(str(tmp_path))
    assert ours.to_dict() == theirs.to_dict() == {"type": "memory_20250818", "name": "memory"}
    for command in SESSION:
        ended, text = outcome(ours, command)
        expected, known = outcome(theirs, command)
        text, known = without_sizes_of_directories(text), without_sizes_of_directories(known)
        assert (ended, text) == (expected, known), command


def test_paths_outside_are_refused(client: Ebbing) -> None:
    tool = EbbingMemoryTool(client)
    for path in OUTSIDE:
        ended, text = outcome(tool, {"command": "view", "path": path})
        assert (ended, "path" in text, "passwd" in text) == ("failed", True, False), path
    ended, text = outcome(tool, {"command": "create", "path": "/memories/big", "file_text": "x" * 32_769})
    assert ended == "failed"
    assert "32768" in text


def test_the_asyncio_tool_runs_the_same_commands(client: Ebbing) -> None:
    async def run() -> list[str]:
        async with AsyncEbbing(os.environ["EBBING_API_URL"], os.environ["EBBING_API_KEY"], timeout=120) as opened:
            tool = AsyncEbbingMemoryTool(opened, cache_control={"type": "ephemeral"})
            assert tool.to_dict()["cache_control"] == {"type": "ephemeral"}
            path = {"path": "/memories/a.md"}
            texts = [await tool.call({"command": "create", **path, "file_text": "one\n"})]
            texts.append(await tool.call({"command": "insert", **path, "insert_line": 1, "insert_text": "two"}))
            edit = {"command": "str_replace", **path, "old_str": "two", "new_str": "three"}
            texts.append((await tool.call(edit)).splitlines()[-2])
            moved = {"command": "rename", "old_path": path["path"], "new_path": "/memories/b.md"}
            texts.append(await tool.call(moved))
            texts.append((await tool.call({"command": "view", "path": "/memories/b.md"})).splitlines()[1])
            texts.append(await tool.call({"command": "delete", "path": "/memories/b.md"}))
            with pytest.raises(ToolError, match="does not exist"):
                await tool.call({"command": "view", "path": "/memories/b.md"})
            return texts

    assert asyncio.run(run()) == [
        "File created successfully at: /memories/a.md",
        "The file /memories/a.md has been edited.",
        "     2\tthree",
        "Successfully renamed /memories/a.md to /memories/b.md",
        "     1\tone",
        "Successfully deleted /memories/b.md",
    ]


@contextlib.contextmanager
def scripted_model(*contents: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a model that answers with these contents one after the other; yield its address and the requests."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            content = contents[len(requests) - 1]
            reason = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
            message = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": content}
            message |= {"stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
            body = json.dumps(message).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use(**command: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": "t", "name": "memory", "input": command}]


def test_the_program_of_the_page_works(client: Ebbing, monkeypatch: pytest.MonkeyPatch) -> None:
    program, expected = re.findall(r"^```(?:python|text)\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    said = "I have noted that you like rye bread."
    script = [
        use(command="create", path="/memories/food.md", file_text="Likes rye bread.\n"),
        use(command="view", path="/memories/../etc"),
        [{"type": "text", "text": said}],
    ]
    with scripted_model(*script) as (url, requests), contextlib.redirect_stdout(io.StringIO()) as printed:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102 - the page's own program
    assert printed.getvalue() == expected
    first, second = (request["messages"][-1]["content"][0] for request in requests[1:])
    assert first["content"] == "File created successfully at: /memories/food.md"
    assert (second["is_error"], "path" in str(second["content"])) == (True, True)
