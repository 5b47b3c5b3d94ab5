"""`ebbing ingest` turns files into requests that are safe to repeat, and reports errors by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Request, Stub, problem


def accept(asked: Request) -> Reply:
    return Reply(202, {"ids": [str(uuid4()) for _ in asked.lines], "request_id": "r"})


@pytest.fixture(autouse=True)
def _accepting(api: Stub) -> None:
    api.replies["POST /v1/memories"] = accept


def lines(path: Path, *memories: object) -> str:
    path.write_text("".join(f"{json.dumps(memory)}\n" for memory in memories))
    return str(path)


def test_a_file_is_sent_in_batches_as_it_is(cli: Cli, api: Stub, folder: Path) -> None:
    memories = [{"text": f"number {n}", "metadata": {"n": n}} for n in range(5)]
    done = cli("ingest", lines(folder / "a.jsonl", *memories), "--batch", "2", "--json")
    assert done.code == 0, done
    assert [asked.lines for asked in api.asked] == [memories[:2], memories[2:4], memories[4:]]
    assert {asked.headers["content-type"] for asked in api.asked} == {"application/x-ndjson"}
    summary = json.loads(done.out)
    assert (summary["memories"], summary["requests"]) == (5, 3)
    assert done.err == ""


def test_another_run_sends_the_same_keys_and_a_changed_batch_another(cli: Cli, api: Stub, folder: Path) -> None:
    def keys() -> list[str]:
        api.asked.clear()
        assert cli("ingest", "a.jsonl", "--batch", "1").code == 0
        return [asked.headers["idempotency-key"] for asked in api.asked]

    lines(folder / "a.jsonl", {"text": "one"}, {"text": "same"}, {"text": "same"})
    first = keys()
    assert len(set(first)) == 3
    assert keys() == first
    lines(folder / "a.jsonl", {"text": "one"}, {"text": "Same"}, {"text": "same"})
    second = keys()
    assert [before == after for before, after in zip(first, second, strict=True)] == [True, False, True]


def test_memories_that_were_accepted_before_are_counted(cli: Cli, api: Stub, folder: Path) -> None:
    name = lines(folder / "a.jsonl", *({"text": f"number {n}"} for n in range(3)))
    first, known = Reply(202, {"ids": [], "request_id": "r1"}, {"X-Request-Id": "r1"}), "had been accepted before"
    api.replies["POST /v1/memories"] = first
    assert known not in cli("ingest", name).out
    api.replies["POST /v1/memories"] = [Reply(202, {"ids": [], "request_id": "r1"}, {"X-Request-Id": "r2"}), first]
    assert f"2 of them {known}" in cli("ingest", name, "--batch", "2").out
    api.replies["POST /v1/memories"] = Reply(202, {"ids": [], "request_id": "r1"}, {"X-Request-Id": "r3"})
    assert json.loads(cli("ingest", name, "--json").out)["repeated"] == 3


def test_thread_and_subject_are_for_memories_that_name_none(cli: Cli, api: Stub, folder: Path) -> None:
    name = lines(folder / "a.jsonl", {"text": "a"}, {"text": "b", "subject": "lena"})
    assert cli("ingest", name, "--subject", "orla", "--thread", "t1").code == 0
    assert api.asked[0].lines == [
        {"text": "a", "subject": "orla", "thread": "t1"},
        {"text": "b", "subject": "lena", "thread": "t1"},
    ]


def test_lines_of_text_are_memories_and_empty_ones_are_not(cli: Cli, api: Stub) -> None:
    done = cli("ingest", "-", "--text", given="\ufeffTea at four\r\n\n  \nGrüße 🎉\n")
    assert done.code == 0, done
    assert api.asked[0].lines == [{"text": "Tea at four"}, {"text": "Grüße 🎉"}]
    assert "2 memories accepted in 1 request," in done.out


def test_a_batch_ends_before_it_gets_too_large(cli: Cli, api: Stub, folder: Path) -> None:
    name = lines(folder / "a.jsonl", *({"text": "x" * 30_000} for _ in range(300)))
    assert cli("ingest", name).code == 0
    assert sum(len(asked.lines) for asked in api.asked) == 300
    assert all(len(asked.body) <= 4 * 1024 * 1024 for asked in api.asked)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tea at four", "a.jsonl:2: invalid JSON"),
        ('{"text": "x"', "a.jsonl:2: invalid JSON"),
        ("[1, 2]", "a.jsonl:2: expected one JSON object per line"),
        ("x" * 1_100_000, "a.jsonl:2: the line is too long"),
    ],
)
def test_a_line_that_is_no_memory_is_named_before_its_batch_is_sent(
    cli: Cli, api: Stub, folder: Path, line: str, said: str
) -> None:
    (folder / "a.jsonl").write_text(f'{{"text": "fine"}}\n{line}\n')
    done = cli("ingest", "a.jsonl")
    assert done.code == 1
    assert said in done.err
    assert api.asked == []


def test_a_refused_memory_is_named_by_file_line_field_limit_and_value(cli: Cli, api: Stub, folder: Path) -> None:
    wrong = {"field": "[1].text", "message": "is too long in bytes", "value": 40000, "limit": 32768}
    api.replies["POST /v1/memories"] = [accept(Request("", "", {}, b"{}")), Reply(422, problem(422, "invalid", wrong))]
    name = lines(folder / "a.jsonl", {"text": "1"}, {"text": "2"}, {"text": "3"}, {"text": "4"})
    done = cli("ingest", name, "--batch", "2")
    assert done.code == 1
    assert f"{name}:4: " in done.err
    assert "[1].text is too long in bytes (value 40000, limit 32768)" in done.err
    assert "2 memories before this request were accepted" in done.err
    assert done.err.count("\n") == 1


# --- Chats ---

TURNS: list[dict[str, object]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Book the train.", "name": "Ann"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}, {"type": "image_url"}]},
]
WITH_TEXT = [TURNS[0], TURNS[1], TURNS[4]]


def sent(api: Stub) -> list[object]:
    return [json.loads(asked.body) for asked in api.asked]


@pytest.mark.parametrize("indent", [None, 2], ids=["a line", "a whole file"])
def test_a_chat_is_sent_as_messages_and_what_has_no_text_is_told(
    cli: Cli, api: Stub, folder: Path, indent: int | None
) -> None:
    chat = {"thread": "t", "messages": TURNS, "tags": None}
    (folder / "chat.json").write_text("\ufeff\n" + json.dumps(chat, indent=indent))
    done = cli("ingest", "chat.json", "--subject", "orla", "--thread", "other")
    assert done.code == 0, done
    assert sent(api) == [{"subject": "orla", "thread": "t", "messages": WITH_TEXT}]
    assert {asked.headers["content-type"] for asked in api.asked} == {"application/json"}
    assert "3 memories accepted in 1 request" in done.out
    assert "skipped 2 messages without text" in done.out
    assert "ignored 2 non-text parts of messages" in done.out


def test_a_long_chat_is_sent_in_requests_of_so_many_messages(cli: Cli, api: Stub, folder: Path) -> None:
    same = {"role": "user", "content": "ok"}
    name = lines(folder / "a.jsonl", {"text": "before"}, {"messages": [same, TURNS[2], same, same]}, {"text": "after"})
    done = cli("ingest", name, "--batch", "2", "--json")
    assert sent(api) == [{"text": "before"}, {"messages": [same, same]}, {"messages": [same]}, {"text": "after"}]
    summary = json.loads(done.out)
    assert [summary[each] for each in ("memories", "requests", "skipped")] == [5, 4, 1]
    keys = [asked.headers["idempotency-key"] for asked in api.asked]
    api.asked.clear()
    assert cli("ingest", name, "--batch", "2").code == 0
    assert [asked.headers["idempotency-key"] for asked in api.asked] == keys


def test_the_same_message_twice_is_two_requests_with_keys_of_their_own(cli: Cli, api: Stub, folder: Path) -> None:
    same = {"role": "user", "content": "ok"}
    assert cli("ingest", lines(folder / "a.jsonl", {"messages": [same, same]}), "--batch", "1").code == 0
    assert len({asked.headers["idempotency-key"] for asked in api.asked}) == 2


def test_a_chat_without_any_text_sends_nothing(cli: Cli, api: Stub, folder: Path) -> None:
    done = cli("ingest", lines(folder / "a.jsonl", {"messages": [TURNS[2]]}), "--json")
    assert (done.code, api.asked) == (0, [])
    summary = json.loads(done.out)
    assert (summary["memories"], summary["requests"], summary["skipped"]) == (0, 0, 1)


def test_a_refused_message_is_named_by_its_place_in_the_chat(cli: Cli, api: Stub, folder: Path) -> None:
    wrong = {"field": "messages[1].role", "message": "isn't one of user"}
    api.replies["POST /v1/memories"] = Reply(422, problem(422, "invalid", wrong))
    robot = {"role": "robot", "content": "x"}
    name = lines(folder / "a.jsonl", {"messages": [TURNS[2], TURNS[0], TURNS[2], robot]})
    done = cli("ingest", name)
    assert done.code == 1
    assert f"{name}:1, message 3: " in done.err
    assert sent(api) == [{"messages": [TURNS[0], robot]}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"messages": 1}', "a.json:1: messages must be a list of objects"),
        ('{\n"text": "x"}', "a.json:1: invalid JSON"),
        ('{"text": "x"}\n{\n"messages": []}', "a.json:2: invalid JSON"),
        ('{"text": "' + "x" * 2**20 + '"}', "a.json:1: the line is too long"),
        ('[\n{"text": "x"}\n]', "the file must be JSON Lines: convert a JSON list with `jq -c '.[]' FILE`"),
        ('[{"text": "x"}]', "expected one JSON object per line"),
    ],
    ids=["no list", "no messages", "a second object", "a long memory", "a list of lines", "a list"],
)
def test_what_is_neither_memory_nor_chat_is_named(cli: Cli, api: Stub, folder: Path, content: str, said: str) -> None:
    (folder / "a.json").write_text(content)
    done = cli("ingest", "a.json")
    assert done.code == 1
    assert said in done.err
    assert api.asked == []


def test_a_chat_on_one_long_line_is_sent(cli: Cli, api: Stub, folder: Path) -> None:
    turns = [{"role": "user", "content": "x" * 30_000}] * 50
    assert cli("ingest", lines(folder / "a.json", {"messages": turns})).code == 0
    assert sent(api) == [{"messages": turns}]


def test_a_full_backlog_is_waited_out(cli: Cli, api: Stub, folder: Path, pauses: list[float]) -> None:
    full = Reply(429, problem(429, "backlog-full"), {"Retry-After": "3"})
    api.replies["POST /v1/memories"] = [full, accept(Request("", "", {}, b"{}"))]
    assert cli("ingest", lines(folder / "a.jsonl", {"text": "1"})).code == 0
    assert pauses == [3]


def test_wait_ends_when_nothing_waits(cli: Cli, api: Stub, folder: Path, pauses: list[float]) -> None:
    def pending(ingest: int, index: int, embed: int) -> Reply:
        return Reply(200, {"pending": {"ingest": ingest, "index": index, "embed": embed, "score": 7}})

    api.replies["GET /v1/stats"] = [pending(1, 0, 0), pending(0, 1, 1), pending(0, 0, 1), pending(0, 0, 0)]
    done = cli("ingest", lines(folder / "a.jsonl", {"text": "1"}), "--wait")
    assert done.code == 0, done
    assert "all searchable" in done.out
    assert len(pauses) == 3


@pytest.mark.parametrize(("name", "said"), [("gone.jsonl", "no such file"), (".", "is a folder")])
def test_a_file_that_cannot_be_read_ends_with_2(cli: Cli, name: str, said: str) -> None:
    done = cli("ingest", name)
    assert done.code == 2
    assert said in done.err
