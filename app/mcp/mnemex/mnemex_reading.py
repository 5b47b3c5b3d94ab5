"""Read memories for the mnemex tools: one request for many ids, pages, and the forms in which results show them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID, uuid5

from app.domain.durations import DAY
from app.mcp.backend import Backend, Json, Params

T = TypeVar("T")
FOUND_MAX: Final = 100
LISTED_MAX: Final = 500
PREVIEW: Final = 100
"""Characters of the previews of a memory's text."""
_RELATIONS: Final = UUID("5f0c3f0a-5d0e-5c37-9a53-0b9d3c8f2c11")
_TIERS: Final = {"active": ("active",), "archived": ("archived",), "promoted": ("active", "archived")}


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
    """Return the days since the last use, or else since the acceptance."""
    return round(max(time.time() - last_use(memory), 0) / DAY, 1)


def window_start(days: int | None) -> str | None:
    """Return the time this many days ago, in ISO 8601; None for None."""
    return None if days is None else (datetime.now(UTC) - timedelta(days=days)).isoformat()


def select_states(statuses: Sequence[str]) -> tuple[list[str], bool | None]:
    """Return the tiers of memories in these states, and whether they are promoted; None means either.

    A promoted memory is only in the state `promoted`, whatever its tier, so callers check each result with `status_of`.
    """
    tiers = dict.fromkeys(tier for status in statuses for tier in _TIERS[status])
    promoted = None if set(statuses) > {"promoted"} else "promoted" in statuses
    return list(tiers), promoted


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
    """Return a memory as `read_graph` shows it."""
    shown = {
        "id": memory["id"],
        "content": memory["text"],
        "entities": memory["entities"],
        "tags": memory["tags"],
        "created_at": seconds(memory["created_at"]),
        "last_used": last_use(memory),
        "use_count": memory["access_count"],
        "strength": memory["multiplier"],
        "status": status_of(memory),
    }
    return shown | ({"score": memory["score"], "age_days": age_days(memory)} if with_score else {})


def render_fully(memory: Json, *, with_score: bool) -> Json:
    """Return a memory as `open_memories` shows it; `meta` holds the metadata without `source` and `context`."""
    meta = dict(memory["metadata"])
    about = {name: meta.pop(name, None) for name in ("source", "context")}
    promoted = memory["promoted"]
    about |= {
        "promoted_at": seconds(promoted["at"]) if promoted else None,
        "promoted_to": promoted["note"] if promoted else None,
    }
    return {**render(memory, with_score=with_score), **about, "meta": meta}


def candidate(memory: Json, reason: str) -> Json:
    """Return a memory in the form in which a promotion lists its candidates."""
    return {
        "id": memory["id"],
        "content_preview": shorten(memory["text"], PREVIEW),
        "reason": reason,
        "score": memory["score"],
        "use_count": memory["access_count"],
        "age_days": age_days(memory),
    }


def relation_id(from_id: str, to_id: str, kind: str) -> str:
    """Return the id of a relation, made of its ends and type: links have no id of their own."""
    return str(uuid5(_RELATIONS, f"{from_id}:{to_id}:{kind}"))


def render_relation(link: Json) -> Json:
    """Return a link as a relation of the graph."""
    return {
        "id": relation_id(link["from"], link["to"], link["kind"]),
        "from": link["from"],
        "to": link["to"],
        "type": link["kind"],
        "strength": link["weight"],
        "created_at": seconds(link.get("created_at")),
    }


def render_ends(links: Sequence[Json], memory_id: str) -> Json:
    """Return the links of a memory as its outgoing and incoming relations, each with its other end."""
    return {
        side: [
            {far: link[far], "type": link["kind"], "strength": link["weight"]}
            for link in links
            if link[near] == memory_id
        ]
        for side, near, far in (("outgoing", "from", "to"), ("incoming", "to", "from"))
    }
