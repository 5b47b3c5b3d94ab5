"""Erasures (until hidden, and until verified), deletions of single memories, and expiry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from app.domain.jobs import ERASE, Job, Step
from app.domain.privacy.legal_hold import Scope
from app.services.embedding.embed import embed_memories
from app.services.enrichment.index import index_memories
from app.services.erasure import execution, index_removal, night_slice, requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from app.services.storage.memory_write import HIDE
from app.services.tenants import tenants
from app.services.tiers import expiry
from app.settings import settings
from ops.bench import aged
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.lots import Lot
from ops.bench.place import Place
from ops.bench.stages import lots

ERASED, OTHERS = 10_000, 50_000
DELETED, BESIDE = 1_000, 2_000
EXPIRED, KEPT = 100_000, 20_000
ENTRY = 50
SAY_ROWS, SAY_SECONDS = 10_000, 10
SLICE_SECONDS = 2.0


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure one round each: recreating the data takes longer than removing it."""
    place.empty()
    yield from _erasure(place, plan)
    place.empty()
    yield from _deletions(place, plan)
    place.empty()
    yield from _expiry(place, plan)
    place.empty()


def _erasure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Erase a person among as many memories of another person in the same threads; the rest are copies."""
    erased, others = plan.size(ERASED, 500), plan.size(OTHERS, 2_000)
    tenant_id = tenants.create("erasure")[0].tenant_id
    ids = _fill(place, plan, tenant_id, 2 * erased)
    place.owner.execute(
        "UPDATE memories SET subject = CASE WHEN memory_id = ANY (%(ids)s) THEN 'ann' ELSE 'bob' END "
        "WHERE tenant_id = %(tenant)s",
        {"tenant": tenant_id, "ids": ids[::2]},
    )
    _beside(place, plan, tenant_id, others - erased)
    beside = f"{erased:,} memories among {others:,}"
    plan.say(f"erasing {beside}")
    started = time.perf_counter()
    asked = requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "bench")
    hidden = time.perf_counter() - started
    if asked.hidden != erased:
        raise RuntimeError(f"{asked.hidden} memories are hidden, not {erased}")
    yield Figure(f"hidden when the request returns, {beside}", "s", [hidden], goal=Goal(most=1))
    taken_out = _took(plan, tenant_id, HIDE, {"erasure_id": str(asked.erasure_id)})
    yield Figure("removed from the indexes and neighbours' context", "s", [taken_out])
    gone = _took(plan, tenant_id, ERASE, {"erasure_id": str(asked.erasure_id)})
    if requests.get(tenant_id, asked.erasure_id).status != "verified":
        raise RuntimeError("the erasure isn't verified")
    yield Figure("erased and verified, keys included", "s", [gone], goal=Goal(most=10))


def _deletions(place: Place, plan: Plan) -> Iterator[Figure]:
    """Delete single memories, each by a request of its own, all due on one night."""
    deleted, beside = plan.size(DELETED, 50), plan.size(BESIDE, 100)
    tenant_id = tenants.create("deletions")[0].tenant_id
    ids = _fill(place, plan, tenant_id, deleted + beside)[:deleted]
    started = time.perf_counter()
    for memory_id in ids:
        memories.delete(tenant_id, memory_id, "bench")
    each = (time.perf_counter() - started) / deleted * 1000
    yield Figure("deletion of a memory, until the caller gets the response", "ms", [each])
    later = datetime.now(UTC) + timedelta(days=31)
    state: dict[str, Any] = {}
    done = Step(0, state, finished=False)
    started = time.perf_counter()
    while not done.finished:
        done = night_slice.run_night_slice(tenant_id, later, state, time.monotonic() + SLICE_SECONDS)
        state = done.state
    took = time.perf_counter() - started
    _expect(place, "SELECT count(*) FROM erasures WHERE tenant_id = %s AND status = 'verified'", tenant_id, deleted)
    yield Figure(f"{deleted:,} deletions due on one night, each verified", "s", [took])


def _expiry(place: Place, plan: Plan) -> Iterator[Figure]:
    """Expire memories of a category, as rows without words and vectors, among others that are not due."""
    expired, kept = plan.size(EXPIRED, 1_000), plan.size(KEPT, 200)
    tenant_id = tenants.create("privacy expiry")[0].tenant_id
    aged.fill(place, tenant_id, expired + kept)
    place.owner.execute(
        "UPDATE memories SET categories = '{pii}', created_at = now() - interval '31 days' "
        "WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)",
        {"tenant": tenant_id, "ids": aged.ids(expired)},
    )
    place.owner.execute(
        "UPDATE memory_state SET next_due_at = '-infinity', created_at = now() - interval '31 days' "
        "WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)",
        {"tenant": tenant_id, "ids": aged.ids(expired)},
    )
    place.owner.execute("VACUUM ANALYZE memories, memory_state")
    plan.say(f"expiring {expired:,} memories")
    took = _took(plan, tenant_id, expiry.KIND, {})
    _expect(place, "SELECT count(*) FROM memories WHERE tenant_id = %s", tenant_id, kept)
    yield Figure(f"expiry of {expired:,} due memories among {kept:,} others, with the sweep", "s", [took])


def _fill(place: Place, plan: Plan, tenant_id: UUID, size: int) -> list[UUID]:
    """Store `size` memories for a tenant, indexed and embedded, and report the progress. Return their ids."""
    lot = Lot.make(tenant_id, size, ENTRY)
    lot.copy(place.owner_url)
    for done, ids in zip(range(0, size, settings().index_rows), lots(lot.ids, settings().index_rows), strict=True):
        index_memories(tenant_id, ids)
        if done % SAY_ROWS == 0:
            plan.say(f"indexing: {done:,} of {size:,}")
    for done, ids in zip(range(0, size, settings().embed_rows), lots(lot.ids, settings().embed_rows), strict=True):
        embed_memories(tenant_id, ids)
        if done % SAY_ROWS == 0:
            plan.say(f"embedding: {done:,} of {size:,}")
    place.owner.execute("VACUUM ANALYZE memories, memory_state, memory_words, words, embeddings")
    return lot.ids


def _beside(place: Place, plan: Plan, tenant_id: UUID, size: int) -> None:
    """Copy another person's rows, in threads of their own, in every table that an erasure reads."""
    place.owner.execute("CREATE TEMPORARY TABLE sample AS SELECT memory_id FROM memories WHERE subject = 'bob'")
    place.owner.execute("ANALYZE sample")
    there = place.owner.execute("SELECT count(*) FROM sample").fetchone()
    whole = there[0] if there else 0
    for turn in range(-(-size // whole)):
        plan.say(f"copying memories of others: {turn * whole:,} of {size:,}")
        values = {"tenant": tenant_id, "turn": f"turn {turn}", "limit": min(whole, size - turn * whole)}
        for statement in _COPIES:
            place.owner.execute(statement, values)
    place.owner.execute("DROP TABLE sample")
    place.owner.execute("VACUUM ANALYZE memories, memory_state, memory_words, words, embeddings")


def _copies(table: str, changed: str) -> str:
    return f"""
INSERT INTO {table}
SELECT made.* FROM (SELECT memory_id FROM sample ORDER BY memory_id LIMIT %(limit)s) AS picked
JOIN {table} AS original ON original.tenant_id = %(tenant)s AND original.memory_id = picked.memory_id
CROSS JOIN LATERAL jsonb_populate_record(original, {changed}) AS made"""  # noqa: S608 - only constants


_ID: Final = "jsonb_build_object('memory_id', md5(%(turn)s || original.memory_id::text)::uuid)"
_COPIES: Final = (
    _copies("memories", f"{_ID} || jsonb_build_object('thread', %(turn)s || original.thread)"),
    *(_copies(table, _ID) for table in ("memory_state", "memory_words", "embeddings")),
    # Each word is in proportionally more memories; otherwise it would seem to belong only to the erased person.
    "UPDATE words SET documents = documents + 1 + documents / 2 WHERE tenant_id = %(tenant)s",
)


def _expect(place: Place, statement: str, tenant_id: UUID, wanted: int) -> None:
    """Raise an error if the measured work was not done."""
    found = place.owner.execute(statement, [tenant_id]).fetchone()
    if found != (wanted,):
        raise RuntimeError(f"{statement}: {found}, not {wanted}")


def _took(plan: Plan, tenant_id: UUID, kind: str, parameters: dict[str, Any]) -> float:
    """Return the seconds of running a job, and report its progress every few seconds."""
    step = {HIDE: index_removal.run_hide_slice, ERASE: execution.run_slice, expiry.KIND: expiry.run_job_slice}[kind]
    state: dict[str, Any] = {}
    finished = False
    started = said = time.perf_counter()
    items = 0
    while not finished:
        done = step(Job(uuid4(), tenant_id, kind, parameters, state, None, 0))
        if done.failure:
            raise RuntimeError(done.failure)
        state, finished = done.state, done.finished
        items += done.done
        if time.perf_counter() - said > SAY_SECONDS:
            said = time.perf_counter()
            plan.say(f"{kind}: {items:,} done after {said - started:.0f} s")
    return time.perf_counter() - started
