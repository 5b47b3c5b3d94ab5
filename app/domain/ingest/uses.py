"""Touches, which record uses of memories: the format callers send, and the format in the stream."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from app.domain.ingest import json_input
from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.memory import Labels, Moment, Name, check_moment
from app.errors import FieldError, Invalid

MEMORIES_MAX: Final = 1000
_FIRST_MOMENT: Final = -62_135_596_800  # the year 1, before which Python can't represent moments


class Used(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A used memory with the moment of its use.

    Attributes:
        id: Id of the memory.
        used_at: Moment of use; defaults to the time of acceptance, which also replaces future moments.
    """

    id: UUID
    used_at: Moment | None = None


class Observation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Uses of memories as reported by a caller.

    Attributes:
        memories: 1 to 1,000 memories with the moments of their uses, instead of `ids`; an item may be just an id.
        ids: Ids of used memories, such as the `ids` of a response of `POST /v1/recall`; at most 1,000, may be empty.
        context_tags: Up to 64 tags of the context of use: mnemex boosts memories used in another domain.
        session: The conversation that used the memories; a session reinforces a memory at most once per refractory
            period.
        boost: Also raise the memories' multipliers (mnemex).
    """

    memories: Annotated[list[UUID | Used], msgspec.Meta(min_length=1, max_length=MEMORIES_MAX)] | None = None
    ids: Annotated[list[UUID], msgspec.Meta(max_length=MEMORIES_MAX)] | None = None
    context_tags: Labels = ()
    session: Name | None = None
    boost: bool = False

    def __post_init__(self) -> None:
        """Refuse requests with both `memories` and `ids`, or neither.

        Raises:
            Invalid: The request has both or neither.
        """
        if (self.memories is None) == (self.ids is None):
            if self.ids is None:
                raise Invalid(errors=[FieldError("ids", "is missing: give `ids`, or `memories` with times")])
            raise Invalid(errors=[FieldError("memories", "can't be combined with `ids`")])


class OneTouch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Use of one memory. `Observation` and `Used` describe the fields."""

    context_tags: Labels = ()
    session: Name | None = None
    boost: bool = False
    used_at: Moment | None = None


class Use(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A use of a memory.

    Attributes:
        id: The memory's id, or an alias.
        at: Moment of use, in seconds since 1970; None means the time of the envelope's acceptance.
        place: Rank in the results of a search, from 0.
        margin: Similarity minus the similarity of the next result, -1 to 1.
        lexical: Whether the memory also matched the query's words.
    """

    id: UUID
    at: Annotated[float, msgspec.Meta(ge=_FIRST_MOMENT)] | None = None
    place: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    margin: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 0.0
    lexical: bool = False


class Touches(msgspec.Struct, frozen=True, omit_defaults=True):
    """Uses of memories, as stored in an envelope.

    Attributes:
        uses: The uses, at most `MEMORIES_MAX`.
        session: Digest of the session's name, from `session_digest`.
        boost: As in `Observation`.
        context_tags: As in `Observation`.
        by_search: Whether a search reported its best results as used, instead of a caller.
    """

    uses: Annotated[list[Use], msgspec.Meta(max_length=MEMORIES_MAX)]
    session: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    boost: bool = False
    context_tags: Labels = ()
    by_search: bool = False


_observation = msgspec.json.Decoder(Observation)
_one_touch = msgspec.json.Decoder(OneTouch)
_touches = msgspec.json.Decoder(Touches)


def parse_observation(body: bytes, tenant_id: UUID) -> Touches:
    """Return the touches in a request's body.

    Raises:
        Unreadable: The bytes aren't JSON in UTF-8.
        Invalid: A field is invalid; the error contains the field's name, limit and value.
    """
    observation = json_input.read(body, _observation)
    uses, faults = [], BodyFaults()
    for place, memory in enumerate(observation.memories or observation.ids or ()):
        try:
            uses.append(_use(memory, f"memories[{place}].used_at"))
        except Invalid as refused:
            faults.add(refused.errors)
    if (refusal := faults.refusal()) is not None:
        raise refusal
    return Touches(uses, session_digest(tenant_id, observation.session), observation.boost, observation.context_tags)


def parse_touch(body: bytes, tenant_id: UUID, memory_id: UUID) -> Touches:
    """Return the touch of one memory from a request's body, which may be empty; raises like `parse_observation`."""
    touch = json_input.read(body, _one_touch) if body else OneTouch()
    use = _use(Used(memory_id, touch.used_at), "used_at")
    return Touches([use], session_digest(tenant_id, touch.session), touch.boost, touch.context_tags)


def touch_results(uses: Sequence[Use], tenant_id: UUID, session: str | None) -> Touches:
    """Return the touches of a search's results."""
    return Touches(list(uses), session_digest(tenant_id, session), by_search=True)


def encode(touches: Touches) -> bytes:
    """Encode touches as the body of an envelope."""
    return msgspec.json.encode(touches)


def decode(body: bytes) -> Touches:
    """Decode the touches in an envelope's body.

    Raises:
        Unreadable: The bytes aren't JSON in UTF-8.
        Invalid: A field is invalid.
    """
    return json_input.read(body, _touches)


def session_digest(tenant_id: UUID, session: str | None) -> int:
    """Return the signed 64-bit digest stored instead of a session's name; all uses without a session have the same."""
    digest = hashlib.blake2b((session or "").encode(), digest_size=8, key=tenant_id.bytes)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _use(given: UUID | Used, field: str) -> Use:
    if isinstance(given, UUID):
        return Use(given)
    if given.used_at is None:
        return Use(given.id)
    check_moment(given.used_at, field)
    return Use(given.id, given.used_at.timestamp())
