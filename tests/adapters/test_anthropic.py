"""The calls of the memory tool's adapter, without Anthropic's SDK; `suite_anthropic.py` runs it with the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ebbing_client.adapters.memory_files import COMMANDS, FileResult, run_command
from ebbing_client.call import Answer
from ebbing_client.errors import Invalid, UnexpectedAnswer, make_api_error
from tests.api.caller import Api, standing_routes
from tests.api.memories.test_ingest import worker
from tests.service import Service

NOTES = "/memories/notes.md"


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    with worker(service), Api(service, standing_routes()) as started:
        yield started


def run(api: Api, **command: Any) -> FileResult:
    call = run_command(command)
    answer = api.request(call.method, call.path, content=call.content, headers=dict(call.headers))
    if answer.status_code >= 400:
        raise make_api_error(answer.status_code, answer.json(), None)
    return call.read(Answer(answer.status_code, answer.content))


def test_each_command_has_its_route(api: Api) -> None:
    texts = [
        run(api, command="create", path=NOTES, file_text="Tea\n"),
        run(api, command="insert", path=NOTES, insert_line=1, insert_text="Bread"),
        run(api, command="str_replace", path=NOTES, old_str="Tea", new_str="Milk"),
        run(api, command="view", path=NOTES, view_range=None),
        run(api, command="rename", old_path=NOTES, new_path="/memories/list.md"),
        run(api, command="delete", path="/memories/list.md"),
    ]
    assert not any(text.is_error for text in texts)
    assert texts[3].content.endswith("     1\tMilk\n     2\tBread\n     3\t")
    missing = run(api, command="view", path=NOTES)
    assert missing == FileResult(f"The path {NOTES} does not exist. Please provide a valid path.", is_error=True)
    with pytest.raises(Invalid, match="path"):
        run(api, command="view", path="/memories/../etc")


def test_only_reading_is_repeated_and_unknown_commands_are_refused() -> None:
    assert {name for name in COMMANDS if run_command({"command": name}).is_repeatable} == {"view"}
    for command in ({"command": "append"}, {}):
        with pytest.raises(Invalid, match="command"):
            run_command(command)
    with pytest.raises(UnexpectedAnswer):
        run_command({"command": "view"}).read(Answer(200, b"{}"))
