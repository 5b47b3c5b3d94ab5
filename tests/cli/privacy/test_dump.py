"""`ebbing dump` and `ebbing load`: encryption by a key file, erased subjects left out, incomplete dumps refused."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.conftest import Cli
from tests.cli.memories.test_imports import JOB, MADE, STARTED
from tests.cli.stub import Reply, Stub

LINES = [
    {"format": "ebbing-dump-2", "tenant_id": STARTED["id"], "policy": {}},
    {"memory": {"memory_id": "1", "text": "Ann sings", "subject": "ann"}},
    {"memory": {"memory_id": "2", "text": "Bob hums", "subject": "bob"}},
    {"end": {"memories": 2}},
]
CONTENT = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in LINES).encode()


@pytest.fixture(autouse=True)
def _serving(api: Stub, folder: Path) -> None:
    api.replies["GET /v1/privacy/dump"] = Reply(200, CONTENT)
    api.replies["POST /v1/imports"] = Reply(202, STARTED)
    api.replies[f"GET /v1/jobs/{STARTED['job_id']}"] = Reply(200, JOB)
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, MADE)
    (folder / "key").write_text("k" * 40)
    (folder / "other").write_text("o" * 40)
    (folder / "short").write_text("k")


def sent(api: Stub) -> tuple[bytes, dict[str, list[str]]]:
    [asked] = [asked for asked in api.asked if asked.method == "POST"]
    api.asked.clear()
    return asked.body, parse_qs(urlsplit(asked.path).query)


def test_a_dump_is_saved_for_its_owner_only_and_loaded_as_it_is(cli: Cli, api: Stub, folder: Path) -> None:
    assert cli("dump", "a.jsonl").code == 0
    assert (folder / "a.jsonl").read_bytes() == CONTENT
    assert (folder / "a.jsonl").stat().st_mode & 0o777 == 0o600
    assert cli("dump", "a.jsonl").code == 2
    assert cli("load", "a.jsonl").code == 0
    assert sent(api) == (CONTENT, {"format": ["dump"], "accept": ["false"]})


def test_a_dump_and_its_load_say_how_many_memories_in_quarantine_they_lack(cli: Cli, api: Stub, folder: Path) -> None:
    assert "quarantine" not in cli("dump", "a.jsonl").out
    end = b'{"end":{"memories":2,"damaged":0,"quarantined":1200}}\n'
    api.replies["GET /v1/privacy/dump"] = Reply(200, CONTENT[: CONTENT.rindex(b'{"end')] + end)
    assert "not encrypted, 1,200 memories in quarantine left out" in cli("dump", "b.jsonl").out
    assert json.loads(cli("dump", "c.jsonl", "--json").out)["quarantined"] == 1200
    assert "1,200 memories in quarantine left out when the dump was written" in cli("load", "b.jsonl").err
    assert "quarantine" not in cli("load", "a.jsonl").err


def test_a_key_file_encrypts_a_dump_and_another_one_reads_nothing(cli: Cli, api: Stub, folder: Path) -> None:
    assert cli("dump", "a.enc", "--key-file", "key").code == 0
    stored = (folder / "a.enc").read_bytes()
    assert b"Ann" not in stored
    assert cli("load", "a.enc", "--key-file", "key", "--accept").code == 0
    assert sent(api) == (CONTENT, {"format": ["dump"], "accept": ["true"]})
    assert "--key-file" in cli("load", "a.enc").err
    assert "the key is wrong" in cli("load", "a.enc", "--key-file", "other").err
    (folder / "cut.enc").write_bytes(stored[:-5])
    assert "shortened" in cli("load", "cut.enc", "--key-file", "key").err
    assert "at least 32 bytes" in cli("dump", "b.enc", "--key-file", "short").err


def test_erased_subjects_are_left_out(cli: Cli, api: Stub, folder: Path) -> None:
    cli("dump", "a.jsonl")
    (folder / "erased").write_text("ann\n\n")
    assert cli("load", "a.jsonl", "--erased", "erased").code == 0
    body, params = sent(api)
    assert b"Ann" not in body
    assert b"Bob" in body
    assert params["accept"] == ["true"]


def test_summaries_holds_and_retention_of_erased_subjects_are_left_out(cli: Cli, api: Stub, folder: Path) -> None:
    summary = {"memory_id": "3", "text": "Both make music", "subject": None}
    lines = [
        *LINES[:1],
        {"table": "holds", "row": {"hold_id": "h", "subject": "ann", "reason": "case of Ann"}},
        {"table": "subject_retention", "row": {"subject": "bob", "category": "health"}},
        {"memory": summary, "sources": [{"memory_id": "2", "subject": "bob"}, {"memory_id": "1", "subject": "ann"}]},
        {"memory": summary | {"text": "Bob's music"}, "sources": [{"memory_id": "2", "subject": "bob"}]},
        *LINES[1:],
    ]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "erased").write_text("ann\n")
    assert cli("load", "a.jsonl", "--erased", "erased").code == 0
    body, _ = sent(api)
    kept = [json.loads(line) for line in body.splitlines()]
    assert kept == [lines[0], lines[2], lines[4], lines[6], lines[7]]


def test_a_dump_that_ends_early_is_not_kept(cli: Cli, api: Stub, folder: Path) -> None:
    api.replies["GET /v1/privacy/dump"] = Reply(200, CONTENT[:-20])
    done = cli("dump", "a.jsonl")
    assert done.code == 1
    assert "complete" in done.err
    assert not (folder / "a.jsonl").exists()
