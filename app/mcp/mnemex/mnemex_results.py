"""Results of the mnemex tools, in the shapes of cortexgraph's. Fields that don't apply to a result are left out."""

from __future__ import annotations

from typing import Any

import msgspec

from app.domain.ingest.json_input import precompile

U = msgspec.UNSET
Maybe = msgspec.UnsetType


class Done(msgspec.Struct):
    """Success of a tool, and a remark."""

    success: bool
    message: str | Maybe = U


class Saved(Done):
    """A stored memory."""

    memory_id: str | Maybe = U
    has_embedding: bool | Maybe = U
    enrichment_applied: bool | Maybe = U
    auto_entities: int | Maybe = U
    calculated_strength: float | Maybe = U


@precompile
class Pagination(msgspec.Struct):
    """A page of a list; a search counts at most its best 100 results."""

    page: int
    page_size: int
    total_count: int
    total_pages: int
    has_more: bool
    has_previous: bool


@precompile
class Hit(msgspec.Struct):
    """A found memory; `last_used` is in seconds since 1970."""

    id: str
    content: str
    tags: list[str]
    score: float | None
    similarity: float | None
    use_count: int
    last_used: int
    age_days: float
    review_priority: float


class FoundMemories(Done, kw_only=True):
    """Results of a search."""

    count: int
    results: list[Hit]
    pagination: Pagination | Maybe = U


@precompile
class UnifiedHit(msgspec.Struct):
    """A found memory; `source` is `ltm` and `path` the path of its note if it is promoted."""

    content: str
    title: str
    source: str
    score: float
    path: str | None
    memory_id: str
    tags: list[str]
    created_at: int
    last_used: int


class UnifiedFound(Done, kw_only=True):
    """Results of a search in promoted and all other memories."""

    count: int
    results: list[UnifiedHit]
    pagination: Pagination | Maybe = U


class Touched(Done):
    """A recorded use."""

    memory_id: str | Maybe = U
    old_score: float | Maybe | None = U
    new_score: float | Maybe | None = U
    use_count: int | Maybe = U
    strength: float | Maybe = U


class Observed(msgspec.Struct, kw_only=True):
    """Recorded uses; `reason` says why there are none."""

    reinforced: bool
    count: int
    reason: str | Maybe = U
    cross_domain_count: int | Maybe = U
    results: list[dict[str, Any]] | Maybe = U


class Related(Done, kw_only=True):
    """A relation."""

    relation_id: str | Maybe = U
    existing_relation_id: str | Maybe = U
    from_id: str | Maybe = msgspec.field(name="from", default=U)
    to_id: str | Maybe = msgspec.field(name="to", default=U)
    type: str | Maybe = U
    strength: float | Maybe = U


class Opened(Done, kw_only=True):
    """Memories by id."""

    count: int
    memories: list[dict[str, Any]]
    not_found: list[str]
    pagination: Pagination | Maybe = U


class Graph(Done, kw_only=True):
    """Memories with their relations."""

    memories: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    stats: dict[str, Any]
    pagination: Pagination | Maybe = U


class Clusters(Done, kw_only=True):
    """Groups of similar memories, or pairs of duplicates; `suggested_action` is what a consolidation would do."""

    mode: str
    strategy: str | Maybe = U
    threshold: float | Maybe | None = U
    clusters_found: int | Maybe = U
    clusters: list[dict[str, Any]] | Maybe = U
    duplicates_found: int | Maybe = U
    duplicates: list[dict[str, Any]] | Maybe = U


class Consolidated(Done, kw_only=True):
    """Groups that were merged or linked, or would be; `error` and `hint` explain a refusal."""

    mode: str | Maybe = U
    error: str | Maybe = U
    hint: str | Maybe = U
    candidates_found: int | Maybe = U
    showing: int | Maybe = U
    previews: list[dict[str, Any]] | Maybe = U
    linked_clusters: int | Maybe = U
    total_relations_created: int | Maybe = U
    consolidated_clusters: int | Maybe = U
    total_memories_saved: int | Maybe = U
    results: list[dict[str, Any]] | Maybe = U
    job_id: str | Maybe = U


class Promoted(Done, kw_only=True):
    """Promoted memories, or those that would be promoted."""

    dry_run: bool
    candidates_found: int
    promoted_count: int
    promoted_ids: list[str]
    candidates: list[dict[str, Any]]
    job_id: str | Maybe = U


class Collected(Done, kw_only=True):
    """Removed or archived memories, or those that would be."""

    dry_run: bool
    removed_count: int
    archived_count: int
    freed_score_sum: float
    memory_ids: list[str]
    total_affected: int
    job_id: str | Maybe = U


class SaveAdvice(msgspec.Struct):
    """Advice whether to store a message."""

    should_save: bool
    confidence: float
    suggested_entities: list[str]
    suggested_tags: list[str]
    suggested_strength: float
    reasoning: str
    phrase_signals: dict[str, Any]


class RecallAdvice(msgspec.Struct):
    """Advice whether to search for a message."""

    should_search: bool
    confidence: float
    suggested_query: str
    suggested_tags: list[str]
    suggested_entities: list[str]
    reasoning: str
    phrase_signals: dict[str, Any]


class AutoRecalled(Done, kw_only=True):
    """Memories that were recalled and reported as used."""

    enabled: bool
    topics_found: list[str]
    memories_found: int
    memories_reinforced: list[str]
    mode: str
    memories: list[dict[str, Any]]


class Backfilled(Done, kw_only=True):
    """Number of memories to embed again; `error` and `hint` explain a refusal."""

    error: str | Maybe = U
    hint: str | Maybe = U
    dry_run: bool | Maybe = U
    memories: int | Maybe = U
    job_id: str | Maybe = U
