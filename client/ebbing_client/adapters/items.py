"""Store JSON values under a namespace and a key; each item is a memory.

The memory's external id contains the namespace and the key, its metadata the value, its text the words to search
by, and its tags one name for each prefix of the namespace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Final, TypeAlias

from ebbing_client import operations
from ebbing_client.adapters.filters import check_filter, exact_part, matches
from ebbing_client.adapters.steps import KEPT_TAG, Steps, delete_named, list_named, list_page, write
from ebbing_client.call import encode
from ebbing_client.errors import NotFound, invalid_field
from ebbing_client.results import Memory, read_time

Namespace: TypeAlias = tuple[str, ...]

METADATA_MAX_BYTES: Final = 16 * 1024
TEXT_MAX_BYTES: Final = 32 * 1024
EXTERNAL_ID_MAX_CHARACTERS: Final = 512
TAG_MAX_CHARACTERS: Final = 256
LABELS_MAX: Final = 60
RANKED_MAX: Final = 100
"""Maximum number of results of one search."""
_MINUTES_A_DAY: Final = 24 * 60
_REFRESHED_AFTER: Final = 0.05


@dataclass(frozen=True)
class NewItem:
    """An item to store.

    Attributes:
        text: Text to search by; None excludes the item from searches by words and meaning.
        ttl_minutes: Minutes after the last access until the item expires; None if it doesn't expire.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any]
    text: str | None
    ttl_minutes: float | None = None


@dataclass(frozen=True)
class Item:
    """A stored item; `score` is None if the item wasn't ranked by a query."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None
    memory_id: str = ""
    external_id: str = ""
    is_indexed: bool = True
    ttl_minutes: float | None = None


@dataclass(frozen=True)
class Items:
    """The items of one store.

    Attributes:
        name: Name of the store: stores of one tenant with different names are separate.
        is_kept: Protect items from decay and merging; otherwise Ebbing forgets those that nobody uses.
        subject: Function that returns the person of a namespace, so that erasures of the person cover it.
    """

    name: str
    is_kept: bool = True
    subject: Callable[[Namespace], str | None] | None = None

    def external_id(self, namespace: Namespace, key: str) -> str:
        """Return the external id of an item.

        Raises:
            Invalid: Namespace and key are too long.
        """
        return make_external_id(self.name, (*namespace, key), "key")

    def tag(self, prefix: Namespace) -> str:
        """Return the tag of all items whose namespace begins with this prefix."""
        return f"{self.name}:{'.'.join(prefix)}" if prefix else self.name

    def body(self, item: NewItem) -> dict[str, Any]:
        """Return the memory of an item.

        Raises:
            Invalid: The value, the namespace or the key is too long, or the value has no JSON form.
        """
        metadata: dict[str, Any] = {"namespace": list(item.namespace), "key": item.key, "value": dict(item.value)}
        metadata |= {} if item.text is not None else {"is_indexed": False}
        metadata |= {} if item.ttl_minutes is None else {"ttl_minutes": item.ttl_minutes}
        size = len(encode(metadata))
        if size > METADATA_MAX_BYTES:
            raise invalid_field("value", "is too large in bytes, with its namespace and key", size, METADATA_MAX_BYTES)
        if len(item.namespace) > LABELS_MAX:
            raise invalid_field("namespace", "has too many labels", len(item.namespace), LABELS_MAX)
        tags = [self.tag(item.namespace[:length]) for length in range(len(item.namespace) + 1)]
        if len(tags[-1]) > TAG_MAX_CHARACTERS:
            raise invalid_field("namespace", "is too long", len(tags[-1]), TAG_MAX_CHARACTERS)
        body: dict[str, Any] = {
            "text": cut_text(item.text or "") or cut_text(item.key) or "-",
            "external_id": self.external_id(item.namespace, item.key),
            "tags": [*tags, KEPT_TAG] if self.is_kept else tags,
            "kind": "semantic",
            "metadata": metadata,
        }
        subject = self.subject(item.namespace) if self.subject else None
        body |= {} if subject is None else {"subject": subject}
        return body if item.ttl_minutes is None else body | {"keep_days": item.ttl_minutes / _MINUTES_A_DAY}

    def put(self, items: Sequence[NewItem]) -> Steps[None]:
        """Store items, no two with the same namespace and key; reads return them once this has returned."""
        bodies = [self.body(item) for item in items]
        if not bodies:
            return
        yield from write(bodies)
        lasting = [body["external_id"] for body in bodies if "keep_days" not in body]
        stored = yield from list_named(lasting)
        for memory in stored.values():
            # An update without an expiry keeps the earlier one.
            if memory.raw.get("expires_at") is not None:
                yield operations.update(memory.id, expires_at=None)

    def delete(self, names: Iterable[tuple[Namespace, str]]) -> Steps[int]:
        """Delete items and return their number; unknown ones are ignored."""
        return (yield from delete_named([self.external_id(namespace, key) for namespace, key in names]))

    def get(
        self, names: Sequence[tuple[Namespace, str]], *, refreshed: Iterable[tuple[Namespace, str]] = ()
    ) -> Steps[dict[tuple[Namespace, str], Item]]:
        """Return items by namespace and key; unknown and expired ones are left out.

        Args:
            refreshed: Those whose time to live starts again.
        """
        stored = yield from list_named(self.external_id(namespace, key) for namespace, key in names)
        live = [memory for memory in stored.values() if not _is_expired(memory)]
        found = {(item.namespace, item.key): item for item in map(_read, live) if item is not None}
        wanted = set(refreshed)
        yield from _refresh(memory for memory in live if _name(memory) in wanted)
        return found

    def search(
        self,
        prefix: Namespace,
        *,
        query: str | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        is_refreshed: bool = True,
    ) -> Steps[list[Item]]:
        """Return items whose namespace begins with `prefix`: best first for a query, otherwise newest first.

        The results of a query, at most 100, are followed by the other items, without a score and newest first.

        Raises:
            ValueError: The filter has an unknown operator.
        """
        wanted = dict(where or {})
        check_filter(wanted)
        most = max(0, offset) + max(0, limit)
        ranked = (yield from self._rank(prefix, query, wanted)) if query and query.strip() and most else []
        found = ranked[:most]
        seen = {item.external_id for item in found}
        cursor, pages = None, 0
        while len(found) < most and (cursor is not None or pages == 0):
            filters = {"tag": self.tag(prefix), **self._pushed(wanted)}
            memories, cursor = yield from list_page(filters, cursor, most + 1 - len(found) if not wanted else 100)
            pages += 1
            listed = (_read(memory) for memory in memories if not _is_expired(memory))
            found += [item for item in listed if item and item.external_id not in seen and matches(item.value, wanted)]
        shown = found[max(0, offset) : most]
        if is_refreshed and (expiring := [item.external_id for item in shown if item.ttl_minutes is not None]):
            yield from _refresh((yield from list_named(expiring)).values())
        return shown

    def _rank(self, prefix: Namespace, query: str | None, wanted: Mapping[str, Any]) -> Steps[list[Item]]:
        results = yield operations.search(
            query or "",
            limit=RANKED_MAX,
            tags=[self.tag(prefix)],
            tiers=["active", "archived"],
            superseded=True,
            **self._pushed(wanted),
        )
        scores = {str(hit.external_id): hit.score for hit in results}
        # Results lack the times of expiry and of the last change.
        stored = yield from list_named(scores)
        found = []
        for external_id, score in scores.items():
            memory = stored.get(external_id)
            item = None if memory is None or _is_expired(memory) else _read(memory)
            if item and item.is_indexed and matches(item.value, wanted):
                found.append(replace(item, score=score))
        return found

    def list_namespaces(self, prefix: Namespace = ()) -> Steps[list[Namespace]]:
        """Return the namespaces that begin with `prefix` and have items, in order; reads all of their items."""
        found: set[Namespace] = set()
        cursor, is_first = None, True
        while is_first or cursor is not None:
            memories, cursor = yield from list_page({"tag": self.tag(prefix)}, cursor)
            is_first = False
            found |= {name[0] for memory in memories if not _is_expired(memory) and (name := _name(memory))}
        return sorted(found)

    def _pushed(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the filter by metadata that the service applies before `matches`."""
        exact = exact_part(wanted)
        return {"metadata": {"value": exact}} if exact else {}


def make_external_id(name: str, parts: Sequence[str], field: str) -> str:
    """Return an external id that is unique to these names.

    Args:
        name: Name of the store.
        parts: Names, from the outermost to the innermost.
        field: Name of the innermost one in errors.

    Raises:
        Invalid: The names are too long together.
    """
    external_id = f"{name}:{json.dumps(list(parts), ensure_ascii=False, separators=(',', ':'))}"
    if len(external_id) > EXTERNAL_ID_MAX_CHARACTERS:
        length = len(external_id)
        raise invalid_field(field, "makes the external id too long", length, EXTERNAL_ID_MAX_CHARACTERS)
    return external_id


def read_words(value: object) -> str:
    """Return the texts and numbers in a value, a line each: what a search by words and meaning should find."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(filter(None, map(read_words, value.values())))
    if isinstance(value, (list, tuple)):
        return "\n".join(filter(None, map(read_words, value)))
    return "" if value is None or isinstance(value, bool) else str(value)


def cut_text(text: str) -> str:
    """Return the text without NUL characters, and at most as long as the text of a memory; empty if it is blank."""
    content = text.replace("\0", " ").encode("utf-8", "replace")[:TEXT_MAX_BYTES]
    return content.decode("utf-8", "ignore").strip()


def _name(memory: Memory) -> tuple[Namespace, str] | None:
    """Return the namespace and key of a memory; None for memories that aren't items, and those in cold storage."""
    given = memory.metadata
    if not isinstance(given.get("value"), Mapping) or not isinstance(given.get("namespace"), list):
        return None
    return tuple(map(str, given["namespace"])), str(given.get("key"))


def _read(memory: Memory) -> Item | None:
    name = _name(memory)
    if name is None:
        return None
    created = memory.created_at or datetime.now(timezone.utc)
    return Item(
        *(name[0], name[1], dict(memory.metadata["value"]), created),
        updated_at=read_time(memory.raw.get("updated_at")) or created,
        memory_id=memory.id,
        external_id=str(memory.external_id),
        is_indexed=memory.metadata.get("is_indexed", True) is not False,
        ttl_minutes=memory.metadata.get("ttl_minutes"),
    )


def _is_expired(memory: Memory) -> bool:
    expires_at = read_time(memory.raw.get("expires_at"))
    return expires_at is not None and expires_at <= datetime.now(timezone.utc)


def _refresh(memories: Iterable[Memory]) -> Steps[None]:
    """Start the time to live again, unless less than 5 % of it has passed."""
    for memory in memories:
        ttl, expires_at = memory.metadata.get("ttl_minutes"), read_time(memory.raw.get("expires_at"))
        if ttl is None or expires_at is None:
            continue
        left = expires_at - datetime.now(timezone.utc)
        if left < timedelta(minutes=float(ttl) * (1 - _REFRESHED_AFTER)):
            try:
                yield operations.update(memory.id, keep_days=float(ttl) / _MINUTES_A_DAY)
            except NotFound:  # deleted at the same time
                continue
