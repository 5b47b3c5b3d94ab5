"""Types of the keyword arguments that several methods share, named as in the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os

    from ebbing_client.spool import Spool


class SharedFields(TypedDict, total=False):
    """Fields that all memories of one call may share; `/docs` of a running service explains each."""

    subject: str | None
    thread: str | None
    kind: str | None
    occurred_at: datetime | str | None
    tags: Sequence[str]
    categories: Sequence[str]
    entities: Sequence[str]
    metadata: Mapping[str, Any] | None
    salience: float | None
    multiplier: float | None
    expires_at: datetime | str | None
    keep_days: float | None
    source: str


class MemoryFields(SharedFields, total=False):
    """Fields of a memory beside its text."""

    speaker: str | None
    role: str | None
    external_id: str | None
    supersedes: str | Sequence[str]
    links: Sequence[Mapping[str, Any]]
    embedding: Sequence[float] | None


class RecallFilters(TypedDict, total=False):
    """Options of a recall."""

    subject: str | None
    thread: str | None
    exclude_thread: str | None
    tags: Sequence[str]
    kinds: Sequence[str]
    roles: Sequence[str | None]
    after: datetime | str | None
    before: datetime | str | None
    limit: int | None
    sources: Sequence[str]
    least: float | None
    token_budget: int | None
    explain: bool


class SearchFilters(TypedDict, total=False):
    """Options of a search."""

    subject: str | None
    thread: str | None
    exclude_thread: str | None
    tags: Sequence[str]
    kinds: Sequence[str]
    roles: Sequence[str | None]
    categories: Sequence[str]
    entities: Sequence[str]
    speaker: str | None
    metadata: Mapping[str, Any] | None
    external_id: str | None
    ids: Sequence[str] | None
    external_ids: Sequence[str] | None
    sources: Sequence[str]
    after: datetime | str | None
    before: datetime | str | None
    tiers: Sequence[str]
    superseded: bool
    promoted: bool | None
    as_of: datetime | str | None
    vector: Sequence[float] | None
    mode: str | None
    weights: Mapping[str, float] | None
    rerank: int | None
    explain: bool
    reinforce: bool | None
    session: str | None
    turn: int | None
    review_blend: float | None


class ListFilters(TypedDict, total=False):
    """Filters of a list of memories."""

    subject: str | None
    thread: str | None
    tag: str | None
    kind: str | None
    role: str | None
    tier: str | None
    after: datetime | str | None
    before: datetime | str | None
    strength_above: float | None
    strength_below: float | None
    superseded: bool | None
    promoted: bool | None
    order: str
    as_of: datetime | str | None
    categories: Sequence[str]
    entities: Sequence[str]
    speaker: str | None
    metadata: Mapping[str, Any] | None
    external_id: str | None
    ids: Sequence[str] | None
    external_ids: Sequence[str] | None
    sources: Sequence[str]


class MemoryEdit(MemoryFields, total=False):
    """New values of a memory; None clears a field, omitted fields stay unchanged."""

    text: str


class ClientOptions(TypedDict, total=False):
    """Options of a client of a local service; `Ebbing` explains each."""

    timeout: float
    batch_size: int | None
    batch_seconds: float | None
    queue_size: int
    spool: Spool | str | os.PathLike[str] | None


class ForgetOptions(TypedDict, total=False):
    """Options of an erasure; `operations.forget` explains each."""

    thread: str | None
    ids: Sequence[str] | None
    law: str
    grace_days: int | None
    reason: str | None
    dry_run: bool
    timeout: float | None
