"""The note of a promoted memory: front matter, links, and the hash by which an edit is seen (seed 001, Obsidian)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.notes.note import (
    NoteLink,
    PromotedMemory,
    compare,
    is_unedited,
    make_title,
    note_name,
    parse_name,
    read_id,
    render_note,
)

AT = datetime(2026, 11, 20, 18, 0, 2, tzinfo=UTC)
ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))
MEMORY = PromotedMemory(
    *(ONE, "Ann prefers green tea.\nShe drinks no coffee.", "ann", "semantic", ("user_preference",)),
    *(AT, None, AT, "uses", 0.93),
)


def front(content: bytes) -> dict[str, object]:
    """Return the fields of the front matter; every value but id and hash is JSON, which YAML contains."""
    lines = content.decode().split("\n---\n")[0].splitlines()[1:]
    pairs = (line.partition(": ") for line in lines)
    return {name: value if name in ("id", "hash") else json.loads(value) for name, _, value in pairs}


def test_001_a_note_has_front_matter_title_text_and_links_in_both_directions() -> None:
    """Seed 001, Basic Memory: YAML front matter with metadata, sections, backlinks, tags for the graph."""
    memory = replace(MEMORY, sources=(THREE,), links=(NoteLink(TWO, "relates", False), NoteLink(TWO, "follows", True)))
    content = render_note(memory)
    fields = front(content)
    assert list(fields) == [
        *("id", "title", "aliases", "kind", "subject", "tags", "created", "promoted", "reason", "strength", "sources"),
        "hash",
    ]
    assert (fields["id"], fields["kind"], fields["tags"]) == (str(ONE), "semantic", ["user_preference"])
    assert (fields["strength"], fields["sources"]) == (0.93, [str(THREE)])
    body = content.decode().split("\n---\n", 1)[1]
    assert body == (
        "\n# Ann prefers green tea.\n\nAnn prefers green tea.\nShe drinks no coffee.\n\n## Links\n\n"
        f"- follows: [[{TWO}]]\n- relates (from there): [[{TWO}]]\n"
    )


def test_a_memory_without_links_has_no_section_of_links() -> None:
    assert render_note(MEMORY).endswith(b"She drinks no coffee.\n")


STORABLE = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@pytest.mark.drawn
@given(STORABLE, st.lists(STORABLE, max_size=3), st.none() | STORABLE)
def test_any_text_makes_a_note_that_reads_as_unedited(text: str, tags: list[str], subject: str | None) -> None:
    content = render_note(replace(MEMORY, text=text, tags=tuple(tags), subject=subject))
    assert is_unedited(content)
    assert read_id(content) == ONE
    assert not is_unedited(content + b" ")
    assert "\n" not in make_title(text)


def test_every_edit_is_seen_and_none_is_overwritten() -> None:
    content = render_note(MEMORY)
    changed = render_note(replace(MEMORY, text="Ann prefers black tea."))
    assert compare(content, content) == "equal"
    assert compare(None, content) == compare(content, changed) == "outdated"
    edits = [
        content.replace(b"green", b"black"),
        content.replace(b"user_preference", b"mine"),
        content.replace(b"hash: ", b"hash: 0"),
        content[: len(content) // 2],
        b"",
    ]
    for edited in edits:
        assert compare(edited, changed) == "edited"
        assert compare(edited, changed, may_replace=True) == "outdated"


def test_a_title_is_the_first_line_cut_at_a_word() -> None:
    assert make_title("\n\n## Tea \x07 time\nmore") == "Tea time"
    assert make_title("word " * 40) == f"{'word ' * 14}word…"
    assert make_title("# \n") == "Note"
    assert make_title("x" * 200) == f"{'x' * 79}…"


def test_names_come_from_ids_alone() -> None:
    assert parse_name(note_name(ONE)) == ONE
    for name in ("notes.md", f"{ONE}.txt", f"../{ONE}.md", f"{ONE}.md.md", str(ONE).upper() + "X.md"):
        assert parse_name(name) is None
    assert read_id(b"id: " + str(ONE).encode()) is None
    assert read_id(b"---\nid: not-an-id\n") is None
