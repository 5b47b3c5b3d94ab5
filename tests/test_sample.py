"""The shipped sample meets its specification: shape, order, invented data only, answerable questions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import pytest

from app.domain.ingest.bodies import decode
from app.sample import load_memories, load_questions

FIELDS = {
    "text",
    "subject",
    "thread",
    "speaker",
    "kind",
    "occurred_at",
    "tags",
    "categories",
    "metadata",
    "salience",
}
KINDS = {"episodic", "semantic", "procedural", "emotional", "system"}
TAGS = {"user_preference", "decision", "commitment"}
CATEGORIES = {"pii", "financial", "health", "casual", "work"}
SPEAKERS = {"Orla", "Mateo", "Yuki", "Lena", "Des", "assistant"}
MEMORIES = load_memories()
TEXTS = [str(memory["text"]) for memory in MEMORIES]


def strings(memory: dict[str, object], field: str) -> list[str]:
    """Return the list of strings in a field, empty if the field is absent."""
    value = memory.get(field, [])
    assert isinstance(value, list)
    assert all(isinstance(item, str) for item in value)
    return value


def metadata(memory: dict[str, object]) -> dict[str, str]:
    value = memory["metadata"]
    assert isinstance(value, dict)
    return value


def links(field: str) -> Iterator[tuple[str, str]]:
    """Yield (key, key it points to) for every memory with this metadata field."""
    for memory in MEMORIES:
        data = metadata(memory)
        if field in data:
            yield data["key"], data[field]


KEYS = [metadata(memory)["key"] for memory in MEMORIES]


def test_about_two_hundred_memories() -> None:
    assert 180 <= len(MEMORIES) <= 230


def test_only_allowed_fields_and_values() -> None:
    for memory in MEMORIES:
        assert set(memory) <= FIELDS
        assert {"text", "kind", "occurred_at", "metadata"} <= set(memory)
        assert memory["kind"] in KINDS
        assert set(strings(memory, "tags")) <= TAGS
        assert set(strings(memory, "categories")) <= CATEGORIES
        assert set(metadata(memory)) <= {"key", "repeats", "updates"}
        for field in ("subject", "thread"):
            value = memory.get(field, "-")
            assert isinstance(value, str)
            assert value.strip() == value != ""
        assert memory.get("speaker", "assistant") in SPEAKERS
        salience = memory.get("salience", 0.5)
        assert isinstance(salience, float)
        assert 0.0 <= salience <= 1.0


def test_texts_are_short_and_do_not_name_their_speaker_in_front() -> None:
    for memory in MEMORIES:
        text = str(memory["text"])
        assert text == text.strip() != ""
        assert len(text.encode()) < 1024
        assert not re.match(rf"{memory.get('speaker', '-')}\s*:", text, re.IGNORECASE)


def test_the_service_takes_every_line() -> None:
    assert len(decode(json.dumps(MEMORIES).encode(), "json", None)) == len(MEMORIES)


def test_texts_are_unique() -> None:
    assert len({text.casefold() for text in TEXTS}) == len(TEXTS)


def test_one_year_in_chronological_order() -> None:
    stamps = [str(memory["occurred_at"]) for memory in MEMORIES]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp) for stamp in stamps)
    times = [datetime.fromisoformat(stamp) for stamp in stamps]
    assert times == sorted(times)
    assert stamps[0].startswith("2025-11")
    assert stamps[-1].startswith("2026-10")
    assert len({stamp[:7] for stamp in stamps}) == 12


def test_keys_are_unique_and_in_order() -> None:
    assert [f"m{number:03d}" for number in range(1, len(MEMORIES) + 1)] == KEYS


@pytest.mark.parametrize(("field", "least"), [("repeats", 20), ("updates", 5)])
def test_links_point_to_earlier_memories(field: str, least: int) -> None:
    pairs = list(links(field))
    assert len(pairs) >= least
    assert all(earlier in KEYS and earlier < key for key, earlier in pairs)


def test_mix_is_that_of_a_real_assistant() -> None:
    kinds = Counter(str(memory["kind"]) for memory in MEMORIES)
    tags = Counter(tag for memory in MEMORIES for tag in strings(memory, "tags"))
    categories = Counter(name for memory in MEMORIES for name in strings(memory, "categories"))
    assert set(kinds) == KINDS
    assert kinds["procedural"] >= 8
    assert kinds["emotional"] >= 8
    assert tags["user_preference"] >= 8
    assert tags["decision"] >= 8
    assert tags["commitment"] >= 8
    assert categories["casual"] >= 50
    assert categories["pii"] >= 8
    assert set(categories) == CATEGORIES
    assert 0 < sum("salience" in memory for memory in MEMORIES) < len(MEMORIES) // 5


def test_threads_are_conversations() -> None:
    turns: dict[str, list[str]] = {}
    for memory in MEMORIES:
        if "thread" in memory:
            turns.setdefault(str(memory["thread"]), []).append(str(memory["speaker"]))
    assert len(turns) >= 8
    assert all(5 <= len(speakers) <= 15 and len(set(speakers)) >= 2 for speakers in turns.values())


def test_personal_data_names_its_subject() -> None:
    for memory in MEMORIES:
        if "pii" in strings(memory, "categories"):
            assert memory.get("subject"), memory


def test_personal_data_is_invented() -> None:
    everything = "\n".join(TEXTS)
    mails = re.findall(r"[\w.+-]+@([\w.-]*\w)", everything)
    assert mails
    assert everything.count("@") == len(mails)
    assert set(mails) <= {"example.com", "example.org"}
    phones = re.findall(r"\b555[- ]?\d+", everything)
    assert phones
    assert all(re.fullmatch(r"555-01\d\d", phone) for phone in phones)
    assert re.findall(r"\b(?:\d[ -]?){13,19}\b", everything) == ["4111 1111 1111 1111"]
    assert "http" not in everything


def test_questions_can_be_answered() -> None:
    asked = load_questions()
    assert 10 <= len(asked) <= 15
    assert len({question.query for question in asked}) == len(asked)
    for question in asked:
        assert question.query.endswith("?")
        assert question.query not in TEXTS
        assert question.note
        assert question.expected
        assert set(question.expected) <= set(KEYS)
        assert len(set(question.expected)) == len(question.expected)


def test_a_repeat_of_an_answer_is_an_answer() -> None:
    for question in load_questions():
        repeats = {key for key, earlier in links("repeats") if earlier in question.expected}
        assert repeats <= set(question.expected)


def test_an_answer_is_not_out_of_date() -> None:
    replaced = {earlier for _, earlier in links("updates")}
    for question in load_questions():
        assert not replaced & set(question.expected)


def test_each_call_reads_a_fresh_copy() -> None:
    load_memories()[0]["text"] = "changed"
    assert load_memories()[0]["text"] == TEXTS[0]
