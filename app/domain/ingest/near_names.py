"""Suggest the known field that an unknown one means: a name in another service, another spelling or a typing error."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

_CUTOFF: Final = 0.7  # least similarity of a typing error, 0 to 1
_NAME_MAX_CHARACTERS: Final = 64  # longer names aren't compared
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_MEANT: Final = {
    "text": ("content", "message", "body", "memory", "value", "data", "fact"),
    "messages": ("conversation", "chat", "turns", "history", "message", "query", "question", "prompt", "input", "text"),
    "subject": ("user_id", "user", "person", "person_id", "owner", "customer", "username", "end_user", "agent_id"),
    "thread": ("session", "session_id", "conversation", "conversation_id", "chat", "chat_id", "thread_id", "run_id"),
    "session": ("thread", "session_id", "conversation", "conversation_id", "chat_id", "thread_id", "run_id"),
    "speaker": ("author", "from", "sender", "name"),
    "name": ("speaker", "author"),
    "occurred_at": ("timestamp", "happened_at", "date", "time", "datetime", "event_time", "created_at", "when", "at"),
    "used_at": ("timestamp", "date", "time", "at", "when"),
    "external_id": ("id", "key", "source_id"),
    "metadata": ("meta", "attributes", "properties"),
    "tags": ("labels", "keywords", "topics"),
    "kind": ("type", "memory_type"),
    "kinds": ("kind", "type", "types"),
    "roles": ("role",),
    "tiers": ("tier",),
    "salience": ("importance", "weight", "priority"),
    "embedding": ("vector",),
    "vector": ("embedding",),
    "query": ("q", "question", "search", "prompt", "input", "text"),
    "limit": ("k", "top_k", "topk", "n", "count", "size", "max_results", "page_size", "per_page"),
    "least": ("threshold", "min_score", "min_relevance", "score_threshold"),
    "token_budget": ("max_tokens", "tokens", "budget"),
    "after": ("since", "start", "start_date"),
    "before": ("until", "end", "end_date"),
    "ids": ("memory_ids", "memories", "id", "memory_id"),
    "context_tags": ("tags", "context"),
    "grace_days": ("grace", "delay_days"),
    "dry_run": ("preview", "dryrun", "simulate"),
}
"""Names that other services and callers use, by the field that they mean here."""

_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {}
for _field, _names in _MEANT.items():
    for _name in _names:
        _SYNONYMS[_name] = (*_SYNONYMS.get(_name, ()), _field)


def suggest_field(unknown: str, known: Collection[str]) -> str | None:
    """Return the known field that an unknown name most likely means, or None."""
    if len(unknown) > _NAME_MAX_CHARACTERS:
        return None
    name = _HUMP.sub("_", unknown.strip()).lower().replace("-", "_").replace(" ", "_")
    if name in known:
        return name
    meant = next((field for field in _SYNONYMS.get(name, ()) if field in known), None)
    return meant or next(iter(get_close_matches(name, list(known), 1, _CUTOFF)), None)
