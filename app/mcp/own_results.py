"""Results of Ebbing's own tools: only those fields of the API's responses that help a model, to save its context."""

from __future__ import annotations

from typing import Any

import msgspec

from app.domain.ingest.json_input import precompile


class Remembered(msgspec.Struct):
    """A stored memory.

    Attributes:
        id: Id of the memory.
        searchable: True if searches find it already; otherwise within seconds.
        supersedes: Outcome for each superseded memory.
    """

    id: str
    searchable: bool
    supersedes: list[dict[str, Any]] = []


@precompile
class Hit(msgspec.Struct):
    """A found memory.

    Attributes:
        id: Id of the memory.
        text: Its text.
        strength: Its current strength, 0 to 1.
        tier: `active`, `archived` or `cold`.
        subject: The person described by it.
        thread: Its conversation.
        speaker: Name of the person who said it.
        role: Role of the speaker.
        kind: Kind of memory.
        tags: Its tags.
        occurred_at: Time of the event.
        created_at: Time of acceptance.
        score: Rank value of a search; comparable only within one search.
        relevance: Relevance to the conversation of a recall, 0 to 1.
        superseded_by: Ids of memories that replaced it.
    """

    id: str
    text: str
    strength: float | None
    tier: str
    subject: str | None
    thread: str | None
    speaker: str | None
    role: str | None
    kind: str | None
    tags: list[str]
    occurred_at: str | None
    created_at: str
    score: float | None = None
    relevance: float | None = None
    superseded_by: list[str] | None = None


class Recalled(msgspec.Struct):
    """Memories for a conversation.

    Attributes:
        text: The memories as text for a prompt.
        ids: Ids of the memories, for `observe`.
        tokens: Tokens of the text.
        memories: The memories, most relevant first.
    """

    text: str
    ids: list[str]
    tokens: int
    memories: list[Hit]


class FoundMemories(msgspec.Struct):
    """Results of a search, best first.

    Attributes:
        results: The found memories.
    """

    results: list[Hit]


@precompile
class LinkShown(msgspec.Struct):
    """A link of a memory; `from` and `to` are ids."""

    from_id: str = msgspec.field(name="from")
    to_id: str = msgspec.field(name="to")
    kind: str
    weight: float


class MemoryShown(msgspec.Struct):
    """A memory with its state.

    Attributes:
        summary: True in cold storage: `text` contains only the first sentences.
        status: Progress of storage: pending, stored, indexed or embedded.
        importance: Current importance, 0 to 1.
        access_count: Number of uses.
        salience: How much it matters, with the source of the value.
        valid_to: Time from which a newer memory replaces it; null while it is current.
        supersedes: Ids of memories that it replaced.
        superseded_by: Ids of memories that replaced it.
        links: Up to 100 links from and to other memories.
        source: Who wrote it: user, agent, document, tool, import or unknown.
    """

    id: str
    text: str
    status: str
    tier: str
    summary: bool
    strength: float | None
    importance: float | None
    access_count: int
    subject: str | None
    thread: str | None
    speaker: str | None
    role: str | None
    kind: str | None
    tags: list[str]
    entities: list[str]
    categories: list[str]
    metadata: dict[str, Any]
    salience: dict[str, Any]
    external_id: str | None
    occurred_at: str | None
    created_at: str
    updated_at: str | None
    accessed_at: str | None
    next_review_at: str | None
    expires_at: str | None
    valid_to: str | None
    supersedes: list[str] | None
    superseded_by: list[str] | None
    links: list[LinkShown] = []
    source: str = "unknown"


class Corrected(msgspec.Struct):
    """A correction or its preview.

    Attributes:
        id: Id of the memory.
        changed: True if the memory was changed.
        before: The stored values of the fields to change.
        after: Their new values.
        next_step: How to perform a previewed change; null after a change.
    """

    id: str
    changed: bool
    before: dict[str, Any]
    after: dict[str, Any]
    next_step: str | None = None


class Forgotten(msgspec.Struct):
    """A deletion or its preview.

    Attributes:
        id: Id of the memory.
        forgotten: True if the memory was deleted.
        text: Text of the memory, in a preview.
        holds: Ids of the legal holds that prevent the deletion, in a preview.
        erasure_id: Id under which the deletion can be cancelled until `erase_after`.
        erase_after: Time after which the memory is erased permanently.
        next_step: How to perform a previewed deletion; null after a deletion.
    """

    id: str
    forgotten: bool
    text: str | None = None
    holds: list[str] = []
    erasure_id: str | None = None
    erase_after: str | None = None
    next_step: str | None = None


class Superseded(msgspec.Struct):
    """A supersession.

    Attributes:
        id: Id of the supersession.
        status: `active` if searches return only the newer memory from now on, `proposed` if a person decides.
        memory: Id of the newer memory.
        supersedes: Id of the older memory.
    """

    id: str
    status: str
    memory: str
    supersedes: str


class Observed(msgspec.Struct):
    """Accepted uses.

    Attributes:
        accepted: Number of reported ids; unknown ids are ignored later.
    """

    accepted: int


class Explained(msgspec.Struct):
    """A memory's tier and the reason for it.

    Attributes:
        tier: The current tier.
        source: Who wrote it.
        wanted: The tier in which the memory belongs; maintenance moves it there.
        rule: Name of the rule that decides.
        why: The rule's reason.
        numbers: Numbers that the rule used.
        next_change: The next tier change if the memory isn't used.
        holds: Legal holds on the memory.
        supersedes: Older memories that it replaced, or would replace.
    """

    id: str
    tier: str
    source: str
    wanted: str
    rule: str
    why: str
    numbers: dict[str, Any]
    next_change: dict[str, Any] | None
    holds: list[dict[str, Any]]
    supersedes: list[dict[str, Any]]


class Linked(msgspec.Struct):
    """Outcome of adding a link.

    Attributes:
        added: Number of new links.
        updated: Number of existing links whose weight was updated.
    """

    added: int
    updated: int


@precompile
class ReviewShown(msgspec.Struct):
    """A memory to review."""

    id: str
    text: str
    subject: str | None
    strength: float
    urgency: float
    next_review_at: str | None
    review_count: int
    flagged: bool


class ReviewList(msgspec.Struct):
    """Memories to review.

    Attributes:
        reviews: The most urgent memories.
        total: Number of all memories that match.
        recorded: Outcome of recording the given review result; null if none was given.
    """

    reviews: list[ReviewShown]
    total: int
    recorded: dict[str, Any] | None = None


class Counted(msgspec.Struct):
    """Counts of the tenant.

    Attributes:
        memories: Number of memories by tier.
        pending: Number of memories by the stage that hasn't processed them yet.
        dead_letters: Number of dead letters.
        room: Bytes of text and vectors, and the quota.
    """

    memories: dict[str, int]
    pending: dict[str, int]
    dead_letters: int
    room: dict[str, Any]
