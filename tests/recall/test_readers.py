"""Readers convert each dataset's format into a common structure of conversations."""

from __future__ import annotations

import json
import lzma
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ops.recall.dataset import Conversation
from ops.recall.readers import longmemeval
from ops.recall.readers.beam import turn_ids
from ops.recall.readers.choice import READERS, choose, read

LINE: dict[str, Any] = {
    "conversation": "c",
    "memories": [{"id": "1", "session": 1, "time": "2026-03-07T12:00:00", "text": "a tulip", "role": "user"}],
    "questions": [{"id": "q", "category": "x", "question": "flower?", "evidence": ["1"], "answer": "tulip"}],
}
CHAT: dict[str, Any] = {
    "persona": "A beekeeper",
    "language": "en",
    "memories": [
        {
            "id": "m1",
            "thread": "t1",
            "role": "user",
            "time": "2026-01-05T08:00:00Z",
            "text": "Nine hives.",
            "matters": 2,
        },
        {"id": "m2", "thread": "t2", "role": "assistant", "time": "2026-01-06T08:00:00Z", "text": "Ten?", "matters": 0},
    ],
    "questions": [
        {"question": "How many?", "evidence": ["m2"], "kind": "update", "answer": "ten", "outdated": ["m1"]},
        {"question": "Which bees?", "evidence": [], "kind": "unanswerable", "answer": ""},
    ],
    "recalls": [{"messages": ["Winter comes.", {"text": "Feed them?", "role": "user"}], "wanted": ["m1"]}],
}


def written(path: Path, *values: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return path


def beam(folder: Path, questions: dict[str, list[dict[str, Any]]], *more: dict[str, Any]) -> Path:
    """Write a chat of two batches; `more` are turns of the second."""
    first: list[dict[str, Any]] = [
        {"role": "user", "id": 0, "time_anchor": "March-05-2024", "index": "1,1", "content": "I start ->-> 1,1"},
        {"role": "assistant", "id": 1, "content": "Good."},
    ]
    second: list[dict[str, Any]] = [{"role": "user", "id": 2, "time_anchor": "April-20-2024", "content": "I go on"}]
    batches = [
        {"batch_number": 1, "time_anchor": None, "turns": [first[:1], first[1:]]},
        {"batch_number": 2, "time_anchor": None, "turns": [[*second, *more]]},
    ]
    written(folder / "chat.json", batches)
    written(folder / "probing_questions" / "probing_questions.json", questions)
    return folder


def instance(name: str = "q1", **changes: object) -> dict[str, Any]:
    """Build an instance of LongMemEval whose second session in the file is the earlier one."""
    return {
        "question_id": name,
        "question_type": "knowledge-update",
        "question": "Which car?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["answer_a", "filler", "filler"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/19 (Fri) 10:00", "2023/05/21 (Sun) 10:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "A blue car", "has_answer": True}, {"role": "assistant", "content": "Nice"}],
            [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": " "}],
            [{"role": "user", "content": "Hello"}],
        ],
        "answer_session_ids": ["answer_a"],
    } | changes


def only(path: Path) -> Conversation:
    (found,) = read(path)
    return found


def evidence(conversation: Conversation) -> dict[str, tuple[str, ...]]:
    return {question.id: question.evidence for question in conversation.questions}


def test_the_reader_is_chosen_by_what_the_path_holds(tmp_path: Path) -> None:
    chat = written(tmp_path / "chats" / "b.json", CHAT)
    paths = {
        written(tmp_path / "talks.jsonl", LINE): "lines",
        written(tmp_path / "talks", LINE): "lines",
        chat: "chats",
        chat.parent: "chats",
        beam(tmp_path / "100K" / "1", {}): "beam",
        tmp_path / "100K": "beam",
        written(tmp_path / "oracle.json", [instance()]): "longmemeval",
        written(tmp_path / "longmemeval_s", [instance()]): "longmemeval",
    }
    assert {path: choose(path).name for path in paths} == paths
    assert choose(chat, "lines").name == "lines"


def test_where_no_reader_fits_the_error_names_them_all(tmp_path: Path) -> None:
    for path in (tmp_path, written(tmp_path / "numbers.json", 3)):
        with pytest.raises(ValueError, match="no reader fits") as refused:
            choose(path)
        assert all(f"{name} (" in str(refused.value) for name in READERS)
    with pytest.raises(FileNotFoundError):
        choose(tmp_path / "nowhere", "lines")


def test_compressed_lines_are_read_as_plain_ones(tmp_path: Path) -> None:
    plain = written(tmp_path / "given.jsonl", LINE, LINE)
    compressed = tmp_path / "given.jsonl.xz"
    compressed.write_bytes(lzma.compress(plain.read_bytes()))
    assert list(read(compressed)) == list(read(plain))
    assert [conversation.memories[0].role for conversation in read(plain)] == ["user", "user"]
    compressed.write_bytes(b"not xz at all")
    with pytest.raises(ValueError, match=r"given\.jsonl\.xz"):
        read(compressed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"questions": [{**LINE["questions"][0], "evidence": ["2"]}]},
            r"'q' names unknown memories: \['2'\]",
        ),
        (
            {"questions": [{**LINE["questions"][0], "outdated": ["3"]}]},
            r"'q' names unknown memories: \['3'\]",
        ),
        ({"recalls": [{"messages": ["?"], "wanted": ["4"]}]}, r"recall 1 names unknown memories: \['4'\]"),
        ({"memories": LINE["memories"] * 2}, "two memories with one id"),
        ({"memories": [{"id": "1"}]}, "missing required field"),
    ],
)
def test_a_line_that_is_no_conversation_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"line 2: .*{said}"):
        read(written(tmp_path / "given.jsonl", LINE, LINE | change))


def test_a_chat_keeps_its_threads_roles_kinds_and_recalls(tmp_path: Path) -> None:
    chat = only(written(tmp_path / "keeper.json", CHAT))
    assert chat.conversation == "keeper"
    assert [(memory.session, memory.role, memory.speaker) for memory in chat.memories] == [
        ("t1", "user", None),
        ("t2", "assistant", None),
    ]
    assert chat.memories[0].moment == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert [(question.category, question.outdated) for question in chat.questions] == [
        ("update", ("m1",)),
        ("unanswerable", ()),
    ]
    assert [question.evidence for question in chat.asked()] == [("m2",)]
    assert chat.recalls[0].messages == ("Winter comes.", {"text": "Feed them?", "role": "user"})
    assert chat.recalls[0].wanted == ("m1",)


def test_a_folder_of_chats_is_read_in_order_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    written(tmp_path / "b.json", CHAT)
    written(tmp_path / "a.json", CHAT)
    (tmp_path / "README.md").write_text("Chats.")
    assert [chat.conversation for chat in read(tmp_path)] == ["a", "b"]
    written(tmp_path / "c.json", {"memories": []})
    with pytest.raises(ValueError, match=r"c\.json: .*questions"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("sources", "ids"),
    [
        ([4, 60, 4], ["4", "60"]),
        ({"first_statement": [58], "second_statement": [24]}, ["58", "24"]),
        ([116, [136, 138]], ["116", "136", "138"]),
        ({"original_info": [108], "updated_info": []}, ["108"]),
        ([[24, "26"], {"x": [[7]]}], ["24", "26", "7"]),
        ([], []),
        (None, []),
    ],
)
def test_all_ids_in_the_sources_of_a_question_are_its_evidence(sources: object, ids: list[str]) -> None:
    assert turn_ids(sources) == ids


def test_every_message_of_a_beam_chat_is_a_memory_and_every_batch_a_thread(tmp_path: Path) -> None:
    questions: dict[str, list[dict[str, Any]]] = {
        "abstention": [{"question": "Shoe size?", "ideal_response": "unknown"}],
        "knowledge_update": [
            {"question": "How far?", "source_chat_ids": {"original_info": [0], "updated_info": [2]}},
            {"question": "How long?", "source_chat_ids": []},
        ],
    }
    chat = only(beam(tmp_path / "7", questions))
    assert [(memory.id, memory.session, memory.role, memory.moment.date().isoformat()) for memory in chat.memories] == [
        ("0", 1, "user", "2024-03-05"),
        ("1", 1, "assistant", "2024-03-05"),
        ("2", 2, "user", "2024-04-20"),
    ]
    assert [(question.category, question.evidence) for question in chat.questions] == [
        ("abstention", ()),
        ("knowledge_update", ("0", "2")),
        ("knowledge_update", ()),
    ]
    assert [question.question for question in chat.asked()] == ["How far?"]
    assert len({question.id for question in chat.questions}) == 3
    assert chat.notes == ()


def test_beam_chats_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        beam(tmp_path / str(number), {})
    assert [chat.conversation for chat in read(tmp_path)] == ["1", "9", "10"]


def test_what_the_service_cant_store_is_changed_and_said(tmp_path: Path) -> None:
    more = [
        {"role": "assistant", "id": 3, "content": "é" * 20_000},
        {"role": "user", "id": 4, "content": "  "},
        {"role": "user", "id": 5, "content": "a\0b"},
    ]
    questions: dict[str, list[dict[str, Any]]] = {"x": [{"question": "?", "source_chat_ids": [3, 99, "chat 5"]}]}
    chat = only(beam(tmp_path / "1", questions, *more))
    texts = {memory.id: memory.text for memory in chat.memories}
    assert len(texts["3"].encode()) <= 32 * 1024 < len("é" * 20_000) * 2
    assert set(texts) == {"0", "1", "2", "3", "5"}
    assert texts["5"] == "a b"
    assert chat.questions[0].evidence == ("3",)
    assert chat.notes == (
        "messages cut to 32 KiB: 1",
        "messages without text, skipped: 1",
        "unknown ids of evidence, skipped: 2",
    )


def test_a_beam_chat_of_another_shape_is_named(tmp_path: Path) -> None:
    folder = beam(tmp_path / "3", {})
    written(folder / "chat.json", [{"batch_number": 1, "turns": [[{"role": "user", "id": 0, "content": "no date"}]]}])
    with pytest.raises(ValueError, match=r"3.chat\.json, batch 1: no turn has a time_anchor"):
        only(folder)
    written(folder / "chat.json", {"turns": []})
    with pytest.raises(ValueError, match=r"3.chat\.json"):
        only(folder)


def test_an_instance_of_longmemeval_is_a_conversation_by_its_dates(tmp_path: Path) -> None:
    found = only(written(tmp_path / "oracle.json", [instance()]))
    assert found.conversation == "q1"
    assert [memory.text for memory in found.memories] == ["Hello", "A blue car", "Nice", "Hello"]
    assert [memory.moment for memory in found.memories][:2] == [
        datetime(2023, 5, 19, 10, tzinfo=UTC),
        datetime(2023, 5, 20, 2, 21, tzinfo=UTC),
    ]
    # A session that occurs twice in a history becomes two threads.
    assert len({memory.session for memory in found.memories}) == 3
    assert [memory.role for memory in found.memories] == ["user", "user", "assistant", "user"]
    assert [question.category for question in found.questions] == ["knowledge-update"]
    by_id = {memory.id: memory.text for memory in found.memories}
    assert [by_id[each] for each in found.questions[0].evidence] == ["A blue car"]
    assert found.notes == ("messages without text, skipped: 1",)


def test_the_evidence_falls_back_to_the_answer_sessions_and_abstentions_have_none(tmp_path: Path) -> None:
    unmarked = [[{"role": "user", "content": "A blue car"}, {"role": "assistant", "content": "Nice"}], [], []]
    path = written(
        tmp_path / "s.json", [instance("q1", haystack_sessions=unmarked), instance("q2_abs"), instance("q3")]
    )
    fallen_back, abstention, marked = read(path)
    assert evidence(fallen_back) == {"q1": ("0:0", "0:1")}
    assert evidence(abstention) == {"q2_abs": ()}
    assert evidence(marked) == {"q3": ("0:0",)}


def test_instances_are_read_one_at_a_time(tmp_path: Path) -> None:
    """The second instance is malformed: the first is still yielded, so the file wasn't read to its end."""
    path = tmp_path / "m.json"
    path.write_text(f"[{json.dumps(instance('q1'))}, {json.dumps(instance('q2'))[:-20]}")
    instances = iter(longmemeval.read(path))
    assert next(instances).conversation == "q1"
    with pytest.raises(ValueError, match=r"m\.json, instance 2: "):
        next(instances)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"haystack_dates": ["yesterday"] * 3}, "'yesterday'"),
        ({"haystack_dates": []}, "shorter|argument"),
        ({"question": None}, "question"),
    ],
)
def test_an_instance_of_another_shape_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"instance 2: .*({said})"):
        list(read(written(tmp_path / "s.json", [instance(), instance("q2", **change)])))
