"""Permanently remove memories together with their data in every table.

Both permanent deletion and erasure use this module. A test reads the catalogue: each table that refers to memories must
be in `OWN`, `ELSEWHERE` or `BY_OTHERS`, or in `KEPT` with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.consolidation import supersessions
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.embedding import embeddings
from app.store.enrichment import word_index, work_queue
from app.store.erasure import hidden_memories, references
from app.store.memories import missing_links
from app.store.search import recorded_searches
from app.store.tiers import cold_segments, wrapped_keys

MOST: Final = 500
"""Maximum number of memories per call; each call should be a transaction of its own."""

OWN: Final = (
    *(
        "memory_aliases",
        "missing_links",  # before `links`: while this waits for a lock, a missing link may become a link
        "links",
        "lineage",
        "decayed_sources",
        "reviews",
        "scores",
        "memory_events",
        "self_tests",
        "privacy_findings",
        "notes",
        "activation_history",
        "memory_writers",
    ),
    *(
        "hidden_memories",
        "hidden_vectors",
        "archived_memories",
        "pca_samples",
        "memory_windows",
        "memory_state",
        "memories",
    ),
)
"""Tables whose rows belong to the single memory in `memory_id`."""
ELSEWHERE: Final[dict[str, str]] = {
    "missing_links": missing_links.DELETE_NAMED,
    "links": "DELETE FROM links WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)",
    "cold_links": "DELETE FROM cold_links WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)",
    "self_tests": "DELETE FROM self_tests WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)",
    "recorded_searches": recorded_searches.DELETE_WITH,
    # Rows that also refer to other memories are retained.
    "dead_letters": """
WITH gone AS (
  DELETE FROM dead_letters
  WHERE tenant_id = %(tenant)s AND memory_ids <@ %(ids)s AND memory_ids <> '{}' AND payload IS NULL
)
UPDATE dead_letters SET memory_ids = ARRAY(SELECT id FROM unnest(memory_ids) AS id WHERE id <> ALL (%(ids)s))
WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s AND NOT (memory_ids <@ %(ids)s AND payload IS NULL)""",
    # The sources of a removed summary remain in their tiers.
    "merges": """
UPDATE merges SET status = 'gone', summary_id = NULL, key_points = '{}'
WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(ids)s)""",
    "tenant_work": """
WITH gone AS (
  DELETE FROM tenant_work WHERE stage = ANY (%(stages)s) AND tenant_id = %(tenant)s AND memory_ids <@ %(ids)s
)
UPDATE tenant_work SET memory_ids = ARRAY(SELECT id FROM unnest(memory_ids) AS id WHERE id <> ALL (%(ids)s))
WHERE stage = ANY (%(stages)s) AND tenant_id = %(tenant)s AND memory_ids && %(ids)s AND NOT memory_ids <@ %(ids)s""",
}
"""Statements, by table, that remove memory ids from rows shared with other memories."""
BY_OTHERS: Final = (
    "memory_words",
    "embeddings",
    "cold_memories",
    "cold_links",
    "supersessions",
    "hidden_supersessions",
)
"""Tables that other modules clean up, because other rows change as well.

Examples are context in neighbours' rows, record counts of segments, keys of records, and supersession chains that must
be closed over the removed memory.
"""
KEPT: Final = {
    "ebbing_keys.erasure_ledger": "lists the memories to erase again after a restore; the ids identify nobody",
    "holds": "records what was held, and until when; the ids of removed memories refer to no row",
    "changes": "the feed, which tells readers that the memory is gone; its ids are deleted after `changes.keep_days`",
    "envelopes": "the ingest ledger, purged separately: until then, a replayed request must store nothing",
}
"""Tables that refer to memories and retain the ids, with the reason."""


def remove(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove memories with all their data, including their context in neighbouring turns of a thread.

    Later turns whose vectors contained the removed text are queued for embedding again.

    Args:
        tx: The tenant's transaction, which has locked the memories' rows and has verified that no hold covers them.
        memory_ids: At most `MOST`.

    Raises:
        ValueError: There are more than `MOST`.
    """
    if len(memory_ids) > MOST:
        raise ValueError(len(memory_ids))
    values: dict[str, Any] = {"tenant": tenant_id, "ids": Uuids(memory_ids), "stages": list(work_queue.STAGES)}
    later_turns = embeddings.remove(tx, tenant_id, memory_ids) - set(memory_ids)
    word_index.remove(tx, tenant_id, memory_ids)
    wrapped_keys.remove_records(
        tx, tenant_id, cold_segments.delete_locations(tx, tenant_id, memory_ids)
    )  # lock order: words, segments
    supersessions.delete_all(tx, tenant_id, memory_ids)
    references.forget_context(tx, tenant_id, memory_ids)
    recorded_searches.lock(tx, tenant_id)
    for statement in (*ELSEWHERE.values(), *_REMOVE_OWN):
        driver_connection(tx).execute(statement.encode(), values)
    work_queue.add(tx, [work_queue.EMBED], tenant_id, hidden_memories.active_among(tx, tenant_id, sorted(later_turns)))


_REMOVE_OWN: Final = [
    f"DELETE FROM {table} WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"  # noqa: S608 - constants only
    for table in OWN
]
