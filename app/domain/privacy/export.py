"""Exports: what is asked for, what a line of the portable one holds, and what says what is in the zip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from app.domain.ingest.memory import NAME_MAX_CHARACTERS, Kind
from app.domain.ingest.roles import Role
from app.domain.privacy.clocks import Law
from app.domain.privacy.hold import REASON_MAX_CHARACTERS

ExportKind = Literal["access", "portable"]

MEMORIES_MAX: Final = 1_000_000
"""About one subject; who has more is given them by thread or by time, from the lists."""
PART_BYTES: Final = 4 << 20
"""Of lines that are sealed together; a line is never cut."""
FORMAT: Final = "ebbing-export-1"

_TEXT: Final = r"^[^\x00]*$"


class NewExport(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An export to be made of what is held on a subject.

    Attributes:
        subject: On whom.
        kind: `access` for all that is held and was worked out, `portable` for what was given, to be taken elsewhere.
        law: What it was asked under; `user` is somebody's own wish, without a legal clock.
        reason: Why, up to 2,000 characters; kept until it expires.
    """

    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=_TEXT)]
    kind: ExportKind = "access"
    law: Law = "user"
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX_CHARACTERS, pattern=_TEXT)] | None = None


class Given(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A memory as it was given: a line of the portable export, which `POST /v1/memories` takes.

    Attributes:
        occurred_at: When it happened; where nobody said so, when it was accepted.
    """

    text: str
    occurred_at: datetime
    subject: str | None = None
    thread: str | None = None
    speaker: str | None = None
    external_id: str | None = None
    kind: Kind | None = None
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    salience: float | None = None
    multiplier: float | None = None
    role: Role | None = None


def given_line(fields: Mapping[str, Any]) -> bytes:
    """A line of the portable export, of the fields of `Given`; what is empty is left out."""
    return msgspec.json.encode({name: value for name, value in fields.items() if value not in (None, [], ())})


def schema() -> dict[str, Any]:
    """The JSON Schema of a line of the portable export."""
    shape: dict[str, Any] = msgspec.json.schema(Given)["$defs"]["Given"]
    title = "A memory as it was given to Ebbing"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | shape | {"title": title}


def parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines in parts of up to `PART_BYTES`, a longer line alone."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    if part:
        yield part


def bound_to(owner: bytes, number: int) -> bytes:
    """What a sealed part belongs to: its export, as the ids of the tenant and of it, and its place in that."""
    return b"export" + owner + number.to_bytes(4, "big")
