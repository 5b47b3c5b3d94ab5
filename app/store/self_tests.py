"""Store self-test runs and the outcome of each test. Neither questions nor answers are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from app.domain.evaluation.self_test_rules import FLAGGING, Kind
from app.store.core.paging import Latest, Page, Place, build_one
from app.store.memories.roles import ASIDE


class PlannedTest(NamedTuple):
    """A test of a memory; `other_id` is the source of a link to the memory, for tests of links."""

    kind: Kind
    memory_id: UUID
    other_id: UUID | None = None


class SelfTestOutcome(NamedTuple):
    """The outcome of a test.

    Attributes:
        place: The memory's rank in the results, starting at 1; None if it wasn't found or no search was made.
        share: Share of the key points that a summary contains.
        milliseconds: Duration of the search; None if it wasn't measured.
        by_model: A model wrote the question.
        brought: Number of memories returned by a recall; None for other tests.
    """

    memory_id: UUID
    passed: bool
    place: int | None = None
    share: float | None = None
    milliseconds: float | None = None
    by_model: bool = False
    brought: int | None = None


class NewTestRun(NamedTuple):
    """A run to be inserted; attributes as in `SelfTestRun`."""

    run_id: UUID
    as_of: datetime
    seed: int
    target_ms: float


@dataclass(frozen=True, slots=True)
class SelfTestRun:
    """A self-test run of a tenant.

    Attributes:
        as_of: Time for which the sample was drawn.
        seed: Seed of the sample.
        target_ms: Target for the 95th percentile of search durations.
        p50_ms: Median search duration; None if no search was made.
        p95_ms: 95th percentile of search durations.
        results: By kind, the numbers of tests `passed` and `failed`; for `recall` also `empty`.
    """

    run_id: UUID
    as_of: datetime
    seed: int
    target_ms: float
    p50_ms: float | None
    p95_ms: float | None
    results: dict[str, dict[str, int]]
    started_at: datetime
    finished_at: datetime | None


class TestedSummary(NamedTuple):
    """A summary with its sources.

    Attributes:
        memory_id: The summary's id.
        text: The summary's text.
        key_points: The points that it must contain.
        sources: Texts of those sources that are neither deleted nor in cold storage.
    """

    memory_id: UUID
    text: str
    key_points: Sequence[str]
    sources: Sequence[str]


_RUN: Final = "run_id, as_of, seed, target_ms, p50_ms, p95_ms, results, started_at, finished_at"

# Sort key that depends only on the id and the seed.
_DRAWN: Final = "uuid_hash_extended({id}, CAST(:seed AS bigint))"
# Searches never return superseded memories, nor those with the roles system and tool unless requested.
_CURRENT: Final = f"""{{id}} NOT IN (
  SELECT superseded_id FROM supersessions WHERE tenant_id = :tenant AND status = 'active'
  UNION ALL SELECT memory_id FROM memories WHERE tenant_id = :tenant AND {ASIDE})"""  # noqa: S608 - constants only
_TESTABLE: Final = f"""EXISTS (
  SELECT FROM memory_state AS state WHERE state.tenant_id = :tenant AND state.memory_id = {{id}}
    AND tier = 'active' AND anchored_at <= :as_of AND policy_version <= :version) AND {_CURRENT}"""


def draw_memories(tx: Connection, tenant_id: UUID, as_of: datetime, version: int, seed: int, limit: int) -> list[UUID]:
    """Draw active memories that searches return by default, without those used or changed after `as_of`.

    Args:
        as_of: Time of the sample.
        version: The policy version in force at that time.
        seed: Determines the order.
    """
    values = {"tenant": tenant_id, "as_of": as_of, "version": version, "seed": seed, "limit": limit}
    return list(tx.execute(_SAMPLE, values).scalars())


_SAMPLE: Final = text(f"""
SELECT memory_id FROM memory_state
WHERE tenant_id = :tenant AND tier = 'active' AND anchored_at <= :as_of AND policy_version <= :version
  AND {_CURRENT.format(id="memory_id")}
ORDER BY {_DRAWN.format(id="memory_id")}, memory_id LIMIT :limit
""")  # noqa: S608 - constants only


def draw_links(
    tx: Connection, tenant_id: UUID, as_of: datetime, version: int, seed: int, limit: int
) -> list[tuple[UUID, UUID]]:
    """Draw links between memories that `draw_memories` may draw, at most one per target; arguments as there."""
    values = {"tenant": tenant_id, "as_of": as_of, "version": version, "seed": seed, "limit": limit}
    return [(row.memory_id, row.other_id) for row in tx.execute(_LINKS, values)]


_LINKS: Final = text(f"""
SELECT memory_id, other_id FROM (
  SELECT memory_id, other_id FROM (
    SELECT DISTINCT ON (other_id) memory_id, other_id FROM links WHERE tenant_id = :tenant AND weight > 0
    ORDER BY other_id, {_DRAWN.format(id="memory_id")}
  ) AS each ORDER BY {_DRAWN.format(id="other_id")}, other_id LIMIT :limit
) AS link
WHERE {_TESTABLE.format(id="link.memory_id")} AND {_TESTABLE.format(id="link.other_id")}
ORDER BY {_DRAWN.format(id="other_id")}, other_id
""")  # noqa: S608 - constants only


def draw_summaries(tx: Connection, tenant_id: UUID, as_of: datetime, version: int, seed: int, limit: int) -> list[UUID]:
    """Draw summaries that `draw_memories` may draw and whose sources are unchanged; arguments as there."""
    values = {"tenant": tenant_id, "as_of": as_of, "version": version, "seed": seed, "limit": limit}
    return list(tx.execute(_DRAWN_SUMMARIES, values).scalars())


_DRAWN_SUMMARIES: Final = text(f"""
SELECT summary_id FROM (
  SELECT summary_id FROM merges
  WHERE tenant_id = :tenant AND status = 'done' AND summary_id IS NOT NULL AND NOT is_stale
  ORDER BY {_DRAWN.format(id="summary_id")}, summary_id LIMIT :limit
) AS made WHERE {_TESTABLE.format(id="made.summary_id")} ORDER BY {_DRAWN.format(id="summary_id")}, summary_id
""")  # noqa: S608 - constants only


def list_unchanged_summaries(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[TestedSummary]:
    """Return the summaries among these whose generated text is unchanged, in id order."""
    rows = tx.execute(_SUMMARIES, {"tenant": tenant_id, "ids": list(memory_ids)})
    return [TestedSummary(*row) for row in rows]


# Texts in cold storage are truncated, so their content isn't known here.
_SUMMARIES: Final = text("""
SELECT summary_id, memory.text, key_points, ARRAY(
  SELECT source.text FROM lineage CROSS JOIN LATERAL (
    SELECT text FROM memories JOIN memory_state USING (tenant_id, memory_id)
    WHERE tenant_id = :tenant AND memory_id = lineage.memory_id AND deleted_at IS NULL
      AND tier IN ('active', 'archived') OFFSET 0) AS source
  WHERE lineage.tenant_id = :tenant AND lineage.merge_id = merges.merge_id AND part = 'source'
  ORDER BY lineage.memory_id)
FROM merges JOIN memories AS memory ON memory.tenant_id = :tenant AND memory_id = summary_id
WHERE merges.tenant_id = :tenant AND summary_id = ANY (CAST(:ids AS uuid[])) AND status = 'done' AND NOT is_stale
  AND memory.deleted_at IS NULL AND memory.text_version = summary_version
ORDER BY summary_id
""")


def read_texts(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the texts of these memories; deleted memories and memories outside the full-text index are omitted."""
    return dict(map(tuple, tx.execute(_TEXTS, {"tenant": tenant_id, "ids": list(memory_ids)})))


_TEXTS: Final = text("""
SELECT memory_id, text FROM unnest(CAST(:ids AS uuid[])) AS id CROSS JOIN LATERAL (
  SELECT memory_id, text FROM memories
  WHERE tenant_id = :tenant AND memory_id = id AND deleted_at IS NULL OFFSET 0) AS memory
WHERE EXISTS (SELECT FROM memory_words WHERE tenant_id = :tenant AND memory_words.memory_id = id)
""")


def start_run(tx: Connection, tenant_id: UUID, run: NewTestRun, asked: Sequence[PlannedTest]) -> bool:
    """Insert a run with all of its tests. Return False if another run is unfinished."""
    if tx.execute(_BEGIN, {"tenant": tenant_id, **run._asdict()}).rowcount == 0:
        return False
    tx.execute(
        _ADD,
        {
            "tenant": tenant_id,
            "run_id": run.run_id,
            "kinds": [test.kind for test in asked],
            "ids": [test.memory_id for test in asked],
            "others": [test.other_id for test in asked],
        },
    )
    return True


_BEGIN: Final = text("""
INSERT INTO self_test_runs (tenant_id, run_id, as_of, seed, target_ms)
VALUES (:tenant, :run_id, :as_of, :seed, :target_ms)
ON CONFLICT (tenant_id) WHERE finished_at IS NULL DO NOTHING
""")
_ADD: Final = text("""
INSERT INTO self_tests (tenant_id, run_id, kind, memory_id, other_id)
SELECT :tenant, :run_id, kind, memory_id, other_id
FROM unnest(CAST(:kinds AS text[]), CAST(:ids AS uuid[]), CAST(:others AS uuid[])) AS given (kind, memory_id, other_id)
""")


def read_last_run(tx: Connection, tenant_id: UUID) -> SelfTestRun | None:
    """Return the tenant's latest run, finished or not; None if there is none."""
    runs = list_runs(tx, tenant_id, None, 1)
    return runs[0] if runs else None


def list_runs(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[SelfTestRun]:
    """Return a page of runs, latest first."""
    return _PAGES.read(tx, lambda row: SelfTestRun(*row), older_than, limit, tenant=tenant_id)


_PAGES: Final = Latest(f"""
SELECT {_RUN} FROM self_test_runs WHERE tenant_id = :tenant
ORDER BY started_at DESC, run_id DESC""")  # noqa: S608 - constants only


def read_last_with_recalls(tx: Connection, tenant_id: UUID) -> SelfTestRun | None:
    """Return the tenant's latest finished run with tests of recalls; None if there is none."""
    return build_one(SelfTestRun, tx.execute(_LAST_WITH_RECALLS, {"tenant": tenant_id}))


_LAST_WITH_RECALLS: Final = text(f"""
SELECT {_RUN} FROM self_test_runs
WHERE tenant_id = :tenant AND finished_at IS NOT NULL AND results -> 'recall' IS NOT NULL
ORDER BY started_at DESC, run_id DESC LIMIT 1
""")  # noqa: S608 - constants only


def get(tx: Connection, tenant_id: UUID, run_id: UUID) -> SelfTestRun | None:
    """Return a run, or None if it doesn't exist."""
    return build_one(SelfTestRun, tx.execute(_GET, {"tenant": tenant_id, "run_id": run_id}))


_GET: Final = text(f"SELECT {_RUN} FROM self_test_runs WHERE tenant_id = :tenant AND run_id = :run_id")  # noqa: S608


def list_pending(tx: Connection, tenant_id: UUID, run_id: UUID, kind: Kind, limit: int) -> list[PlannedTest]:
    """Return a run's pending tests of this kind."""
    values = {"tenant": tenant_id, "run_id": run_id, "kind": kind, "limit": limit}
    return [PlannedTest(kind, row.memory_id, row.other_id) for row in tx.execute(_WAITING, values)]


_WAITING: Final = text("""
SELECT memory_id, other_id FROM self_tests
WHERE tenant_id = :tenant AND run_id = :run_id AND kind = :kind AND passed IS NULL ORDER BY memory_id LIMIT :limit
""")


def record_outcomes(
    tx: Connection, tenant_id: UUID, run_id: UUID, kind: Kind, outcomes: Sequence[SelfTestOutcome]
) -> set[UUID]:
    """Store outcomes of tests. Return the memories whose outcome wasn't stored before."""
    values: dict[str, Any] = {"tenant": tenant_id, "run_id": run_id, "kind": kind}
    columns = {name: [getattr(outcome, name) for outcome in outcomes] for name in SelfTestOutcome._fields}
    return set(tx.execute(_ENTER, values | columns).scalars())


_ENTER: Final = text("""
UPDATE self_tests AS test SET passed = given.passed, place = given.place, share = given.share,
  milliseconds = given.milliseconds, by_model = given.by_model, brought = given.brought
FROM unnest(CAST(:memory_id AS uuid[]), CAST(:passed AS boolean[]), CAST(:place AS int[]), CAST(:share AS float8[]),
  CAST(:milliseconds AS float8[]), CAST(:by_model AS boolean[]), CAST(:brought AS int[]))
  AS given (memory_id, passed, place, share, milliseconds, by_model, brought)
WHERE tenant_id = :tenant AND run_id = :run_id AND kind = :kind AND test.memory_id = given.memory_id
  AND test.passed IS NULL
RETURNING test.memory_id
""")


def drop_tests(tx: Connection, tenant_id: UUID, run_id: UUID, kind: Kind, memory_ids: Sequence[UUID]) -> None:
    """Remove pending tests from a run because their memories were deleted or changed in between."""
    tx.execute(_DROP, {"tenant": tenant_id, "run_id": run_id, "kind": kind, "ids": list(memory_ids)})


_DROP: Final = text("""
DELETE FROM self_tests
WHERE tenant_id = :tenant AND run_id = :run_id AND kind = :kind AND memory_id = ANY (CAST(:ids AS uuid[]))
  AND passed IS NULL
""")


def list_passed(tx: Connection, tenant_id: UUID, run_id: UUID, excluded: Kind) -> set[UUID]:
    """Return the ids of memories that passed a test of this run whose kind is in `FLAGGING` and isn't `excluded`."""
    kinds = [kind for kind in FLAGGING if kind != excluded]
    values = {"tenant": tenant_id, "run_id": run_id, "kinds": kinds}
    return set(tx.execute(_PASSED, values).scalars())


_PASSED: Final = text("""
SELECT DISTINCT memory_id FROM self_tests
WHERE tenant_id = :tenant AND run_id = :run_id AND kind = ANY (CAST(:kinds AS text[])) AND passed
""")


def read_results(tx: Connection, tenant_id: UUID, run_id: UUID) -> tuple[dict[str, dict[str, int]], list[float]]:
    """Return a run's results so far: passed and failed per kind, and the durations of its searches in milliseconds."""
    results: dict[str, dict[str, int]] = {}
    times: list[float] = []
    for kind, passed, failed, empty, milliseconds in tx.execute(_TOOK, {"tenant": tenant_id, "run_id": run_id}):
        results[kind] = {"passed": passed, "failed": failed} | ({"empty": empty} if kind == "recall" else {})
        times += milliseconds or ()
    return results, times


_TOOK: Final = text("""
SELECT kind, count(*) FILTER (WHERE passed), count(*) FILTER (WHERE NOT passed),
  count(*) FILTER (WHERE brought = 0), array_agg(milliseconds) FILTER (WHERE milliseconds IS NOT NULL)
FROM self_tests WHERE tenant_id = :tenant AND run_id = :run_id AND passed IS NOT NULL GROUP BY kind ORDER BY kind
""")


def finish_run(
    tx: Connection,
    tenant_id: UUID,
    run_id: UUID,
    results: dict[str, dict[str, int]],
    p50_ms: float | None,
    p95_ms: float | None,
) -> bool:
    """Store a run's results and delete its pending tests. Return False if it was finished before."""
    values = {"tenant": tenant_id, "run_id": run_id, "results": results, "p50_ms": p50_ms, "p95_ms": p95_ms}
    return tx.execute(_FINISH, values).rowcount == 1


_FINISH: Final = text("""
WITH unasked AS (
  DELETE FROM self_tests WHERE tenant_id = :tenant AND run_id = :run_id AND passed IS NULL
)
UPDATE self_test_runs SET finished_at = now(), results = :results, p50_ms = :p50_ms, p95_ms = :p95_ms
WHERE tenant_id = :tenant AND run_id = :run_id AND finished_at IS NULL
""").bindparams(bindparam("results", type_=JSONB))
