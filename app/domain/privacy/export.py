"""Exports of a subject's data: the request, the lines of the portable export, and the sealed parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.memory import COLD, FIELDS
from app.domain.privacy.case_details import CaseReference, Controller
from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.legal_hold import REASON_MAX_CHARACTERS, TEXT, StorableName

ExportKind = Literal["access", "portable"]

MEMORIES_MAX: Final = 1_000_000
"""Maximum number of memories in an export; callers list the memories of larger subjects by thread or time instead."""
PART_BYTES: Final = 4 << 20
"""Maximum total size of the lines that are sealed together; a line is never split."""
FORMAT: Final = "ebbing-export-1"


_REMARKS: Final = {"hidden": "hidden", "damaged": "unreadable"}


def count_lines(counts: Mapping[str, int]) -> dict[str, int]:
    """Return an export's counts without those of hidden and of unreadable memories: the number of lines by file."""
    return {name: count for name, count in counts.items() if name not in _REMARKS}


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return an export's counts in words, such as `3 in memories.jsonl, 1 hidden, 1 unreadable`."""
    lines = [f"{count:,} in {name}" for name, count in count_lines(counts).items()]
    remarks = [f"{counts[name]:,} {text}" for name, text in _REMARKS.items() if counts.get(name)]
    return ", ".join([*lines, *remarks])


class NewExport(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A requested export of the data stored about a subject.

    Attributes:
        subject: The person.
        kind: `access` for all stored and derived data, `portable` for the submitted data, in a reusable format.
            Default: the right of `request_id`, otherwise `access`.
        law: Legal basis of the request; `user` if it refers to no law, which sets no legal deadlines. Default: the law
            of `request_id`, otherwise `user`.
        reason: The reason, up to 2,000 characters; stored until the export expires.
        controller: Name of the company that answers, for the letters; stored in the request log for 24 months.
        case_reference: Reference of the case or letter, stored with `controller`. It must not contain personal data.
        received_at: Time at which the request was received, if it is entered later; the legal deadline counts from it.
            Default: now. It can't be in the future.
        request_id: ID of an open request in the log that this export answers. The request keeps its ID, its time of
            receipt, identity check, extension and deadline; `received_at` must be omitted.
        dry_run: Only check the request and count the memories; nothing is exported or recorded.
    """

    subject: StorableName
    kind: ExportKind | None = None
    law: Law | None = None
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX_CHARACTERS, pattern=TEXT)] | None = None
    controller: Controller | None = None
    case_reference: CaseReference | None = None
    received_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    request_id: UUID | None = None
    dry_run: bool = False


_FIRST: Final = ("text", "occurred_at", "subject", "thread", "speaker", "external_id")
"""The first fields of a line; the others follow in the order of their declaration."""
_FIELDS: Final = {field.name: field for field in FIELDS if field.column.table}
GIVEN: Final = tuple(dict.fromkeys((*_FIRST, *_FIELDS)))
"""The fields of a line of the portable export."""
_DESCRIPTION: Final = """A memory as submitted: a line of the portable export, which `POST /v1/memories` accepts.

    Attributes:
        occurred_at: When it happened, or when it was accepted if that wasn't given."""
_Given = msgspec.defstruct(
    "Given",
    [
        ("text", str),
        ("occurred_at", datetime),
        *((name, _FIELDS[name].plain, _FIELDS[name].default) for name in GIVEN if name not in ("text", "occurred_at")),
    ],
    forbid_unknown_fields=True,
    frozen=True,
    namespace={"__doc__": _DESCRIPTION},
)


def in_record(record: str) -> dict[str, Any]:
    """Return a memory's fields from its cold storage record; JSON objects stay encoded as they were written."""
    record_fields = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
    return {
        field.name: raw if field.value_type == "json" and raw != _NULL else msgspec.json.decode(raw)
        for field in COLD
        if (raw := record_fields.get(field.name)) is not None
    }


_NULL: Final = msgspec.Raw(b"null")


def format_line(fields: Mapping[str, Any]) -> bytes:
    """Return a line of the portable export from the fields in `GIVEN`, without empty fields."""
    return msgspec.json.encode({name: value for name, value in fields.items() if value not in (None, [], ())})


def line_schema() -> dict[str, Any]:
    """Return the JSON Schema of a line of the portable export."""
    shape: dict[str, Any] = msgspec.json.schema(_Given)["$defs"]["Given"]
    title = "A memory as it was given to Ebbing"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | shape | {"title": title}


def split_parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines in parts of up to `PART_BYTES`; a longer line gets a part of its own."""
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


def part_associated_data(owner: bytes, number: int) -> bytes:
    """Return the associated data of a sealed part: the ids of its tenant and export, and its number in the export."""
    return b"export" + owner + number.to_bytes(4, "big")
