"""Search: the complete operation, against the two raw queries that it needs in any case."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import msgspec
import numpy as np
import psycopg
from psycopg import sql

from app.clients.embedding.embedder import embedder
from app.domain.jobs import Job
from app.domain.search import prefilter, terms
from app.domain.search.request import SearchRequest
from app.domain.text.words import content_words
from app.services.embedding import tenant_indexes
from app.services.embedding.embed import embed_memories
from app.services.enrichment.index import index_memories
from app.services.search.search import search
from app.services.tenants import tenants
from app.settings import settings
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import word_index
from app.store.search import candidate_selection
from app.store.search.query_parts import quote_lexeme
from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.lots import Lot
from ops.bench.place import Place, Running
from ops.bench.stages import lots

SIZES = (1_000, 10_000, 100_000)
TENANTS, TENANT_SIZE = 200, 5_000
ENTRY = 100
LANGUAGE = "english"
FLOOR = "raw vector + text query"
_SQL = statements("search")


@dataclass(frozen=True)
class RawQuery:
    """A query of a tenant with the input of the raw queries; `worth` is the expression that pruning looks up."""

    tenant_id: UUID
    query: str
    any_lexeme: str
    worth: str
    vector: str


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure median and 95th percentile in process and over HTTP, by a tenant's size and among many tenants."""
    place.empty()
    with place.api() as api:
        medians: dict[int, list[float]] = {}
        for size in SIZES[:2] if plan.quick else SIZES:
            yield from _of_size(place, plan, api, plan.size(size, size // 10), medians)
        sizes = list(medians)
        small, large = sizes[0], sizes[-1]
        yield Figure(
            f"search, growth: {large:,} memories, p50", "ms", medians[large], f"{small:,} memories", medians[small]
        )
        place.empty()
        yield from _of_many(place, plan, api, plan.size(TENANTS, 4), plan.size(TENANT_SIZE, 500))
    place.empty()


def _of_size(place: Place, plan: Plan, api: Running, size: int, medians: dict[int, list[float]]) -> Iterator[Figure]:
    tenant, key = tenants.create(f"search {size}")
    fill(place, tenant.tenant_id, size)
    asked = _asked({tenant.tenant_id: Corpus(seed=11).queries(plan.size(40, 5))})
    work, scans = f"search, {size:,} memories", ("vectors", "words")
    if size > settings().search_exact_rows:
        speeds = index_vectors(place, tenant.tenant_id, plan.repeats)
        yield Figure(f"{work}: first vectors grafted by the job", "rows/s", speeds)
        scans = ("graph", "index")
        yield _recall(asked, work)
    goal = Goal(ratio_most=2) if size >= SIZES[1] or plan.quick else NO_GOAL
    wanted = Demand(work, asked, {tenant.tenant_id: key}, scans, goal)
    yield from _timed(place, plan, api, wanted, medians.setdefault(size, []))


def _of_many(place: Place, plan: Plan, api: Running, many: int, size: int) -> Iterator[Figure]:
    """Measure many tenants with the same memories each: one is filled, the others are copies of its rows."""
    made = [tenants.create(f"search {size} of {n}") for n in range(many)]
    keys = {tenant.tenant_id: key for tenant, key in made}
    template, *others = keys
    fill(place, template, size)
    for lot in lots(others, 20):
        for name in ("memories", "states", "memory_words", "words", "embeddings", "spaces"):
            place.owner.execute(_SQL[f"copy_{name}"], {"tenants": lot, "template": template})
    place.owner.execute("VACUUM ANALYZE memories, memory_state, memory_words, words, embeddings")
    queries = Corpus(seed=11).queries(plan.size(40, 5))
    places = list(keys)[:: max(many // len(queries), 1)]
    asked = _asked({tenant_id: [query] for tenant_id, query in zip(places, queries, strict=False)})
    work = f"search, {many} tenants of {size:,} memories"
    yield from _timed(place, plan, api, Demand(work, asked, keys, ("vectors", "words")), [])


@dataclass(frozen=True)
class Demand:
    """The queries, their tenants' keys, and the names of the raw queries for the floor."""

    work: str
    asked: Sequence[RawQuery]
    keys: Mapping[UUID, str]
    scans: Sequence[str]
    goal: Goal = NO_GOAL


def _timed(place: Place, plan: Plan, api: Running, demand: Demand, medians: list[float]) -> Iterator[Figure]:
    work, asked = demand.work, demand.asked
    with psycopg.connect(place.owner_url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        connection.execute("SET plan_cache_mode = force_custom_plan")
        connection.execute("SET hnsw.ef_search = 200")
        raw_queries = partial(_scans, connection, _scan_values(asked[0].tenant_id), demand.scans, asked)
        whole = partial(_searches, asked)
        http = partial(_over_http, api, demand.keys, asked)
        for run in (whole, raw_queries, http):
            run()
        ours, over_http, raw = plan.rounds(whole, http, raw_queries)
    floors = [percentile(took, 0.5) for took in raw]
    medians += [percentile(took, 0.5) for took in ours]
    yield Figure(f"{work}: p50", "ms", medians, FLOOR, floors, demand.goal)
    yield Figure(f"{work}: p95", "ms", [percentile(took, 0.95) for took in ours], goal=Goal(most=50))
    yield Figure(f"{work}, HTTP: p50", "ms", [percentile(took, 0.5) for took in over_http], FLOOR, floors)
    yield Figure(f"{work}, HTTP: p95", "ms", [percentile(took, 0.95) for took in over_http])


def index_vectors(place: Place, tenant_id: UUID, repeats: int) -> list[float]:
    """Create a tenant's own indexes. Return the job's speeds; the remaining vectors are grafted without the job."""
    job = Job(uuid4(), tenant_id, tenant_indexes.KIND, {}, {}, None, 0)
    tenant_indexes.run_job_slice(job)
    speeds = []
    for _ in range(repeats):
        started = time.perf_counter()
        speeds.append(tenant_indexes.run_job_slice(job).done / (time.perf_counter() - started))
    place.owner.execute("SET maintenance_work_mem = '256MB'")
    [[name, definition]] = place.owner.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE %s", [f"graph%{tenant_id.hex}"]
    ).fetchall()
    place.owner.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    place.owner.execute("UPDATE embeddings SET grafted = true WHERE tenant_id = %s AND NOT grafted", [tenant_id])
    place.owner.execute(definition.encode())
    place.owner.execute("VACUUM ANALYZE embeddings")
    return speeds


def _recall(asked: Sequence[RawQuery], work: str) -> Figure:
    """Return the share of the ten best results of a full comparison that pruning finds.

    The full comparison ranks as many candidates as pruning does: neighbours and threads count only if they are
    candidates, so the best ten depend on the number of candidates, too.
    """
    pruned = _found(asked)
    os.environ["EBBING_SEARCH_EXACT_ROWS"] = str(10 * max(SIZES))
    settings.cache_clear()
    with patch.object(candidate_selection, "CANDIDATES", candidate_selection.CANDIDATES_OF_MANY):
        exact = _found(asked)
    del os.environ["EBBING_SEARCH_EXACT_ROWS"]
    settings.cache_clear()
    shares = [len(some & every) / len(every) for some, every in zip(pruned, exact, strict=True) if every]
    return Figure(f"{work}: recall@10 with pruning", "share", [statistics.fmean(shares)], goal=Goal(least=0.98))


def _found(asked: Sequence[RawQuery]) -> list[set[UUID]]:
    return [{result.id for result in search(one.tenant_id, SearchRequest(one.query))} for one in asked]


def fill(place: Place, tenant_id: UUID, size: int) -> list[UUID]:
    """Store `size` memories for a tenant, indexed and embedded. Return their ids."""
    lot = Lot.make(tenant_id, size, ENTRY)
    lot.copy(place.owner_url)
    for ids in lots(lot.ids, settings().index_rows):
        index_memories(tenant_id, ids)
    for ids in lots(lot.ids, settings().embed_rows):
        embed_memories(tenant_id, ids)
    place.owner.execute("VACUUM ANALYZE memories, memory_words, words, embeddings")
    return lot.ids


def _asked(queries: Mapping[UUID, Sequence[str]]) -> list[RawQuery]:
    asked = []
    for tenant_id, query in ((tenant_id, query) for tenant_id, each in queries.items() for query in each):
        with database.tenant(tenant_id) as tx:
            spellings = list(dict.fromkeys(content_words(query)))
            found, total = word_index.count_terms(tx, tenant_id, query, spellings, LANGUAGE)
        weighed = terms.weigh_query(found, total)
        vector = np.asarray(embedder().embed_query(query, weighed.spellings), dtype=np.float32)
        worth = [" & ".join(map(quote_lexeme, clause)) for clause in prefilter.worthwhile_words(weighed.lexemes, total)]
        any_lexeme = " | ".join(map(quote_lexeme, weighed.lexemes))
        asked.append(RawQuery(tenant_id, query, any_lexeme, " | ".join(worth), str(vector.tolist())))
    return asked


def _scan_values(tenant_id: UUID) -> dict[str, Any]:
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    return {"space": there and there.searched.space_id, "dimensions": there and there.searched.dimensions}


def _searches(asked: Sequence[RawQuery]) -> list[float]:
    return [measure_milliseconds(partial(search, one.tenant_id, SearchRequest(one.query))) for one in asked]


def _scans(
    connection: psycopg.Connection, values: dict[str, Any], scans: Sequence[str], asked: Sequence[RawQuery]
) -> list[float]:
    def scan(one: RawQuery) -> None:
        given = {"tenant": one.tenant_id, "vector": one.vector, "any": one.any_lexeme, "worth": one.worth}
        for name in scans:
            statement = _SQL[name].replace("{dimensions}", str(values["dimensions"]))
            connection.execute(statement.encode(), values | given).fetchall()

    return [measure_milliseconds(partial(scan, one)) for one in asked]


def _over_http(api: Running, keys: Mapping[UUID, str], asked: Sequence[RawQuery]) -> list[float]:
    def ask(connection: load.Connection, one: RawQuery) -> None:
        headers = [("authorization", f"Bearer {keys[one.tenant_id]}"), ("content-type", "application/json")]
        body = msgspec.json.encode({"query": one.query})
        connection.ask(load.request("POST", "/v1/search", body, headers), status=200)

    with load.Connection(api.host, api.port) as connection:
        return [measure_milliseconds(partial(ask, connection, one)) for one in asked]


def measure_milliseconds(run: Callable[[], object]) -> float:
    """Return the milliseconds of a run."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def percentile(took: Sequence[float], share: float) -> float:
    """Return the value below which this share of at least two values stayed."""
    return statistics.quantiles(took, n=100, method="inclusive")[round(share * 100) - 1]
