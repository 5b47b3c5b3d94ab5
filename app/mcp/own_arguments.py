"""Arguments of Ebbing's own tools. Types and limits are those of the API's requests."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import KeepDays, Kind, Labels, Moment, Name
from app.domain.ingest.roles import Role
from app.domain.ingest.uses import MEMORIES_MAX
from app.domain.recall.parameters import RECALLED_MAX, TOKENS_MAX
from app.domain.recall.request import MESSAGES_MAX
from app.domain.search.request import QUERY_MAX_CHARACTERS, RESULTS_MAX, Tier
from app.domain.strength import links
from app.mcp.tool import Arguments

REVIEWS_MAX = 1_000

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=QUERY_MAX_CHARACTERS)]
_Salience = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Some = Annotated[int, msgspec.Meta(ge=1, le=RESULTS_MAX)]


class Remember(Arguments, frozen=True):
    """A memory to store.

    Attributes:
        text: One fact, decision, preference or event as a complete sentence that is understandable without the
            conversation; up to 32 KiB.
        subject: The person described by the memory, such as a user id. Needed to erase or export a person's data.
        thread: The conversation to which the memory belongs.
        speaker: Name of the person who said it.
        role: Role of the speaker in the conversation.
        kind: Kind of memory; determined from the text if omitted.
        occurred_at: Time of the event, with an offset, such as 2026-11-20T18:00:00Z; default now.
        tags: Up to 64 tags, by which searches can filter.
        entities: Up to 64 names of people, places and things in the text.
        salience: How much the memory matters, 0 to 1; scored from the text if omitted.
        supersedes: Ids of up to 64 memories that are no longer true because of this one.
        keep_days: Days after which the memory is deleted in any case; without it, the tenant's policy decides.
    """

    text: _Text
    subject: Name | None = None
    thread: Name | None = None
    speaker: Name | None = None
    role: Role | None = None
    kind: Kind | None = None
    occurred_at: Moment | None = None
    tags: Labels = ()
    entities: Labels = ()
    salience: _Salience | None = None
    supersedes: Annotated[tuple[UUID, ...], msgspec.Meta(max_length=64)] = ()
    keep_days: KeepDays | None = None


@precompile
class Message(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A message of the conversation.

    Attributes:
        text: The text of the message.
        role: Role of its author; a message without a role counts as the user's.
    """

    text: _Text
    role: Role | None = None


class Recall(Arguments, frozen=True):
    """The conversation for which memories are recalled.

    Attributes:
        messages: The last messages of the conversation, oldest first, 1 to 100; a single question is enough.
        limit: Maximum number of memories.
        token_budget: Maximum number of tokens of the returned text.
        subject: Only memories about this person.
        thread: Only memories of this conversation.
        exclude_thread: No memories of this conversation, such as the current one.
        tags: Only memories that have all of these tags.
        kinds: Only memories of one of these kinds.
    """

    messages: Annotated[list[str | Message], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=RECALLED_MAX)] | None = None
    token_budget: Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX)] | None = None
    subject: Name | None = None
    thread: Name | None = None
    exclude_thread: Name | None = None
    tags: Labels = ()
    kinds: tuple[Kind, ...] = ()


class Search(Arguments, frozen=True):
    """A search.

    Attributes:
        query: Words or a question; matched by words and by meaning.
        limit: Maximum number of results, 1 to 100.
        subject: Only memories about this person.
        thread: Only memories of this conversation.
        exclude_thread: No memories of this conversation.
        tags: Only memories that have all of these tags.
        kinds: Only memories of one of these kinds.
        entities: Only memories that have all of these entities.
        speaker: Only memories of the speaker with this name.
        after: Only memories of events at or after this time, with an offset.
        before: Only memories of events before this time, with an offset.
        tiers: Only memories in these tiers; `archived` and `cold` contain faded memories.
        superseded: Include memories that are no longer true.
    """

    query: _Text
    limit: _Some = 10
    subject: Name | None = None
    thread: Name | None = None
    exclude_thread: Name | None = None
    tags: Labels = ()
    kinds: tuple[Kind, ...] = ()
    entities: Labels = ()
    speaker: Name | None = None
    after: Moment | None = None
    before: Moment | None = None
    tiers: Annotated[tuple[Tier, ...], msgspec.Meta(min_length=1)] = ("active",)
    superseded: bool = False


class OneMemory(Arguments, frozen=True):
    """A memory and a time.

    Attributes:
        id: Id of the memory.
        as_of: Time for which strength and tier are computed, with an offset; default now.
    """

    id: UUID
    as_of: Moment | None = None


class Correct(Arguments, frozen=True):
    """The fields of a memory to change; null clears a field, and omitted fields are unchanged.

    Attributes:
        id: Id of the memory.
        text: The corrected text.
        subject: The person described by the memory.
        kind: Kind of memory.
        occurred_at: Time of the event, with an offset.
        tags: All tags of the memory; they replace the stored ones.
        entities: All entities of the memory; they replace the stored ones.
        salience: How much the memory matters, 0 to 1.
        confirm: True changes the memory; false returns the stored and the new values, and changes nothing.
    """

    id: UUID
    text: _Text | msgspec.UnsetType = msgspec.UNSET
    subject: Name | msgspec.UnsetType | None = msgspec.UNSET
    kind: Kind | msgspec.UnsetType | None = msgspec.UNSET
    occurred_at: Moment | msgspec.UnsetType | None = msgspec.UNSET
    tags: Labels | msgspec.UnsetType = msgspec.UNSET
    entities: Labels | msgspec.UnsetType = msgspec.UNSET
    salience: _Salience | msgspec.UnsetType | None = msgspec.UNSET
    confirm: bool = False


class Supersede(Arguments, frozen=True):
    """Two stored memories.

    Attributes:
        memory: Id of the newer memory, which is true now.
        supersedes: Id of the older memory, which is no longer true.
    """

    memory: UUID
    supersedes: UUID


class Forget(Arguments, frozen=True):
    """A memory to delete.

    Attributes:
        id: Id of the memory.
        confirm: True deletes the memory; false returns the memory and its legal holds, and deletes nothing.
    """

    id: UUID
    confirm: bool = False


class Observe(Arguments, frozen=True):
    """Used memories.

    Attributes:
        ids: Ids of the memories that your answer used, 1 to 1,000.
        session: The conversation that used them; it strengthens a memory at most once in a short time.
        context_tags: Up to 64 tags of the topic in which they were used.
    """

    ids: Annotated[list[UUID], msgspec.Meta(min_length=1, max_length=MEMORIES_MAX)]
    session: Name | None = None
    context_tags: Labels = ()


class LinkTwo(Arguments, frozen=True):
    """A link between two memories.

    Attributes:
        from_id: Id of the first memory.
        to_id: Id of the second memory.
        kind: Name of the relation, such as `caused`; 1 to 64 characters.
        weight: Strength of the relation, 0 to 1.
        both_ways: Also add the link in the opposite direction.
    """

    from_id: UUID
    to_id: UUID
    kind: links.Kind = "related"
    weight: links.Weight = 1.0
    both_ways: bool = False


class Reviews(Arguments, frozen=True):
    """A list of memories to review, or the result of one review.

    Attributes:
        by: `due` lists memories that are due, `danger` those that will soon be forgotten, `flagged` those that failed
            their last review or a later self-test.
        subject: Only memories about this person.
        limit: Maximum number of memories.
        id: Id of a reviewed memory, with `result`: records the result before the list is read.
        result: `passed` if the person remembered it, `failed` otherwise.
    """

    by: Literal["due", "danger", "flagged"] = "due"
    subject: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=REVIEWS_MAX)] | None = None
    id: UUID | None = None
    result: Literal["passed", "failed"] | None = None


class Stats(Arguments, frozen=True):
    """No arguments."""
