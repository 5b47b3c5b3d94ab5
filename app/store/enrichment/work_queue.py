"""Queue memories for the stages of enrichment, claimed in batches under leases.

The table `tenant_work` contains no memory content and has no row-level security: any worker can claim work of any
tenant, and then processes it in a transaction of that tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

INDEX: Final = "index"
EMBED: Final = "embed"
SCORE: Final = "score"
STAGES: Final = (INDEX, EMBED, SCORE)
# The stages after which a memory is fully searchable.
SEARCHED_BY: Final = (INDEX, EMBED)

NIL = UUID(int=0)
_ITEMS_LOOKED_AT = 64
BEHIND_SECONDS: Final = 0.5
"""Age from which an item shows that the stages of `SEARCHED_BY` can't keep up; see `is_search_behind`."""
TURN_SECONDS_MAX: Final = 1.0
"""Age from which a claim no longer prevents other claims of its tenant's work (`Sharing.one_turn`): the claimed
work takes long, as with a slow model, or the worker died."""


@dataclass(frozen=True, slots=True)
class WorkClaim:
    """Work of one tenant that this worker has leased.

    Attributes:
        work_ids: The claimed items.
        memory_ids: The memories of all claimed items.
        attempts: Highest number of claims of one of these items, including this claim.
        are_several: Several tenants have work of the stage.
        is_shared: The claim was limited because tenants share the stage.
    """

    claim_id: UUID
    stage: str
    tenant_id: UUID
    work_ids: list[int]
    memory_ids: list[UUID]
    attempts: int
    are_several: bool = False
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Sharing:
    """Rules for claims while several tenants have work of the stage.

    Attributes:
        limit: Maximum number of memories of a claim.
        is_shared: Apply these rules even if only one tenant has work now.
        one_turn: Skip a tenant with a claim that is younger than `TURN_SECONDS_MAX`, so that the lane's other processes
            serve other tenants.
    """

    limit: int
    is_shared: bool = False
    one_turn: bool = False


def add(tx: Connection, stages: Sequence[str], tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Queue memories of a tenant for stages, as one item per stage."""
    if memory_ids:
        tx.execute(_ADD, {"stages": list(stages), "tenant_id": tenant_id, "memory_ids": list(memory_ids)})


_ADD = text("""
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT stage, :tenant_id, CAST(:memory_ids AS uuid[]) FROM unnest(CAST(:stages AS text[])) AS stage
""")


def claim(
    tx: Connection,
    stage: str,
    *,
    claim_id: UUID,
    after: UUID,
    limit: int,
    lease_seconds: float,
    sharing: Sharing | None = None,
) -> WorkClaim | None:
    """Claim the oldest items of the next tenant after `after`, in rotation, so that no tenant starves.

    Items that failed before are claimed alone, so that an item that always fails doesn't affect others.

    Args:
        claim_id: A new id that proves the claim.
        after: The tenant of the last turn; `NIL` at first.
        limit: Maximum number of memories, unless the first item alone has more.
        lease_seconds: Duration of the claim.
        sharing: The rules for several tenants with work; None applies none of them.

    Returns:
        The claim, or None if no tenant has unclaimed work of this stage.
    """
    values = {
        "stage": stage,
        "claim": claim_id,
        "after": after,
        "limit": limit,
        "items": _ITEMS_LOOKED_AT,
        "lease": lease_seconds,
        "recent": lease_seconds - TURN_SECONDS_MAX,
        "is_shared": sharing is not None and sharing.is_shared,
        "shared_limit": min(sharing.limit, limit) if sharing is not None else None,
        "one_turn": sharing is not None and sharing.one_turn,
    }
    if sharing is not None and sharing.one_turn and sharing.is_shared:
        # Otherwise two workers could claim a tenant at once.
        tx.execute(_IN_ORDER_ONE_BY_ONE, {"name": f"claim {stage}"})
    else:
        tx.execute(_IN_ORDER)
    rows = tx.execute(_CLAIM, values).all()
    if not rows and after != NIL:
        rows = tx.execute(_CLAIM, values | {"after": NIL}).all()
    if not rows:
        return None
    rows = sorted(rows, key=lambda row: row.work_id)  # an UPDATE returns rows in the order of its plan
    ids = [memory_id for row in rows for memory_id in row.memory_ids]
    return WorkClaim(
        claim_id,
        stage,
        rows[0].tenant_id,
        [row.work_id for row in rows],
        ids,
        max(r.attempts for r in rows),
        are_several=rows[0].are_several,
        is_shared=rows[0].is_shared,
    )


# The queue is empty most of the time, so the planner's statistics say so while thousands of items wait, and it would
# read all of them for each claim. The primary key has the order in which items are claimed (record 0109).
_IN_ORDER_SQL = """SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('enable_sort', 'off', true)"""
_IN_ORDER = text(_IN_ORDER_SQL)
_IN_ORDER_ONE_BY_ONE = text(f"{_IN_ORDER_SQL}, pg_advisory_xact_lock(hashtextextended(:name, 0))")

# A tenant has work if one of its items is claimed or can be claimed now; items postponed because of its budget don't
# count. A tenant is busy if one of its oldest items was just claimed; later items aren't read, because the oldest are
# claimed first.
_CLAIM = text("""
WITH RECURSIVE sharing AS MATERIALIZED (
  SELECT are_several, (are_several OR :is_shared) AND CAST(:shared_limit AS integer) IS NOT NULL AS is_shared
  FROM (SELECT coalesce((
      SELECT tenant_id FROM tenant_work
      WHERE stage = :stage AND (claimed_until < now() OR claim IS NOT NULL) ORDER BY tenant_id LIMIT 1
    ) <> (
      SELECT tenant_id FROM tenant_work
      WHERE stage = :stage AND (claimed_until < now() OR claim IS NOT NULL) ORDER BY tenant_id DESC LIMIT 1
    ), false) AS are_several) AS tenants
), candidate AS (
  SELECT CAST(:after AS uuid) AS tenant_id, true AS is_busy
  UNION ALL
  SELECT next.tenant_id, :one_turn AND (SELECT is_shared FROM sharing) AND EXISTS (
    SELECT FROM (
      SELECT claim, claimed_until FROM tenant_work
      WHERE stage = :stage AND tenant_id = next.tenant_id ORDER BY work_id LIMIT :items
    ) AS oldest
    WHERE claim IS NOT NULL AND claimed_until > now() + make_interval(secs => :recent)
  )
  FROM candidate CROSS JOIN LATERAL (
    SELECT tenant_id FROM tenant_work
    WHERE stage = :stage AND claimed_until < now() AND tenant_id > candidate.tenant_id
    ORDER BY tenant_id LIMIT 1
  ) AS next
  WHERE candidate.is_busy
), tenant AS MATERIALIZED (
  SELECT tenant_id FROM candidate WHERE NOT is_busy
), free AS MATERIALIZED (
  SELECT work_id, attempts, cardinality(memory_ids) AS size
  FROM tenant_work
  WHERE stage = :stage AND tenant_id = (SELECT tenant_id FROM tenant) AND claimed_until < now()
  ORDER BY work_id LIMIT :items FOR UPDATE SKIP LOCKED
), numbered AS (
  SELECT work_id, attempts,
    row_number() OVER (ORDER BY work_id) AS place,
    sum(size) OVER (ORDER BY work_id) AS so_far,
    max(attempts) OVER (ORDER BY work_id) AS worst_so_far
  FROM free
)
UPDATE tenant_work AS work
SET claim = :claim, claimed_until = now() + make_interval(secs => :lease), attempts = work.attempts + 1
FROM sharing
WHERE work.stage = :stage AND work.tenant_id = (SELECT tenant_id FROM tenant) AND work.work_id = ANY(ARRAY(
  SELECT work_id FROM numbered, sharing
  WHERE place = 1 OR (so_far <= CASE WHEN is_shared THEN :shared_limit ELSE :limit END AND worst_so_far = 0)
))
RETURNING work.tenant_id, work.work_id, work.memory_ids, work.attempts, are_several, is_shared
""")


def finish_claim(tx: Connection, done: WorkClaim) -> bool:
    """Delete the claimed items, in the transaction that wrote their results.

    Returns false if another worker has claimed or finished them since the lease expired.
    """
    return tx.execute(_FINISH, _key(done)).rowcount > 0


_FINISH = text("""
DELETE FROM tenant_work
WHERE stage = :stage AND tenant_id = :tenant_id AND work_id = ANY(:work_ids) AND claim = :claim
""")


def release(tx: Connection, unfinished: WorkClaim, *, forgive: bool, delay_seconds: float = 0) -> None:
    """Release the claimed items for another attempt.

    Args:
        forgive: Don't count this attempt, because the work didn't cause the failure.
        delay_seconds: Time until the items can be claimed again.
    """
    tx.execute(_GIVE_BACK, _key(unfinished) | {"forgiven": int(forgive), "delay": delay_seconds})


_GIVE_BACK = text("""
UPDATE tenant_work
SET claim = NULL, claimed_until = now() + make_interval(secs => :delay), attempts = greatest(attempts - :forgiven, 0)
WHERE stage = :stage AND tenant_id = :tenant_id AND work_id = ANY(:work_ids) AND claim = :claim
""")


def postpone(tx: Connection, stage: str, tenant_id: UUID, seconds: float) -> None:
    """Postpone all unclaimed work of a tenant at this stage by this many seconds from now."""
    tx.execute(_PUT_OFF, {"stage": stage, "tenant_id": tenant_id, "seconds": seconds})


_PUT_OFF = text("""
UPDATE tenant_work SET claimed_until = now() + make_interval(secs => :seconds)
WHERE stage = :stage AND tenant_id = :tenant_id AND claimed_until < now()
""")


def narrow_claim(tx: Connection, large: WorkClaim, limit: int, lease_seconds: float) -> WorkClaim:
    """Keep the first `limit` memories of a claimed item, and release the others without counting an attempt.

    Call it in the transaction that claimed the item. The others retain the item's place before later items.
    """
    head = large.memory_ids[:limit]
    values = _key(large) | {"limit": limit, "head": head, "lease": lease_seconds}
    work_id = tx.execute(_NARROW, values).scalar_one()
    return replace(large, work_ids=[work_id], memory_ids=head)


_NARROW = text("""
WITH tail AS (
  UPDATE tenant_work
  SET memory_ids = memory_ids[CAST(:limit AS integer) + 1 :], claim = NULL, claimed_until = '-infinity',
    attempts = attempts - 1
  WHERE stage = :stage AND tenant_id = :tenant_id AND work_id = ANY(:work_ids) AND claim = :claim
  RETURNING stage, tenant_id, attempts, created_at
)
INSERT INTO tenant_work (stage, tenant_id, memory_ids, created_at, claim, claimed_until, attempts)
SELECT stage, tenant_id, CAST(:head AS uuid[]), created_at, CAST(:claim AS uuid),
  now() + make_interval(secs => :lease), attempts + 1
FROM tail RETURNING work_id
""")


def split_claim(tx: Connection, failed: WorkClaim) -> None:
    """Replace the claimed items with two items of half the memories each, to isolate a memory that can't be processed.

    The new items start with one counted attempt, so that each is claimed alone. Items that another worker has claimed
    since remain unchanged.
    """
    tx.execute(_SPLIT, _key(failed))


_SPLIT = text("""
WITH failed AS (
  DELETE FROM tenant_work
  WHERE stage = :stage AND tenant_id = :tenant_id AND work_id = ANY(:work_ids) AND claim = :claim
  RETURNING stage, tenant_id, work_id, memory_ids
), numbered AS (
  SELECT stage, tenant_id, memory_id, row_number() OVER (ORDER BY work_id, number) AS place, count(*) OVER () AS size
  FROM failed CROSS JOIN LATERAL unnest(memory_ids) WITH ORDINALITY AS item (memory_id, number)
)
INSERT INTO tenant_work (stage, tenant_id, memory_ids, attempts)
SELECT stage, tenant_id, array_agg(memory_id ORDER BY place), 1
FROM numbered GROUP BY stage, tenant_id, place > size / 2 ORDER BY min(place)
""")


def _key(held: WorkClaim) -> dict[str, object]:
    return {
        "stage": held.stage,
        "tenant_id": held.tenant_id,
        "work_ids": held.work_ids,
        "claim": held.claim_id,
    }


@dataclass(frozen=True, slots=True)
class StageBacklog:
    """The backlog of a stage: number of memories, and age of the oldest item in seconds."""

    memories: int
    oldest_age_seconds: float


def read_backlog(tx: Connection, tenant_id: UUID | None = None) -> dict[str, StageBacklog]:
    """Return the backlog of every stage, for one tenant or all."""
    rows = tx.execute(_WAITING, {"tenant_id": tenant_id}).all()
    backlogs = {row.stage: StageBacklog(row.memories, row.age) for row in rows}
    return {stage: backlogs.get(stage, StageBacklog(0, 0.0)) for stage in STAGES}


_WAITING = text("""
SELECT stage, CAST(sum(cardinality(memory_ids)) AS bigint) AS memories,
  CAST(greatest(extract(epoch FROM now() - min(created_at)), 0) AS double precision) AS age
FROM tenant_work
WHERE CAST(:tenant_id AS uuid) IS NULL OR tenant_id = CAST(:tenant_id AS uuid)
GROUP BY stage
""")


def oldest_age_seconds(tx: Connection, stage: str) -> float:
    """Return the age in seconds of a stage's oldest item over all tenants; 0 if the stage has no items."""
    return float(tx.execute(_OLDEST, {"stage": stage}).scalar_one())


_OLDEST = text("""
SELECT coalesce(greatest(extract(epoch FROM now() - min(created_at)), 0), 0) FROM tenant_work WHERE stage = :stage
""")


def is_search_behind(tx: Connection) -> bool:
    """Return True if an item of any tenant has waited `BEHIND_SECONDS` for a stage of `SEARCHED_BY`.

    Items that were postponed because of a provider or a budget don't count.
    """
    return bool(tx.execute(_BEHIND, {"stages": list(SEARCHED_BY), "seconds": BEHIND_SECONDS}).scalar())


_BEHIND = text("""
SELECT EXISTS (
  SELECT FROM tenant_work
  WHERE stage = ANY(:stages) AND (claimed_until < now() OR claim IS NOT NULL)
    AND created_at < now() - make_interval(secs => :seconds)
)
""")


def any_waiting(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> bool:
    """Return True if any of these memories (ids or aliases) is still queued for a stage that search depends on."""
    values = {"tenant_id": tenant_id, "memory_ids": list(memory_ids), "stages": list(SEARCHED_BY)}
    return bool(tx.execute(_ANY_WAITING, values).scalar())


_ANY_WAITING = text("""
SELECT EXISTS (
  SELECT FROM tenant_work
  WHERE stage = ANY(:stages) AND tenant_id = :tenant_id
    AND memory_ids && (CAST(:memory_ids AS uuid[]) || ARRAY(
      SELECT memory_id FROM memory_aliases WHERE tenant_id = :tenant_id AND alias_id = ANY(:memory_ids)))
)
""")
