"""Every command of `ops/import.md` runs, and the reader of its format finds memories in a file of that name."""

from __future__ import annotations

import io
import json
import re
import shlex
import sqlite3
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.domain.imports.formats import FORMATS
from app.domain.imports.items import DumpedMemory, ImportOptions, Memory, Reading, find_zone
from tests.cli.conftest import Cli
from tests.cli.memories.test_imports import JOB, MADE, STARTED
from tests.cli.stub import Reply, Request, Stub
from tests.domain.imports.reading import NOW, archive, lines
from tests.domain.imports.test_readers import HISTORY, INSERT_EVENT, INSERT_MEMORY, MEMORY_DECAY

PAGE = Path(__file__).resolve().parents[3] / "ops" / "import.md"
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.startswith("ebbing ")
]
MOMENT = "2026-03-01T10:00:00+00:00"
NUMBERS = ("multiplier", "pace", "access_count", "anchored_at", "level", "retrieval", "stability", "cross_domain_count")
DUMP = lines(
    {"format": "ebbing-dump-2", "tenant_id": STARTED["id"], "policy": {}},
    {
        "memory": {"memory_id": STARTED["id"], "seq": 1, "text": "a heron", "created_at": MOMENT},
        "state": dict.fromkeys(NUMBERS, 1) | {"created_at": MOMENT, "accessed_at": MOMENT},
        "score": None,
        "events": [],
    },
    {"end": {"memories": 1}},
)


def write_files(folder: Path) -> None:
    chat = {"uuid": "c", "chat_messages": [{"uuid": "m", "sender": "human", "text": "I like tea"}]}
    said = {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["I like tea"]}}}
    gpt = {"id": "c", "current_node": "n", "mapping": {"n": said}}
    entity = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Likes tea"]}
    contents = {
        "notes.csv": b"content,written\na heron,2026-03-01 10:00\n",
        "ann.zip": archive(given__jsonl=lines({"text": "a heron", "occurred_at": "2026-03-01T10:00:00Z"})),
        "memory.jsonl": lines(entity),
        "chatgpt.zip": archive(conversations__json=json.dumps([gpt]).encode()),
        "claude.zip": archive(conversations__json=json.dumps([chat]).encode()),
        "store.csv": b'prefix,key,value\nusers,k,"{""note"": ""a heron""}"\n',
        "agent.af": json.dumps({"agents": [], "blocks": [{"id": "b", "label": "human", "value": "Ann"}]}).encode(),
        "dump.key": b"k" * 64,
        "erased-since.txt": b"ann\n",
        # One line that is a memory of Ebbing and of cortexgraph.
        "memories.jsonl": lines({"text": "a heron", "id": "m", "content": "a heron"}),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for name, script, insert, row in (
        ("memories.db", MEMORY_DECAY, INSERT_MEMORY, ("a", "", "x", "fact", "", 0.5, "", 1, 0.5, 0.5, 0, 1, 1, 1)),
        ("history.db", HISTORY, INSERT_EVENT, ("h", "m", None, "x", "ADD", None, None, 0, None, "user")),
    ):
        with sqlite3.connect(folder / name) as made:
            made.executescript(script)
            made.execute(insert, row)
        made.close()


def test_every_command_of_the_page_runs_and_finds_memories(cli: Cli, api: Stub, folder: Path) -> None:
    found: list[tuple[str, int]] = []

    def accept(asked: Request) -> Reply:
        given = dict(parse_qsl(urlsplit(asked.path).query))
        mapping = dict(pair.split("=") for pair in given.get("map", "").split(",") if pair)
        options = ImportOptions(map=mapping, time_zone=given.get("time_zone"), subject=given.get("subject"))
        items = FORMATS[given["format"]].read(io.BytesIO(asked.body), Reading(options, find_zone(options), NOW))
        found.append((given["format"], sum(isinstance(item, Memory | DumpedMemory) for item in items)))
        return Reply(202, STARTED)

    write_files(folder)
    api.replies["POST /v1/imports"] = accept
    api.replies["GET /v1/privacy/dump"] = Reply(200, DUMP)
    api.replies[f"GET /v1/jobs/{STARTED['job_id']}"] = Reply(200, JOB)
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, MADE)
    for command in COMMANDS:
        done = cli(*command)
        assert done.code == 0, (command, done)
    assert [number for _, number in found] == [1] * len(found)
    assert {name for name, _ in found} == FORMATS.keys()
    assert len(COMMANDS) == len(found) + 2, "two commands only write a dump"


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "dump"])
def test_the_page_describes_every_format(name: str) -> None:
    assert f"| `{name}` |" in PAGE.read_text()
