"""Arguments of the mnemex tools, with the names that the arguments of cortexgraph's tools have."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.memory import Label, Labels, Name
from app.domain.search.request import QUERY_MAX_CHARACTERS, RESULTS_MAX
from app.domain.strength.links import Kind, Weight
from app.mcp.tool import Arguments

IDS_MAX = 100
"""Maximum number of memories in a call."""

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=QUERY_MAX_CHARACTERS)]
TAGS_MAX = 16
"""Maximum number of tags of a search, which sends a request for each."""

Status = Literal["active", "promoted", "archived"]
_Statuses = Status | Annotated[list[Status], msgspec.Meta(min_length=1)]
_Tags = Annotated[tuple[Label, ...], msgspec.Meta(max_length=TAGS_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=RESULTS_MAX)]
_Page = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]
_Ids = Annotated[list[UUID], msgspec.Meta(max_length=IDS_MAX)]
_Preview = Annotated[int, msgspec.Meta(ge=0, le=5_000)]


class SaveMemory(Arguments, frozen=True):
    """A memory to store.

    Attributes:
        content: The text, up to 32 KiB.
        tags: Up to 64 tags.
        entities: Names of people, places and things; found in the text if omitted.
        source: Where the memory comes from.
        context: The situation in which it was said.
        meta: Further fields.
        strength: Multiplier of the memory's strength, 1 to 2; depends on the text's topic if omitted.
    """

    content: Text
    tags: Labels | None = None
    entities: Labels | None = None
    source: Name | None = None
    context: Name | None = None
    meta: dict[str, Any] | None = None
    strength: Annotated[float, msgspec.Meta(ge=1, le=2)] | None = None


class SearchMemory(Arguments, frozen=True):
    """A search.

    Attributes:
        query: Words or a question; without it, the newest memories are listed.
        tags: Only memories that have one of these tags, up to 16.
        status: Only memories in this state, or in one of these; default active and promoted.
        top_k: Maximum number of results, 1 to 100.
        window_days: Only memories of the last days.
        min_score: Only memories whose current score is at least this, 0 to 1.
        use_embeddings: True also searches by meaning; false only by words.
        include_review_candidates: Mix in memories that are due for review.
        page: Page of the results, from 1.
        page_size: Results of a page, 1 to 100.
        preview_length: Characters of each content; 0 means all.
    """

    query: Text | None = None
    tags: _Tags | None = None
    status: _Statuses | None = None
    top_k: _Count = 10
    window_days: _Days | None = None
    min_score: _Share | None = None
    use_embeddings: bool = False
    include_review_candidates: bool = True
    page: _Page | None = None
    page_size: _Count | None = None
    preview_length: _Preview | None = None


class SearchUnified(Arguments, frozen=True):
    """A search in all memories, promoted ones included.

    Attributes:
        query: Words or a question; without it, the newest memories are listed.
        tags: Only memories that have one of these tags, up to 16.
        status: Only memories in this state, or in one of these; default active and promoted.
        limit: Maximum number of results, 1 to 100.
        stm_weight: Weight of memories that aren't promoted, 0 to 2.
        ltm_weight: Weight of promoted memories, 0 to 2.
        window_days: Only memories of the last days.
        min_score: Only memories whose current score is at least this, 0 to 1.
        page: Page of the results, from 1.
        page_size: Results of a page, 1 to 100.
        preview_length: Characters of each content; 0 means all.
    """

    query: Text | None = None
    tags: _Tags | None = None
    status: _Statuses | None = None
    limit: _Count = 10
    stm_weight: Annotated[float, msgspec.Meta(ge=0, le=2)] = 1.0
    ltm_weight: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.7
    window_days: _Days | None = None
    min_score: _Share | None = None
    page: _Page | None = None
    page_size: _Count | None = None
    preview_length: _Preview | None = None


class TouchMemory(Arguments, frozen=True):
    """A use of a memory.

    Attributes:
        memory_id: Id of the memory.
        boost_strength: Also raise its multiplier.
    """

    memory_id: UUID
    boost_strength: bool = False


class ObserveUsage(Arguments, frozen=True):
    """Used memories.

    Attributes:
        memory_ids: Ids of the memories that an answer used, up to 100.
        context_tags: Tags of the topic in which they were used.
    """

    memory_ids: _Ids
    context_tags: Labels | None = None


class CreateRelation(Arguments, frozen=True):
    """A relation between two memories.

    Attributes:
        from_memory_id: Id of the first memory.
        to_memory_id: Id of the second memory.
        relation_type: Name of the relation, 1 to 64 characters.
        strength: Its strength, 0 to 1.
        metadata: Not stored: relations have no fields of their own. Use `meta` of a memory instead.
    """

    from_memory_id: UUID
    to_memory_id: UUID
    relation_type: Kind
    strength: Weight = 1.0
    metadata: dict[str, Any] | None = None


class OpenMemories(Arguments, frozen=True):
    """Memories to read.

    Attributes:
        memory_ids: An id, or up to 100 ids.
        include_relations: Also return the relations of each memory.
        include_scores: Also return the current score of each memory.
        page: Page of the ids, from 1.
        page_size: Memories of a page, 1 to 100.
    """

    memory_ids: UUID | _Ids
    include_relations: bool = True
    include_scores: bool = True
    page: _Page | None = None
    page_size: _Count | None = None


class ReadGraph(Arguments, frozen=True):
    """A part of the graph of memories.

    Attributes:
        status: Memories in this state, or all that aren't in cold storage.
        include_scores: Also return the current score of each memory.
        limit: Maximum number of memories, 1 to 100.
        page: Page of the memories, from 1.
        page_size: Memories of a page, 1 to 100.
    """

    status: Status | Literal["all"] = "active"
    include_scores: bool = True
    limit: _Count | None = None
    page: _Page | None = None
    page_size: _Count | None = None


class ClusterMemories(Arguments, frozen=True):
    """A search for groups of similar memories.

    Attributes:
        strategy: Always `similarity`.
        threshold: Only groups whose cohesion is at least this, 0 to 1.
        max_cluster_size: Only groups of at most this many memories.
        find_duplicates: Return pairs of duplicates instead of groups.
        duplicate_threshold: Only duplicates of groups whose cohesion is at least this, 0 to 1; default 0.88.
    """

    strategy: Literal["similarity"] = "similarity"
    threshold: _Share | None = None
    max_cluster_size: _Count | None = None
    find_duplicates: bool = False
    duplicate_threshold: _Share | None = None


class ConsolidateMemories(Arguments, frozen=True):
    """A consolidation.

    Attributes:
        cluster_id: Id of a group from `cluster_memories`.
        mode: `preview` changes nothing, `apply` starts a consolidation of all groups, `link` links the memories of the
            group.
        auto_detect: Take all groups instead of one.
        cohesion_threshold: Only groups whose cohesion is at least this, 0 to 1.
    """

    cluster_id: UUID | None = None
    mode: Literal["preview", "apply", "link"] = "preview"
    auto_detect: bool = False
    cohesion_threshold: _Share = 0.75


class PromoteMemory(Arguments, frozen=True):
    """A promotion.

    Attributes:
        memory_id: Id of the memory.
        auto_detect: Promote all memories that meet the criteria instead.
        dry_run: Only list what would be promoted.
        target: Always `obsidian`: promotion writes a note if the service has a folder for notes.
        force: Promote the memory even if it doesn't meet the criteria.
    """

    memory_id: UUID | None = None
    auto_detect: bool = False
    dry_run: bool = False
    target: Literal["obsidian"] = "obsidian"
    force: bool = False


class Gc(Arguments, frozen=True):
    """A removal of forgotten memories.

    Attributes:
        dry_run: Only list what would be removed.
        archive_instead: Move faded memories to the archive instead.
        limit: Maximum number of listed memories, 1 to 1,000.
    """

    dry_run: bool = True
    archive_instead: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None


class OneMessage(Arguments, frozen=True):
    """A message of a conversation.

    Attributes:
        message: The message.
    """

    message: Text


class Backfill(Arguments, frozen=True):
    """A move of memories to the configured embedding model.

    Attributes:
        model: Not supported: the service embeds with the model of its settings.
        limit: Not supported: the job processes all memories that lack a vector of the model.
        force: Not supported: vectors of the configured model are not computed again.
        dry_run: Only count the memories.
    """

    model: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    force: bool = False
    dry_run: bool = False


class NoArguments(Arguments, frozen=True):
    """No arguments."""
