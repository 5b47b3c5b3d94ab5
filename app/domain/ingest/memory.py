"""Fields of a memory as submitted by callers, their limits, and the decoding of edits; `bodies` decodes memories."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, NoReturn

import msgspec

from app.domain.ingest import fields, json_input
from app.domain.ingest.fields import Column
from app.domain.ingest.roles import Role
from app.domain.ingest.sources import Source
from app.domain.strength.links import LINKS_AT_INGEST, GivenLink
from app.errors import FieldError, Invalid

TEXT_MAX_BYTES = 32 * 1024
METADATA_MAX_BYTES = 16 * 1024
LABELS_MAX = 64
LABEL_MAX_CHARACTERS = 256
NAME_MAX_CHARACTERS = 512
EMBEDDING_MAX_DIMENSIONS = 16_000
METADATA_MAX_DEPTH = 32
KEEP_DAYS_MAX = 36_500
POSITION_MAX_CHARACTERS: Final = 31
_POSITION: Final = re.compile(r"[0-9]{1,15}-[0-9]{1,15}")
_EDGES = (1, 9999)
BLANK: Final = "must not be blank"

KINDS = ("episodic", "semantic", "procedural", "emotional", "system")
Kind = Literal["episodic", "semantic", "procedural", "emotional", "system"]

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_MAX_CHARACTERS)]
_Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=LABELS_MAX)]
Labels = Annotated[tuple[Label, ...], msgspec.Meta(max_length=LABELS_MAX)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX_BYTES)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Salience = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Multiplier = Annotated[float, msgspec.Meta(ge=0, le=2)]
KeepDays = Annotated[float, msgspec.Meta(gt=0, le=KEEP_DAYS_MAX)]
_Links = Annotated[tuple[GivenLink, ...], msgspec.Meta(max_length=LINKS_AT_INGEST)]
_Vector = Annotated[list[float], msgspec.Meta(min_length=1, max_length=EMBEDDING_MAX_DIMENSIONS)]


class Written(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Origin of a write that waited at its sender, such as in a file of unsent writes.

    Attributes:
        at: Time of the write by the sender's clock, with an offset. The request's header `Ebbing-Sent-At` states the
            time of sending by the same clock; only the difference of both times counts, so the clock may be wrong.
        after: The last value of the response header `Ebbing-Position` that the sender had received by then.
    """

    at: Moment
    after: Annotated[str, msgspec.Meta(max_length=POSITION_MAX_CHARACTERS)] | None = None


# This declaration of a memory's fields determines the table, COPY, statements, edits, responses and exports.
class MemoryIn(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A memory as submitted. Only `text` is required.

    Attributes:
        text: 1 byte to 32 KiB of UTF-8.
        subject: The person described by the data.
        thread: The conversation of the memory; turns are ordered by acceptance.
        speaker: The speaker's name.
        kind: Kind of memory; determined later if omitted.
        occurred_at: Time of the event, with an offset; defaults to the time of acceptance.
        tags: Up to 64 tags.
        categories: Up to 64 privacy or retention categories.
        entities: Up to 64 names of people, places and things.
        metadata: An object of up to 16 KiB as JSON, stored unchanged.
        salience: How much the memory matters, 0 to 1; scored if omitted.
        multiplier: Strength multiplier, 0 to 2.
        embedding: A vector of the tenant's embedding space.
        external_id: The caller's own id: submitting it again updates that memory.
        supersedes: Memories that are no longer true because of this memory: an id or external id, or a list of up to
            64.
        role: The speaker's role in a conversation with an assistant: user, assistant, system or tool. If omitted, a
            speaker with exactly one of these names has that role. By default, searches and recalls omit the roles
            system and tool.
        expires_at: Time after which the memory is deleted, with an offset, if its retention period doesn't end before.
            A repeated `external_id` without it keeps the earlier time.
        keep_days: `expires_at` in days after acceptance, or after the edit: more than 0, up to 36,500.
        links: Up to 64 links to other memories. A target that isn't stored is reported as `links_missing`; if `to` is
            an external id, the link is added when a memory with that id arrives. A repeated `external_id` adds links
            and removes none.
        written: For a write that waited at its sender: the memory is dropped if its subject or thread was erased after
            the write.
        source: Who wrote the memory: user, agent, document, tool, import or unknown, from the highest to the lowest. By
            default the API key's source; a lower one may be given. A change of the memory never raises it.
    """

    text: Annotated[_Text, Column(is_enriched=True, is_cold=True)]
    subject: Name | None = None
    thread: Annotated[Name | None, Column(is_enriched=True)] = None
    speaker: Annotated[Name | None, Column(is_enriched=True)] = None
    kind: Kind | None = None
    occurred_at: Annotated[Moment | None, Column(is_enriched=True)] = None
    tags: Labels = ()
    categories: Labels = ()
    entities: Annotated[Labels, Column(is_cold=True)] = ()
    metadata: Annotated[dict[str, Any] | None, Column(is_clearable=False, is_cold=True)] = None
    salience: Annotated[_Salience | None, Column("memory_state")] = None
    multiplier: Annotated[_Multiplier | None, Column("memory_state", is_clearable=False)] = None
    embedding: Annotated[_Vector | None, Column(None)] = None
    external_id: Annotated[Name | None, Column(is_key=True)] = None
    supersedes: Annotated[Name | _Names, Column(None)] = ()
    role: Annotated[Role | None, Column(is_enriched=True)] = None
    expires_at: Annotated[Moment | None, Column(is_kept=True)] = None
    keep_days: Annotated[KeepDays | None, Column(None, sets="expires_at")] = None
    links: Annotated[_Links, Column(None)] = ()
    written: Annotated[Written | None, Column(None)] = None
    source: Annotated[Source | None, Column(is_clearable=False)] = None

    @property
    def superseded(self) -> tuple[str, ...]:
        """The distinct ids and external ids in `supersedes`, in order."""
        return tuple(dict.fromkeys((self.supersedes,) if isinstance(self.supersedes, str) else self.supersedes))


FIELDS: Final = fields.declared(MemoryIn)
COLUMNS: Final = tuple(field for field in FIELDS if field.column.table == "memories")
CONTENT: Final = tuple(field for field in COLUMNS if not field.column.is_key)
"""The columns that an edit or an upsert may change."""
COLD: Final = tuple(field for field in COLUMNS if field.column.is_cold)

MemoryPatch = dict[str, Any]
"""The new values of an edit by field; omitted fields are unchanged, None clears a field."""
_EDIT: Final = "The fields of a memory that an edit may change; omitted fields are unchanged, null clears a field."
PATCH: Final = msgspec.defstruct(
    "MemoryPatch",
    [(field.name, field.edited, msgspec.UNSET) for field in FIELDS if field.column.is_editable],
    forbid_unknown_fields=True,
    frozen=True,
    namespace={"__doc__": _EDIT},
)
"""The JSON form of an edit."""


_patch: msgspec.json.Decoder[Any] = msgspec.json.Decoder(PATCH)


def decode_patch(body: bytes) -> MemoryPatch:
    """Decode the edit in a request's body.

    Raises:
        Unreadable: The bytes aren't JSON in UTF-8.
        Invalid: A field is invalid.
    """
    patch = json_input.read(body, _patch)
    check_closely(patch, None, None)
    if isinstance(patch.occurred_at, datetime):
        check_moment(patch.occurred_at, "occurred_at")
    check_retention(patch, None)
    if isinstance(patch.text, str) and patch.text.isspace():
        refuse_blank(None)
    return {name: value for name, value in msgspec.structs.asdict(patch).items() if value is not msgspec.UNSET}


def refuse_blank(place: int | None) -> NoReturn:
    """Refuse a text of white space.

    Raises:
        Invalid: Always; the error names the field.
    """
    raise Invalid(errors=[FieldError(field_path(place, "text"), BLANK)])


def check_closely(memory: Any, place: int | None, dimensions: int | None) -> None:
    """Check what msgspec can't: sizes in bytes, NUL characters (PostgreSQL can't store them), nesting depth, vectors.

    Raises:
        Invalid: A field is invalid; the error names it.
    """
    text = memory.text
    if isinstance(text, str) and len(text) * 4 > TEXT_MAX_BYTES:
        size = len(text.encode())
        if size > TEXT_MAX_BYTES:
            raise Invalid(errors=[FieldError(field_path(place, "text"), "is too long in bytes", size, TEXT_MAX_BYTES)])
    if isinstance(memory.metadata, dict):
        _check_metadata(memory.metadata, field_path(place, "metadata"))
    for name in memory.__struct_fields__:
        if name != "embedding" and _has_nul(getattr(memory, name)):
            raise Invalid(
                errors=[FieldError(field_path(place, name), "contains a NUL character, which can't be stored")]
            )
    if isinstance(memory, MemoryIn) and memory.embedding is not None:
        _check_embedding(memory.embedding, field_path(place, "embedding"), dimensions)


def _check_metadata(metadata: dict[str, Any], field: str) -> None:
    if _is_deeper(metadata, METADATA_MAX_DEPTH):
        raise Invalid(errors=[FieldError(field, "is nested too deeply", None, METADATA_MAX_DEPTH)])
    size = len(msgspec.json.encode(metadata))
    if size > METADATA_MAX_BYTES:
        raise Invalid(errors=[FieldError(field, "is too large in bytes", size, METADATA_MAX_BYTES)])


def check_retention(memory: Any, place: int | None) -> None:
    """Refuse an `expires_at` that can't be stored, and one beside `keep_days`.

    Raises:
        Invalid: A field is invalid; the error names it.
    """
    if isinstance(memory.expires_at, datetime):
        check_moment(memory.expires_at, field_path(place, "expires_at"))
        if isinstance(memory.keep_days, float | int):
            raise Invalid(errors=[FieldError(field_path(place, "keep_days"), "can't be given beside expires_at")])


def check_links(memory: MemoryIn, place: int | None) -> None:
    """Refuse a link from a memory to its own external id.

    Raises:
        Invalid: A link's target is the memory; the error names the field.
    """
    for index, link in enumerate(memory.links):
        if link.to == memory.external_id:
            field = field_path(place, f"links[{index}].to")
            raise Invalid(errors=[FieldError(field, "must differ from the memory's own external_id")])


def check_written(memory: MemoryIn, place: int | None) -> None:
    """Refuse a `written.after` that isn't a position of the service.

    Raises:
        Invalid: It has another form; the error names the field.
    """
    if memory.written is not None and not _POSITION.fullmatch(memory.written.after or "0-0"):
        message = "must be a value of the header Ebbing-Position, such as 1760000000000-0"
        raise Invalid(errors=[FieldError(field_path(place, "written.after"), message)])


def with_expiry(memory: MemoryIn, accepted_at: float) -> MemoryIn:
    """Return the memory with `keep_days` replaced by the time of expiry.

    Args:
        accepted_at: Time of acceptance, in seconds since 1970.
    """
    if memory.keep_days is None:
        return memory
    expires_at = datetime.fromtimestamp(accepted_at, UTC) + timedelta(days=memory.keep_days)
    return msgspec.structs.replace(memory, expires_at=expires_at, keep_days=None)


def refuse_past(expires_at: datetime, now: datetime, field: str) -> None:
    """Refuse a time of expiry that has passed.

    Raises:
        Invalid: It has passed; the error names the field and both times.
    """
    if expires_at <= now:
        limit = now.isoformat(timespec="seconds")
        raise Invalid(errors=[FieldError(field, "must be in the future", expires_at.isoformat(), limit)])


def check_moment(moment: datetime, field: str) -> None:
    """Refuse a moment that PostgreSQL could store but Python couldn't read, because Python's calendar is shorter.

    Raises:
        Invalid: The moment is outside the years 1 to 9999 in UTC; the error names the field.
    """
    if moment.year in _EDGES:
        try:
            moment.astimezone(UTC)
        except OverflowError:
            raise Invalid(errors=[FieldError(field, "is outside of the years 1 to 9999 in UTC")]) from None


def _check_embedding(embedding: Sequence[float], field: str, dimensions: int | None) -> None:
    if dimensions is not None:
        check_size(embedding, field, dimensions)
    check_direction(embedding, field)


def check_size(vector: Sequence[float], field: str, dimensions: int) -> None:
    """Refuse a vector with another number of dimensions than the tenant's embedding space.

    Raises:
        Invalid: The numbers differ; the error names the field and both numbers.
    """
    if len(vector) != dimensions:
        message = "must have as many dimensions as the tenant's embedding space"
        raise Invalid(errors=[FieldError(field, message, len(vector), dimensions)])


def check_direction(vector: Sequence[float], field: str) -> None:
    """Refuse a vector without a direction.

    Raises:
        Invalid: The vector is all zero, or so large that its norm isn't finite; the error names the field.
    """
    norm = math.hypot(*vector)
    if not math.isfinite(norm) or norm < 1e-12:
        raise Invalid(errors=[FieldError(field, "has no direction: all zero, or too large")])


def _has_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    return isinstance(value, list | tuple) and any(_has_nul(item) for item in value)


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether containers are nested more than `levels` deep, without descending further."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def field_path(place: int | None, name: str) -> str:
    """Return the name of a memory's field, with the memory's index in an array or among lines."""
    return name if place is None else f"[{place}].{name}"
