"""Arguments and results of mem0's interface, converted from and to those of Ebbing. No input or output."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ebbing_client.errors import Misconfigured, invalid_field
from ebbing_client.operations import Message
from ebbing_client.records import convert_messages
from ebbing_client.results import Hit, read_time
from ebbing_client.results import Memory as Stored

if TYPE_CHECKING:
    from ebbing_client.async_client import AsyncEbbing
    from ebbing_client.client import Ebbing

IDS: Final = ("user_id", "agent_id", "run_id")
AGENT: Final = "agent:"
TOP_K: Final = 20
RERANK_MAX: Final = 50
PROCEDURAL: Final = "procedural_memory"
UNSET: Final[Any] = object()
UPDATED: Final = {"message": "Memory updated successfully!"}
DELETED: Final = {"message": "Memory deleted successfully!"}
ALL_DELETED: Final = {"message": "Memories deleted successfully!"}

Messages: TypeAlias = "str | Message | Sequence[Message]"
Day: TypeAlias = "str | date"
REASONS: Final = {
    "infer": "texts are stored as they are",
    "prompt": "no model extracts facts from texts",
    "threshold": "scores are comparable only within one search",
    "reference_date": "use Ebbing.search with `after` and `before`",
    "show_expired": "expired memories are deleted",
}


class AddOptions(TypedDict, total=False):
    """Options of `Memory.add`; at least one id is required.

    Attributes:
        timestamp: Time of the event: seconds since 1970, or a time with an offset.
        expiration_date: Last day of the memory in UTC, such as `2026-12-31`.
        infer: False; True is refused.
        memory_type: None or `procedural_memory`.
        prompt: None; others are refused.
    """

    user_id: str | None
    agent_id: str | None
    run_id: str | None
    metadata: Mapping[str, Any] | None
    timestamp: float | str | datetime | None
    expiration_date: Day | None
    infer: bool
    memory_type: str | None
    prompt: str | None


class ListOptions(TypedDict, total=False):
    """Options of `Memory.get_all`.

    Attributes:
        filters: At least one of `user_id`, `agent_id` and `run_id`; other keys compare metadata.
        top_k: Maximum number of results.
        show_expired: False; True is refused.
    """

    filters: Mapping[str, Any] | None
    top_k: int
    show_expired: bool


class SearchOptions(ListOptions, total=False):
    """Options of `Memory.search`.

    Attributes:
        threshold: None; others are refused.
        rerank: Let the service's reranker reorder the results.
        explain: Add `score_details`.
        reference_date: None; others are refused.
    """

    threshold: float | None
    rerank: bool
    explain: bool
    reference_date: Any


def check_unbuffered(ebbing: Ebbing | AsyncEbbing) -> None:
    """Refuse a client whose writes get no ids.

    Raises:
        Misconfigured: It sends batches, or has a spool.
    """
    if ebbing.is_buffering:
        raise Misconfigured("mem0's interface returns ids: use a client without batches and without a spool")


def _check_known(options: Mapping[str, Any], known: type) -> None:
    for name in options.keys() - known.__annotations__.keys():
        if name in IDS:
            raise invalid_field(name, "belongs into filters, such as filters={'user_id': 'ann'}")
        raise TypeError(f"unexpected argument {name!r}")


def _refuse(options: Mapping[str, Any], *names: str) -> None:
    """Refuse arguments of mem0 that have no counterpart.

    Raises:
        Invalid: One of them is set; the error names it and the reason.
    """
    for name in names:
        if options.get(name) not in (None, False):
            raise invalid_field(name, f"isn't possible: {REASONS[name]}")


def _scope(ids: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of memories with these ids.

    Raises:
        Invalid: No id is given.
    """
    fields: dict[str, Any] = {}
    if ids.get("user_id"):
        fields["subject"] = ids["user_id"]
    if ids.get("run_id"):
        fields["thread"] = ids["run_id"]
    if ids.get("agent_id"):
        fields["tags"] = [f"{AGENT}{ids['agent_id']}"]
    if not fields:
        raise invalid_field("filters", f"needs at least one of {', '.join(IDS)}")
    return fields


def _filters(filters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields by which memories are selected: those of the ids, and `metadata` for the other keys."""
    given = dict(filters or {})
    for name, value in given.items():
        if name in {"AND", "OR", "NOT"} or isinstance(value, (Mapping, list)) or value == "*":
            raise invalid_field(f"filters.{name}", "isn't possible: only equal values can be selected")
    fields = _scope({name: given.pop(name, None) for name in IDS})
    return fields | ({"metadata": given} if given else {})


def search_arguments(options: SearchOptions) -> dict[str, Any]:
    """Return the arguments of `Ebbing.search`."""
    _check_known(options, SearchOptions)
    _refuse(options, "threshold", "reference_date", "show_expired")
    top_k = options.get("top_k", TOP_K)
    arguments = _filters(options.get("filters")) | {"limit": top_k, "explain": options.get("explain", False)}
    return arguments | ({"rerank": min(top_k, RERANK_MAX)} if options.get("rerank") else {})


def list_arguments(options: ListOptions) -> tuple[int, dict[str, Any]]:
    """Return the maximum number of results, and the arguments of `Ebbing.memories`."""
    _check_known(options, ListOptions)
    _refuse(options, "show_expired")
    arguments = _filters(options.get("filters"))
    if "tags" in arguments:
        [arguments["tag"]] = arguments.pop("tags")
    return options.get("top_k", TOP_K), arguments


def make_bodies(messages: Messages, options: AddOptions) -> list[dict[str, Any]]:
    """Return the memories of a text or of messages with the fields of the service's API."""
    _check_known(options, AddOptions)
    _refuse(options, "infer", "prompt")
    fields = _scope(options)
    if options.get("metadata"):
        fields["metadata"] = dict(options["metadata"] or {})
    timestamp = options.get("timestamp")
    if isinstance(timestamp, (int, float)):
        fields["occurred_at"] = datetime.fromtimestamp(timestamp, timezone.utc)
    elif timestamp is not None:
        fields["occurred_at"] = timestamp
    if (day := options.get("expiration_date")) is not None:
        fields["expires_at"] = _end_of(day)
    if (kind := options.get("memory_type")) is not None:
        if kind != PROCEDURAL:
            raise invalid_field("memory_type", f"must be None or {PROCEDURAL}")
        fields["kind"] = "procedural"
    chat = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    bodies, _, _ = convert_messages([chat] if isinstance(chat, Mapping) else chat, fields)
    return bodies


def _end_of(day: Day) -> datetime:
    """Return the end of a day in UTC.

    Raises:
        Invalid: The text isn't a date.
    """
    try:
        found = date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError:
        raise invalid_field("expiration_date", "must be a date such as 2026-12-31") from None
    return datetime.combine(found, time.min, timezone.utc) + timedelta(days=1)


def make_changes(
    text: str | None, metadata: Mapping[str, Any] | None, expiration_date: Day | None, data: str | None
) -> dict[str, Any]:
    """Return the fields to change."""
    changes: dict[str, Any] = {"text": data if text is None else text}
    changes["metadata"] = None if metadata is None else dict(metadata)
    given = {name: value for name, value in changes.items() if value is not None}
    if expiration_date is not UNSET:
        given["expires_at"] = None if expiration_date is None else _end_of(expiration_date)
    return given


def make_erasure(ids: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the request for the erasure of all memories with these ids."""
    scope = _scope(ids)
    tags = scope.pop("tags", None)
    return scope | ({"filter": {"tags": tags}} if tags else {})


def show_added(bodies: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> dict[str, Any]:
    """Return the result of `Memory.add`."""
    results = [
        {"id": memory_id, "memory": body["text"], "event": "ADD", "role": body["role"]}
        for memory_id, body in zip(ids, bodies, strict=True)
    ]
    return {"results": results}


def shown(memory: Stored | Hit) -> dict[str, Any]:
    """Return a memory with mem0's names of the fields; optional ones without a value are left out."""
    agents = [tag.removeprefix(AGENT) for tag in memory.tags if tag.startswith(AGENT)]
    expires_at = read_time(memory.raw.get("expires_at"))
    optional: dict[str, Any] = {
        "user_id": memory.subject,
        "agent_id": agents[0] if agents else None,
        "run_id": memory.thread,
        "actor_id": memory.speaker,
        "role": memory.role,
        "expiration_date": None if expires_at is None else (expires_at - timedelta(microseconds=1)).date().isoformat(),
    }
    if isinstance(memory, Hit):
        optional |= {"score": memory.score, "score_details": memory.explain}
    return {
        "id": memory.id,
        "memory": memory.text,
        "hash": hashlib.md5(memory.text.encode(), usedforsecurity=False).hexdigest(),
        "metadata": dict(memory.metadata) or None,
        "created_at": _iso(memory.created_at),
        "updated_at": memory.raw.get("updated_at"),
        **{name: value for name, value in optional.items() if value is not None},
    }


def list_changes(memory: Stored) -> list[dict[str, Any]]:
    """Return the history of a memory's text, oldest first."""
    created, updated = _iso(memory.created_at), memory.raw.get("updated_at")
    added = {
        "id": f"{memory.id}:0",
        "memory_id": memory.id,
        "old_memory": None,
        "new_memory": None if updated else memory.text,
        "event": "ADD",
        "created_at": created,
        "updated_at": None,
        "is_deleted": False,
    }
    edited = {"id": f"{memory.id}:1", "new_memory": memory.text, "event": "UPDATE", "updated_at": updated}
    return [added, added | edited] if updated else [added]


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
