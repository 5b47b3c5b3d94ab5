"""Read memories for the mnemex tools: one request for many ids, pages, and the forms in which results show them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from app.domain.durations import DAY
from app.mcp.backend import Backend, Json, Params

T = TypeVar("T")
FOUND_MAX: Final = 100
LISTED_MAX: Final = 500
TIERS: Final = {"active": "active", "archived": "archived"}


async def fetch(backend: Backend, memory_ids: Sequence[str]) -> dict[str, Json]:
    """Return stored memories by id, in one request; at most 500 ids."""
    if not memory_ids:
        return {}
    params: Params = {"ids": list(dict.fromkeys(memory_ids)), "limit": LISTED_MAX}
    body = (await backend.call("GET", "/v1/memories", params=params)).body
    return {memory["id"]: memory for memory in body["memories"]}


def seconds(moment: str | None) -> int:
    """Return a time of the API in seconds since 1970, or 0 for None."""
    return 0 if moment is None else int(datetime.fromisoformat(moment).timestamp())


def last_use(memory: Json) -> int:
    """Return the time of the last use, or else of the acceptance, in seconds since 1970."""
    return seconds(memory["accessed_at"] or memory["created_at"])


def age_days(memory: Json) -> float:
    """Return the days since the last use."""
    return round(max(time.time() - last_use(memory), 0) / DAY, 3)


def window_start(days: int | None) -> str | None:
    """Return the time before some days; None for None."""
    return None if days is None else (datetime.now(UTC) - timedelta(days=days)).isoformat()


def status_of(memory: Json) -> str:
    """Return the state of a memory in the words of the tools."""
    return "promoted" if memory["promoted"] else "active" if memory["tier"] == "active" else "archived"


def shorten(text: str, length: int | None) -> str:
    """Return the first characters of a text; None and 0 mean all."""
    return text if not length or len(text) <= length else f"{text[:length]}..."


def select_page(found: Sequence[T], page: int | None, page_size: int | None) -> tuple[list[T], Json]:
    """Return a page of a list, and the field `pagination` if a page was requested."""
    if page is None and page_size is None:
        return list(found), {}
    number, size = page or 1, page_size or 10
    pages = math.ceil(len(found) / size)
    shown = list(found[(number - 1) * size : number * size])
    about = {"page": number, "page_size": size, "total_count": len(found), "total_pages": pages}
    return shown, {"pagination": about | {"has_more": number < pages, "has_previous": number > 1}}


def render(memory: Json, *, with_score: bool) -> Json:
    """Return a memory as `open_memories` and `read_graph` show it."""
    shown = {
        "id": memory["id"],
        "content": memory["text"],
        "entities": memory["entities"],
        "tags": memory["tags"],
        "meta": memory["metadata"],
        "created_at": seconds(memory["created_at"]),
        "last_used": last_use(memory),
        "use_count": memory["access_count"],
        "strength": memory["multiplier"],
        "status": status_of(memory),
    }
    return shown | ({"score": memory["score"]} if with_score else {})


def relation_id(from_id: str, to_id: str, kind: str) -> str:
    """Return the id of a relation: links have no id of their own."""
    return f"{from_id}:{to_id}:{kind}"


def render_relation(link: Json) -> Json:
    """Return a link as a relation."""
    return {
        "id": relation_id(link["from"], link["to"], link["kind"]),
        "from": link["from"],
        "to": link["to"],
        "type": link["kind"],
        "strength": link["weight"],
        "created_at": seconds(link.get("created_at")),
    }
