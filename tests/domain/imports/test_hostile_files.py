"""Files that want to harm: archives that expand or leave their folder, databases with other tables, odd encodings."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from app.domain.imports import generic
from app.domain.imports.formats import FORMATS
from app.domain.imports.items import FileRefused, ImportOptions, Reading
from tests.domain.imports.reading import NOW, archive, database, faults, items, memories


@pytest.mark.parametrize(
    "name", ["../memories.jsonl", "/etc/memories.jsonl", "a/../../memories.jsonl", "C:/memories.jsonl"]
)
def test_a_path_outside_of_an_archive_is_refused(name: str) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        made.writestr(name, b"{}")
    with pytest.raises(FileRefused, match="outside"):
        items("cortexgraph", content.getvalue())


def test_a_symbolic_link_in_an_archive_is_refused() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        entry = zipfile.ZipInfo("memories.jsonl")
        entry.external_attr = 0o120777 << 16
        made.writestr(entry, "/etc/passwd")
    with pytest.raises(FileRefused, match="symbolic link"):
        items("cortexgraph", content.getvalue())


def test_an_archive_that_expands_too_much_is_refused() -> None:
    with pytest.raises(FileRefused, match="200 times"):
        items("cortexgraph", archive(memories__jsonl=b" " * (8 << 20)))


def test_an_archive_that_lies_about_its_size_is_refused() -> None:
    content = bytearray(archive(memories__jsonl=b'{"id": "m"}\n' * 1000))
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = (100).to_bytes(4, "little")  # declared size
    with pytest.raises(FileRefused, match="damaged"):
        items("cortexgraph", bytes(content))


@pytest.mark.parametrize("format_name", [name for name in FORMATS if name not in ("jsonl", "csv")])
def test_a_pickle_or_garbage_is_never_executed_or_stored(format_name: str, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "executed",))

    for content in (pickle.dumps(Bomb()), b"PK\x03\x04garbage", b"SQLite format 3\0garbage", b"\0" * 100):
        found = []
        with suppress(FileRefused):
            found = items(format_name, content)
            assert faults(found)
        assert not memories(found)
    assert not (tmp_path / "executed").exists()


def test_views_and_virtual_tables_take_the_place_of_no_table(tmp_path: Path) -> None:
    content = database(tmp_path, "CREATE VIEW history AS SELECT randomblob(1000000000) AS id;")
    with pytest.raises(FileRefused, match="no table `history`"):
        items("mem0", content)


def test_a_generated_column_cannot_call_functions(tmp_path: Path) -> None:
    script = """
CREATE TABLE store (prefix text, key text, value text, expires_at text GENERATED ALWAYS AS (hex(zeroblob(100000000))));
INSERT INTO store (prefix, key, value) VALUES ('p', 'k', '{"text": "x"}');
"""
    with pytest.raises(FileRefused):
        items("langgraph", database(tmp_path, script))


def test_utf_16_is_named() -> None:
    with pytest.raises(FileRefused, match="UTF-16"):
        items("jsonl", '{"text": "x"}\n'.encode("utf-16"))


def test_a_line_over_the_limit_is_named_and_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.imports.containers.LINE_MAX_BYTES", 100)
    found = items("jsonl", b'{"text": "' + b"a" * 500 + b'"}\n{"text": "b"}\n')
    assert [(fault.place, "too long" in fault.reason) for fault in faults(found)] == [(1, True)]
    assert [item.given.text for item in memories(found)] == ["b"]


def test_a_conversation_in_a_circle_ends() -> None:
    mapping = {
        name: {"parent": parent, "message": {"author": {"role": "user"}, "content": {"parts": [name]}}}
        for name, parent in (("a", "b"), ("b", "a"))
    }

    content = json.dumps([{"id": "c", "current_node": "a", "mapping": mapping}]).encode()
    assert sorted(item.given.text for item in memories(items("chatgpt", content))) == ["a", "b"]


def test_an_open_quote_in_a_csv_is_named_with_the_lines_that_it_hides() -> None:
    content = b'text,subject\nfirst,ann\n"open,ann\nlost,ann\nlost too,ann\n'
    found = items("csv", content)
    assert [item.given.text for item in memories(found)] == ["first"]
    [fault] = faults(found)
    assert (fault.place, fault.reason) == (3, f"{generic.QUOTES}; the row is spread over the lines 3 to 5")
    [alone] = faults(items("csv", b'text\n"open\nlost\n'))
    assert alone.reason.startswith(generic.QUOTES), "a file of one column isn't stored as one text"


def test_blank_lines_of_a_csv_are_no_rows() -> None:
    found = items("csv", b"text\n\na\n\n\nb\n")
    assert [(item.place, item.given.text) for item in memories(found)] == [(3, "a"), (6, "b")]
    assert not faults(found)


@pytest.mark.parametrize("content", [b'[{"id": "c", "mapping"', b'{"a":\n1', b"[" * 10_000 + b"]" * 10_000])
def test_a_damaged_or_deeply_nested_export_of_chatgpt_is_no_list_of_saved_memories(content: bytes) -> None:
    try:
        found = items("chatgpt", content)
    except FileRefused:
        return
    assert faults(found)
    assert not memories(found)


def test_a_document_over_the_limit_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.imports.containers.DOCUMENT_MAX_BYTES", 100)

    class Unread(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 <= size <= 1000, "the document was read as a whole"
            return super().read(size)

    for format_name in ("letta", "memory-decay"):
        with pytest.raises(FileRefused, match="limit 100"):
            list(FORMATS[format_name].read(Unread(b"x" * 200), Reading(ImportOptions(), None, NOW)))
    with pytest.raises(FileRefused, match="limit 100"):
        items("claude", archive(conversations__json=b"[" + b" " * 200 + b"]"))
