"""Removing memories for good: everything that is of them, in every table.

A permanent delete and an erasure both come here. A test reads the catalogue: each table that names memories is in
`OWN`, `ELSEWHERE` or `BY_OTHERS`, or in `KEPT` with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.consolidation import supersessions
from app.store.core.packed import Uuids, driver
from app.store.embedding import embeddings
from app.store.enrichment import words, work
from app.store.erasure import named
from app.store.search import searches
from app.store.tiers import cold, key_store

MOST: Final = 500
"""Memories in a call, each of which shall be a transaction of its own."""

OWN: Final = (
    *("memory_aliases", "links", "lineage", "reviews", "scores", "memory_events", "self_tests", "privacy_findings"),
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
"""Tables whose rows with a memory's id in `memory_id` are of it alone."""
ELSEWHERE: Final[dict[str, str]] = {
    "links": "DELETE FROM links WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)",
    "self_tests": "DELETE FROM self_tests WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)",
    "recorded_searches": searches.DELETE_WITH,
    # What waits for other memories as well goes on for those.
    "dead_letters": """
WITH gone AS (
  DELETE FROM dead_letters
  WHERE tenant_id = %(tenant)s AND memory_ids <@ %(ids)s AND memory_ids <> '{}' AND payload IS NULL
)
UPDATE dead_letters SET memory_ids = ARRAY(SELECT id FROM unnest(memory_ids) AS id WHERE id <> ALL (%(ids)s))
WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s AND NOT (memory_ids <@ %(ids)s AND payload IS NULL)""",
    # A summary that is gone leaves its sources where they are.
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
"""By table, what takes their ids out of rows that are of others too."""
BY_OTHERS: Final = ("memory_words", "embeddings", "cold_memories", "supersessions", "hidden_supersessions")
"""Tables with something of them in other rows too: context of their neighbours, gaps in segments, keys of records,
chains that close over them."""
KEPT: Final = {
    "ebbing_keys.erasure_ledger": "says what an older copy of the data must not bring back; ids say nothing of anybody",
    "holds": "says what was held, and until when; its ids lead nowhere by then",
    "envelopes": "the ledger, purged by itself: a request that is replayed meanwhile shall store nothing",
}
"""Tables that name memories and keep the names, with the reason."""


def remove(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove memories with all that is of them, what their neighbours in a thread hold of them included.

    Followers whose vectors held their words are queued to be embedded again.

    Args:
        tx: The tenant's transaction, which has locked the memories' rows and has made sure that nothing holds them.
        tenant_id: The tenant.
        memory_ids: At most `MOST`.

    Raises:
        ValueError: They are too many.
    """
    if len(memory_ids) > MOST:
        raise ValueError(len(memory_ids))
    values: dict[str, Any] = {"tenant": tenant_id, "ids": Uuids(memory_ids), "stages": list(work.STAGES)}
    later = embeddings.remove(tx, tenant_id, memory_ids) - set(memory_ids)
    words.remove(tx, tenant_id, memory_ids)
    key_store.remove_records(tx, tenant_id, cold.take_out(tx, tenant_id, memory_ids))  # segments after words
    supersessions.take_out(tx, tenant_id, memory_ids)
    named.forget_context(tx, tenant_id, memory_ids)
    searches.lock(tx, tenant_id)
    for statement in (*ELSEWHERE.values(), *_REMOVE_OWN):
        driver(tx).execute(statement.encode(), values)
    work.add(tx, [work.EMBED], tenant_id, _searched(tx, tenant_id, later))


_REMOVE_OWN: Final = [
    f"DELETE FROM {table} WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"  # noqa: S608 - constants alone
    for table in OWN
]


def _searched(tx: Connection, tenant_id: UUID, memory_ids: set[UUID]) -> list[UUID]:
    """Those that are in the tier that is searched by vectors."""
    if not memory_ids:
        return []
    rows = driver(tx).execute(_SEARCHED, {"tenant": tenant_id, "ids": Uuids(list(memory_ids))})
    return [memory_id for (memory_id,) in rows.fetchall()]


_SEARCHED: Final = """
SELECT memory_id FROM memory_state
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier = 'active' ORDER BY memory_id
"""
