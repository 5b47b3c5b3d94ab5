"""`ops/compat.md`: its requests are sent, and its function answers a model's call."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.caller import Api

PAGE = Path(__file__).resolve().parents[3] / "ops" / "compat.md"
URL = "http://test"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_requests_of_the_page_are_answered(theirs: Api) -> None:
    commands = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("curl ")]
    assert len(commands) == 8
    for command in commands:
        filled = command.replace("$URL", URL).replace("$KEY", theirs.tenant.key)
        words = shlex.split(filled)[1:]
        method, path = "GET", ""
        given: dict[str, Any] = {}
        while words:
            word = words.pop(0)
            if word == "-X":
                method = words.pop(0)
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                given.setdefault("headers", {})[name.lower()] = value
            elif word == "-d":
                method, given["json"] = "POST", json.loads(words.pop(0))
            else:
                path = word.removeprefix(URL)
        answer = theirs.request(method, path, key=None, **given)
        assert answer.status_code == 200, f"{command}: {answer.text}"
    listed = theirs.post("/v1/files/view", json={"path": "/memories"}).json()
    assert listed["content"].endswith("/memories/ann.md")


def test_the_function_of_the_page_answers_a_call(theirs: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(url: str, **given: Any) -> httpx.Response:
        assert given.pop("timeout") > 0
        return theirs.post(url.removeprefix(URL), key=None, **given)

    monkeypatch.setattr(httpx, "post", post)
    [code] = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the example of the page
    key = theirs.tenant.key

    def run(**given: Any) -> dict[str, Any]:
        result: dict[str, Any] = names["run_memory_tool"]({"id": "toolu_1", "input": given}, URL, key)
        assert (result.pop("type"), result.pop("tool_use_id")) == ("tool_result", "toolu_1")
        return result

    create = {"command": "create", "path": "/memories/a", "file_text": "tea"}
    assert run(**create) == {"content": "File created successfully at: /memories/a", "is_error": False}
    assert run(**create) == {"content": "File /memories/a already exists", "is_error": True}
    refused = run(command="view", path="/memories/../etc")
    assert (refused["is_error"], "path" in refused["content"]) == (True, True)
