"""The operations of the API: each function builds the `Call` that both clients send."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

from ebbing_client.call import Answer, Call, encode
from ebbing_client.errors import UnexpectedAnswer, invalid_field
from ebbing_client.fields import MemoryEdit, RecallFilters, SearchFilters
from ebbing_client.results import (
    Added,
    Deletion,
    Erasure,
    Event,
    Explanation,
    Memory,
    Page,
    Recalled,
    SearchResults,
    read_record,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

JSON_HEADERS: Final = {"Content-Type": "application/json"}
PAGE_LIMIT: Final = 100

Message: TypeAlias = Mapping[str, Any]
"""A chat message: `{"role": "user", "content": "Hello"}`."""


def new_key() -> str:
    """Return a new idempotency key."""
    return secrets.token_hex(16)


def write(
    content: bytes, key: str, *, wait: int | None = None, timeout: float | None = None, sent_ms: int | None = None
) -> Call[Added]:
    """Store memories or messages.

    Args:
        content: Body of `POST /v1/memories`.
        key: Idempotency key, the same for every attempt.
        wait: Seconds to wait until searches find the memories.
        sent_ms: Time of sending in milliseconds since 1970; None if no memory in the body has the field `written`.
    """
    headers = {**JSON_HEADERS, "Idempotency-Key": key}
    if sent_ms is not None:
        headers["Ebbing-Sent-At"] = str(sent_ms)
    if wait is not None:
        headers["Prefer"] = f"wait={wait}"
    return Call("POST", "/v1/memories", _read_added, content, headers, timeout=timeout)


def search(
    query: str = "", *, limit: int = 10, timeout: float | None = None, **filters: Unpack[SearchFilters]
) -> Call[SearchResults]:
    """Return the best memories for a query, best first.

    Results close to the best count as used unless `reinforce=False`. Filters have the names of `POST /v1/search`.
    """
    content = encode({"query": query, "limit": limit, **filters})
    return Call("POST", "/v1/search", _reads(SearchResults), content, JSON_HEADERS, timeout=timeout)


def recall(
    messages: str | Sequence[str | Message], *, timeout: float | None = None, **filters: Unpack[RecallFilters]
) -> Call[Recalled]:
    """Return the memories relevant to a conversation, and a text with them for your prompt.

    Args:
        messages: One text, or up to 100 messages, newest last.
        timeout: Seconds until the deadline; None uses the client's.
        filters: Options by the names of `POST /v1/recall`.
    """
    given = [messages] if isinstance(messages, str) else list(messages)
    content = encode({"messages": given, **filters})
    return Call("POST", "/v1/recall", _reads(Recalled), content, JSON_HEADERS, timeout=timeout)


def get(memory_id: str, *, as_of: datetime | str | None = None, timeout: float | None = None) -> Call[Memory]:
    """Return a memory, with its strength now or `as_of` a time."""
    return Call("GET", _memory(memory_id), _reads(Memory), params={"as_of": as_of}, timeout=timeout)


def update(memory_id: str, *, timeout: float | None = None, **changes: Unpack[MemoryEdit]) -> Call[Memory]:
    """Change the given fields of a memory and return it; None clears a field."""
    if not changes:
        raise invalid_field("body", "has no field to change")
    return Call("PATCH", _memory(memory_id), _reads(Memory), encode(changes), JSON_HEADERS, timeout=timeout)


def delete(memory_id: str, *, timeout: float | None = None) -> Call[Deletion]:
    """Delete a memory: searches, lists and reads omit it at once; until `erase_after`, `cancel_erasure` restores it."""
    return Call("DELETE", _memory(memory_id), _reads(Deletion), timeout=timeout)


def observe(
    ids: Sequence[str],
    *,
    session: str | None = None,
    context_tags: Sequence[str] = (),
    boost: bool = False,
    timeout: float | None = None,
) -> Call[None]:
    """Report memories that an answer used: they become stronger, which postpones their fading.

    Args:
        ids: Ids of a recall or search; without any, the service does nothing.
        session: The conversation; it reinforces a memory at most once per refractory period.
        context_tags: Tags of the context of use.
        boost: Raise the memories' multipliers, too.
        timeout: Seconds until the deadline; None uses the client's.
    """
    body = {"ids": list(ids), "session": session, "context_tags": list(context_tags), "boost": boost}
    headers = {**JSON_HEADERS, "Idempotency-Key": new_key()}
    return Call("POST", "/v1/observations", _read_nothing, encode(body), headers, timeout=timeout)


def forget(
    subject: str | None = None,
    *,
    thread: str | None = None,
    ids: Sequence[str] | None = None,
    law: str = "user",
    grace_days: int | None = None,
    reason: str | None = None,
    dry_run: bool = False,
    timeout: float | None = None,
) -> Call[Erasure]:
    """Erase a person's, a conversation's or named memories; the key needs the scope `privacy`.

    The memories are hidden before this returns, and erased after the grace period. Writes of the person or conversation
    that wait in this client's queue or spool are deleted at once, and `cancel_erasure` doesn't bring them back.

    Args:
        subject: Only data about this person.
        thread: Only data of this conversation.
        ids: Ids of up to 1,000 memories, without other conditions.
        law: `gdpr` or `ccpa` for a request under that law; `user` for any other deletion.
        grace_days: Days in which the erasure can be cancelled, 0 to 30.
        reason: The reason, stored until the erasure is finished.
        dry_run: Only count what would be hidden.
        timeout: Seconds until the deadline; None uses the client's.
    """
    body: dict[str, Any] = {
        "subject": subject,
        "thread": thread,
        "ids": None if ids is None else list(ids),
        "kind": law,
    }
    body |= {"grace_days": grace_days, "reason": reason}
    given = {name: value for name, value in body.items() if value is not None} | {"dry_run": dry_run}
    return Call(
        "POST",
        "/v1/privacy/erasures",
        _reads(Erasure),
        encode(given),
        JSON_HEADERS,
        is_repeatable=dry_run,
        timeout=timeout,
    )


def cancel_erasure(erasure_id: str, *, timeout: float | None = None) -> Call[Erasure]:
    """Cancel an erasure or a deletion in its grace period and restore the memories; needs the scope `privacy`."""
    path = f"/v1/privacy/erasures/{quote(erasure_id, safe='')}/cancel"
    return Call("POST", path, _reads(Erasure), is_repeatable=False, timeout=timeout)


def why(memory_id: str, *, as_of: datetime | str | None = None, timeout: float | None = None) -> Call[Explanation]:
    """Return the tier of a memory, the rule that decided it, and the next change."""
    return Call("GET", f"{_memory(memory_id)}/why", _reads(Explanation), params={"as_of": as_of}, timeout=timeout)


def call(
    method: str,
    path: str,
    *,
    json: object = None,
    params: Mapping[str, Any] | None = None,
    is_repeatable: bool | None = None,
    timeout: float | None = None,
) -> Call[dict[str, Any]]:
    """Call any route of the API and return the response's JSON object.

    Args:
        method: HTTP method.
        path: Path such as `/v1/stats`.
        json: Body.
        params: Query parameters; those that are None are left out.
        is_repeatable: True if a repetition has no further effect; by default GET, PUT and DELETE.
        timeout: Seconds until the deadline; None uses the client's.
    """
    content, headers = (None, {}) if json is None else (encode(json), JSON_HEADERS)
    repeatable = method in {"GET", "HEAD", "PUT", "DELETE"} if is_repeatable is None else is_repeatable
    return Call(method, path, Answer.json, content, headers, params or {}, repeatable, timeout)


def download(path: str, *, timeout: float | None = None) -> Call[bytes]:
    """Return the content of a file of the API, such as an export."""
    return Call("GET", path, lambda answer: answer.content, timeout=timeout)


def page(path: str, noun: str, params: Mapping[str, Any], cursor: str | None, timeout: float | None) -> Call[Page]:
    """Return a page of a list.

    Args:
        noun: Name of the list in the response.
        cursor: `next_cursor` of the page before; None for the first page.
    """

    def read(answer: Answer) -> Page:
        body = answer.json()
        if not isinstance(body.get(noun), list):
            raise UnexpectedAnswer(f"the response has no list `{noun}`: check the URL and the service's version")
        return Page(tuple(body[noun]), body.get("next_cursor"))

    return Call("GET", path, read, params={"limit": PAGE_LIMIT, **params, "cursor": cursor}, timeout=timeout)


def history_path(memory_id: str) -> str:
    """Return the path of a memory's history."""
    return f"{_memory(memory_id)}/history"


def list_params(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query parameters of a list of memories; `metadata` becomes JSON."""
    given = dict(filters)
    if given.get("metadata") is not None:
        given["metadata"] = encode(given["metadata"]).decode()
    return given


def read_event(item: Any) -> Event:
    """Return an event of a history."""
    return read_record(Event, item)


def read_memory(item: Any) -> Memory:
    """Return a memory of a list."""
    return read_record(Memory, item)


def _memory(memory_id: str) -> str:
    if not memory_id:
        raise invalid_field("memory_id", "must not be empty")
    return f"/v1/memories/{quote(memory_id, safe='')}"


def _reads(cls: type[T]) -> Callable[[Answer], T]:
    return lambda answer: read_record(cls, answer.json())


def _read_added(answer: Answer) -> Added:
    added = read_record(Added, answer.json())
    return replace(added, is_searchable=answer.status == 200, position=answer.position)


def _read_nothing(answer: Answer) -> None:
    answer.json()
