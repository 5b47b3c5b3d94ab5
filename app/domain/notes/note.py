"""The note of a promoted memory: Markdown with YAML front matter (seed 001, integration with Obsidian).

A note carries the hash of its other lines, so that an edit is detected without a second copy.
This module imports only the standard library, because `ebbing notes` uses it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

SUFFIX: Final = ".md"
TITLE_MAX_CHARACTERS: Final = 80
BYTES_MAX: Final = 8 * 1024 * 1024
"""Size above which a file isn't read, because the service never writes such a large note."""

Comparison = Literal["equal", "outdated", "edited"]
"""Result of `compare`: `outdated` files are written, `edited` ones aren't overwritten."""

_FENCE: Final = "---"
_HASH: Final = re.compile(rb"^hash: ([0-9a-f]{64})\n", re.MULTILINE)
_ID: Final = re.compile(rb"^id: ([0-9a-f-]{36})$", re.MULTILINE)
_HEAD_BYTES: Final = 128
_NAME: Final = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.md")


class NoteLink(NamedTuple):
    """A link between two promoted memories, as seen from one of them.

    Attributes:
        other_id: The memory at the other end.
        kind: Kind of the link.
        is_outgoing: True if the link starts at this memory.
    """

    other_id: UUID
    kind: str
    is_outgoing: bool


@dataclass(frozen=True, slots=True)
class PromotedMemory:
    """The content of a note.

    Attributes:
        reason: Reason of the promotion, one of `promotion.REASONS`.
        strength: Strength at the promotion; None if an earlier version promoted the memory.
        sources: For a summary, the ids of the memories that it was made from.
        links: Links with other promoted memories, in both directions.
    """

    memory_id: UUID
    text: str
    subject: str | None
    kind: str | None
    tags: tuple[str, ...]
    created_at: datetime
    occurred_at: datetime | None
    promoted_at: datetime
    reason: str
    strength: float | None
    sources: tuple[UUID, ...] = ()
    links: Sequence[NoteLink] = ()


def note_name(memory_id: UUID) -> str:
    """Return the file name of a memory's note."""
    return f"{memory_id}{SUFFIX}"


def parse_name(name: str) -> UUID | None:
    """Return the memory whose note has this file name; None for other files."""
    found = _NAME.fullmatch(name)
    return None if found is None else UUID(found[1])


def render_note(memory: PromotedMemory) -> bytes:
    """Return the note of a memory, with the hash of its other lines as the last line of its front matter."""
    title = make_title(memory.text)
    fields: dict[str, object] = {
        "title": title,
        "aliases": [title],
        "kind": memory.kind,
        "subject": memory.subject,
        "tags": list(memory.tags),
        "created": memory.created_at.isoformat(),
        "occurred": memory.occurred_at and memory.occurred_at.isoformat(),
        "promoted": memory.promoted_at.isoformat(),
        "reason": memory.reason,
        "strength": memory.strength and round(memory.strength, 4),
        "sources": [str(source_id) for source_id in memory.sources],
    }
    # JSON is valid YAML, and quotes whatever a text contains.
    shown = {name: json.dumps(value, ensure_ascii=False) for name, value in fields.items() if value not in (None, [])}
    front = [_FENCE, f"id: {memory.memory_id}", *(f"{name}: {value}" for name, value in shown.items())]
    body = [_FENCE, "", f"# {title}", "", memory.text, *_list_links(memory.links), ""]
    before, after = ("\n".join(lines).encode() for lines in (front, body))
    digest = hashlib.sha256(before + b"\n" + after).hexdigest()
    return b"%b\nhash: %b\n%b" % (before, digest.encode(), after)


def _list_links(links: Sequence[NoteLink]) -> list[str]:
    """Return the section of links; the other notes link back, because both ends list a link."""
    if not links:
        return []
    ends = {True: "", False: " (from there)"}
    lines = [f"- {link.kind}{ends[link.is_outgoing]}: [[{link.other_id}]]" for link in sorted(links)]
    return ["", "## Links", "", *lines]


def make_title(text: str) -> str:
    """Return the first line of a text without Markdown's mark of a heading, at most 80 characters, cut at a word."""
    first = next((line.strip() for line in text.splitlines() if line.strip(" \t#")), "").lstrip("# \t")
    printable = "".join(character if character.isprintable() else " " for character in first)
    words = " ".join(printable.split())
    if len(words) <= TITLE_MAX_CHARACTERS:
        return words or "Note"
    cut = words[: TITLE_MAX_CHARACTERS - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def compare(found: bytes | None, wanted: bytes, *, may_replace: bool = False) -> Comparison:
    """Compare the file of a note with the content that it should have.

    Args:
        found: The file's content; None if there is no file.
        wanted: The note as it should be.
        may_replace: Return `outdated` for an edited note too, so that it is replaced.
    """
    if found == wanted:
        return "equal"
    return "outdated" if found is None or may_replace or is_unedited(found) else "edited"


def is_unedited(content: bytes) -> bool:
    """Return whether a note is as it was written: its hash is that of its other lines."""
    found = _HASH.search(content)
    if found is None:
        return False
    digest = hashlib.sha256(content[: found.start()] + content[found.end() :]).hexdigest()
    return digest.encode() == found[1]


def read_id(content: bytes) -> UUID | None:
    """Return the memory that a file names in its front matter, whatever the file's name is; None if it names none."""
    if not content.startswith(_FENCE.encode()):
        return None
    found = _ID.search(content[:_HEAD_BYTES])
    try:
        return None if found is None else UUID(found[1].decode())
    except ValueError:
        return None
