"""The two stages between storing and searching: words into the index, texts into vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import LiteralString
from uuid import UUID, uuid4

import psycopg

from app.clients.embedding.embedder import embedder
from app.domain.ingest.ids import array_literal
from app.domain.policy.policy import Policy
from app.services.enrichment import stage_runner
from app.services.enrichment.index import index_memories
from app.settings import settings
from app.store.core import database
from app.store.embedding import embeddings
from app.store.enrichment import work_queue
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.lots import Lot
from ops.bench.place import Place

ENTRY = 100  # memories per request, as in the requests that stored them
ROWS = (1_000, 10_000)
INDEX_GOAL, EMBED_GOAL = Goal(ratio_least=0.7), Goal(ratio_least=0.7)
INDEX_NOTE = (
    "the stage creates the tsvectors, adds the neighbours' words and counts words, but maintains no GIN index: in a "
    "tenant of this size, searches compare all rows"
)
_SQL = statements("index")


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure each stage's rows per second in a worker's batches: words, and vectors including their claims."""
    for rows in ROWS:
        yield from _index(place, plan, plan.size(rows, rows // 10), main=rows == ROWS[-1])
    for rows in ROWS:
        yield _embed(place, plan, plan.size(rows, rows // 10))
    place.empty()


def _index(place: Place, plan: Plan, rows: int, *, main: bool) -> Iterator[Figure]:
    lot = _stored(place, rows)
    _index_all(lot)
    with psycopg.connect(place.owner_url, autocommit=True) as connection:
        connection.execute(_filled("prepare", tenant=str(lot.tenant_id)))
        real, *floors = plan.rounds(
            partial(_by_stage, place, lot),
            partial(_by_insert, connection, lot, "ready_indexed"),
            partial(_by_to_tsvector, connection, lot),
            partial(_by_insert, connection, lot, "ready"),
        )
        connection.execute(_SQL["drop"])
    work = f"index stage, {rows:,} memories"
    names = ("INSERT of ready tsvectors, with GIN", "INSERT … to_tsvector(text)", "INSERT of ready tsvectors")
    goals = (INDEX_GOAL if main else NO_GOAL, NO_GOAL, NO_GOAL)
    notes = (INDEX_NOTE if main else "", "", "")
    for name, floor, goal, note in zip(names, floors, goals, notes, strict=True):
        yield Figure(work, "rows/s", real, name, floor, goal, note=note)


def _embed(place: Place, plan: Plan, rows: int) -> Figure:
    lot = _stored(place, rows)
    real, alone = plan.rounds(partial(_by_embed_stage, place, lot), partial(_by_embedder, lot))
    goal = EMBED_GOAL if rows >= ROWS[-1] or plan.quick else NO_GOAL
    return Figure(f"embed stage, {rows:,} memories", "rows/s", real, "embedder alone, texts loaded", alone, goal)


def _stored(place: Place, rows: int) -> Lot:
    """Store memories of a new tenant that no stage has processed."""
    place.empty()
    lot = Lot.make(uuid4(), rows, ENTRY)
    lot.copy(place.owner_url)
    return lot


def _index_all(lot: Lot) -> None:
    for ids in lots(lot.ids, settings().index_rows):
        index_memories(lot.tenant_id, ids, Policy())


def _by_stage(place: Place, lot: Lot) -> float:
    place.owner.execute("TRUNCATE memory_words, words")
    started = time.perf_counter()
    _index_all(lot)
    return lot.rows / (time.perf_counter() - started)


def _by_insert(connection: psycopg.Connection, lot: Lot, name: str) -> float:
    connection.execute("TRUNCATE bench.plain, bench.indexed")
    step = settings().index_rows
    started = time.perf_counter()
    for after in range(0, lot.rows, step):
        connection.execute(_filled(name, after=after, until=after + step))
    return lot.rows / (time.perf_counter() - started)


def _by_to_tsvector(connection: psycopg.Connection, lot: Lot) -> float:
    connection.execute("TRUNCATE bench.plain")
    texts = [array_literal([str(memory_id) for memory_id in ids]) for ids in lots(lot.ids, settings().index_rows)]
    started = time.perf_counter()
    for ids in texts:
        connection.execute(_filled("to_tsvector", tenant=str(lot.tenant_id), ids=ids))
    return lot.rows / (time.perf_counter() - started)


def _by_embed_stage(place: Place, lot: Lot) -> float:
    place.owner.execute("TRUNCATE embeddings, memory_windows, tenant_work")
    with database.shared() as tx:
        for ids in lots(lot.ids, ENTRY):
            work_queue.add(tx, [work_queue.EMBED], lot.tenant_id, ids)
    started = time.perf_counter()
    while stage_runner.embed(stage_runner.EMBED_THREADS):
        pass
    return lot.rows / (time.perf_counter() - started)


def _by_embedder(lot: Lot) -> float:
    batches = []
    for ids in lots(lot.ids, settings().embed_rows):
        with database.tenant(lot.tenant_id) as tx:
            batches.append(embeddings.read_texts(tx, lot.tenant_id, ids, ahead=True).memories)
    model = embedder()
    started = time.perf_counter()
    for batch in batches:
        model.embed_memories(batch)
    return lot.rows / (time.perf_counter() - started)


def lots(ids: list[UUID], size: int) -> list[list[UUID]]:
    """Return the ids in batches of a size."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _filled(name: str, **values: object) -> LiteralString:
    """Return a statement with local values inserted: ids and numbers, never a caller's text."""
    return _SQL[name].format(**values)
