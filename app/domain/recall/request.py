"""Define the recall request, the window of messages that determine relevance, and the recalled memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import msgspec

from app.domain.ingest.memory import Kind, Moment, Name
from app.domain.ingest.roles import USUAL, Role, infer_role, read_message_role
from app.domain.ingest.sources import SOURCES, Source
from app.domain.recall.parameters import RECALLED_MAX, TOKENS_MAX
from app.domain.search.request import QUERY_MAX_CHARACTERS, SearchRequest, find_nul
from app.domain.text import tokens
from app.domain.text.words import content_words, format_line
from app.errors import FieldError, Invalid

MESSAGES_MAX: Final = 100

WINDOW_MESSAGES: Final = 5
WINDOW_TOKENS: Final = 2_048
"""The window is the last 5 messages or 2,048 tokens, whichever is less (seed 004 §1.4)."""
FADE: Final = 0.85
"""Decay factor per message: each message weighs 0.85 times as much as the next newer message."""
ASIDE: Final[frozenset[Role]] = frozenset({"system", "tool"})
"""Roles whose messages aren't part of the conversation."""

_FILTERS: Final = ("subject", "thread", "exclude_thread", "tags", "kinds", "after", "before", "roles", "sources")

_Text = Annotated[str, msgspec.Meta(max_length=QUERY_MAX_CHARACTERS)]


class Message(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A message of a conversation.

    Attributes:
        text: The message, up to 32,768 characters.
        content: Alias of `text`; null if the message has no text.
        role: As in `POST /v1/memories`: user, assistant, system or tool, or `human`, `ai`, `bot`, `model`, `developer`
            or `function`. Messages of the system and of tools are ignored; any other role counts as a person.
        speaker: Name of the speaker.
    """

    text: _Text | None = None
    content: _Text | None = None
    role: Name | None = None
    speaker: Name | None = None


class RecallRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A conversation and the filters for the memories to recall.

    Attributes:
        messages: The last messages, newest last, 1 to 100. Relevance uses what people said since the assistant's last
            message. If that refers to earlier messages, and recalls nothing or `least` is set, relevance also uses all
            of the last five messages, up to 2,048 tokens. Memories whose text occurs in any message aren't recalled.
        limit: Maximum number of memories, 1 to 20; null uses the tenant's policy.
        least: Minimum relevance (exclusive), 0 to 1; null uses the tenant's policy. 0 returns the most relevant
            memories however low their relevance.
        explain: Return the features behind each memory's relevance.
        token_budget: Maximum number of tokens in the context, 1 to 32,768; null uses the tenant's policy.
        subject: Only memories about this subject.
        thread: Only memories of this thread.
        exclude_thread: No memories of this thread, such as the conversation's own.
        tags: Only memories that have all of these tags.
        kinds: Only memories of one of these kinds; empty means any.
        roles: Only memories of these roles; null stands for memories without a role. If omitted, memories of the roles
            system and tool are excluded.
        after: Only memories of events at or after this time. If the time of the event is unknown, acceptance counts.
        before: Only memories of events before this time. If the time of the event is unknown, acceptance counts.
        sources: Only memories with one of these sources; empty means any that the policy allows (`recall.sources`).
    """

    messages: Annotated[list[_Text | Message], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=RECALLED_MAX)] | None = None
    least: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    explain: bool = False
    token_budget: Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX)] | None = None
    subject: Name | None = None
    thread: Name | None = None
    exclude_thread: Name | None = None
    tags: tuple[Name, ...] = ()
    kinds: tuple[Kind, ...] = ()
    after: Moment | None = None
    before: Moment | None = None
    roles: Annotated[tuple[Role | None, ...], msgspec.Meta(min_length=1)] = USUAL
    sources: Annotated[tuple[Source, ...], msgspec.Meta(max_length=len(SOURCES))] = ()

    def __post_init__(self) -> None:
        """Validate the messages and filters.

        Raises:
            Invalid: A message has both text and content, or has neither text, content nor role, or a text contains NUL.
        """
        errors: list[FieldError] = []
        for place, message in enumerate(self.messages):
            if isinstance(message, Message):
                errors += _find_faults(f"messages[{place}]", message)
            else:
                errors += find_nul({f"messages[{place}]": message})
        filters = {"subject": self.subject, "thread": self.thread, "exclude_thread": self.exclude_thread}
        errors += find_nul(filters, self.tags)
        if errors:
            raise Invalid(errors=errors)

    @property
    def lines(self) -> list[str]:
        """The non-empty lines of the conversation, newest last."""
        return [line for line in map(_line, self.messages) if line]

    def turns(self) -> list[WindowMessage]:
        """Return the messages in the window, newest first: at most five and 2,048 tokens.

        Of a message that exceeds the remaining tokens, only the end is returned.
        """
        conversation = [
            message_or_text
            for message_or_text in self.messages
            if isinstance(message_or_text, str) or read_message_role(message_or_text.role) not in ASIDE
        ]
        non_empty = [message_or_text for message_or_text in conversation if _line(message_or_text)]
        remaining_tokens, window = WINDOW_TOKENS, []
        for message in non_empty[: -WINDOW_MESSAGES - 1 : -1]:
            if remaining_tokens <= 0:
                break
            end = tokens.truncate_to_tail(" ".join(_line(message).split()), remaining_tokens)
            remaining_tokens -= tokens.count(end)
            if end:
                text = " ".join(_message_text(message).split())
                window.append(WindowMessage(end, end if end in text else text, by_user=_is_by_user(message)))
        return window

    def window(self) -> list[str]:
        """Return the lines of the messages in the window, newest first."""
        return [turn.line for turn in self.turns()]

    def search(self, window: Sequence[str], limit: int) -> SearchRequest:
        """Build the search request for the window's text; results are not reinforced, reviewed or reranked."""
        filters: dict[str, Any] = {name: getattr(self, name) for name in _FILTERS}
        query = " ".join(reversed(window))
        return SearchRequest(query, limit=limit, reinforce=False, review_blend=0.0, rerank=0, **filters)


class WindowMessage(NamedTuple):
    """A message in the window.

    Attributes:
        line: The message, prefixed with its speaker.
        said: The message without the speaker.
        by_user: False for a message of the assistant.
    """

    line: str
    said: str
    by_user: bool


class Recalled(msgspec.Struct, frozen=True):
    """A recalled memory.

    `highlight` is the part of the text that matches the conversation best, about 300 characters of whole sentences.
    `relevance` is 0 to 1 and comparable across conversations. `strength` is the current strength, 0 to 1. `role` is the
    speaker's role, null if unknown. `source` says who wrote the memory. `explain` is null unless requested.
    """

    id: UUID
    text: str
    highlight: str
    relevance: float
    strength: float
    due_for_review: bool
    tier: str
    subject: str | None
    thread: str | None
    speaker: str | None
    external_id: str | None
    kind: str | None
    tags: list[str]
    occurred_at: datetime | None
    created_at: datetime
    role: Role | None = None
    explain: dict[str, Any] | None = None
    source: Source = "unknown"


def spoken_by_user(turns: Sequence[WindowMessage]) -> list[str]:
    """Return the messages of people, without speakers; if there are none, return the assistant's messages."""
    return [turn.said for turn in turns if turn.by_user] or [turn.said for turn in turns]


def emphasis(window: Sequence[str]) -> dict[str, float]:
    """Return the weight of each content word of the window, 0 to 1, by the age of the newest message with that word."""
    weights: dict[str, float] = {}
    for age, line in enumerate(window):
        for word in content_words(line):
            weights.setdefault(word, FADE**age)
    return weights


def _message_text(message: str | Message) -> str:
    """Return the text of a message without its speaker."""
    return (message if isinstance(message, str) else message.text or message.content or "").strip()


def _line(message: str | Message) -> str:
    """Return the text of a message, prefixed with its speaker; empty if it has no text."""
    text = _message_text(message)
    return text if isinstance(message, str) else text and format_line(text, message.speaker)


def _is_by_user(message: str | Message) -> bool:
    if isinstance(message, str):
        return True
    role = read_message_role(message.role) if message.role else infer_role(None, message.speaker)
    return role != "assistant"


def _find_faults(place: str, message: Message) -> list[FieldError]:
    if message.text is not None and message.content is not None:
        return [FieldError(place, "has both a text and a content")]
    if message.text is None and message.content is None and message.role is None:
        return [FieldError(f"{place}.text", "is missing")]
    fields = {"text": message.text, "content": message.content, "speaker": message.speaker}
    return find_nul({f"{place}.{name}": text for name, text in fields.items()})
