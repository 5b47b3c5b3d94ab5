"""Search: the whole of it, beside the two raw scans that it can't do without."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import msgspec
import numpy as np
import psycopg

from app.clients.embedder import embedder
from app.domain.retrieval import terms
from app.domain.retrieval.request import SearchRequest
from app.domain.wording import content_words
from app.services import tenants
from app.services.embed import embed
from app.services.index import index
from app.services.search import search
from app.settings import settings
from app.store import database, spaces, words
from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.lots import Lot
from ops.bench.place import Place, Running
from ops.bench.stages import lots

SIZES = (1_000, 10_000, 30_000)
ENTRY = 100
LANGUAGE = "english"
FLOOR = "raw vector + text scan"
_SQL = statements("search")


@dataclass(frozen=True)
class Asked:
    """A query, and what the raw scans need of it."""

    query: str
    any_lexeme: str
    vector: str


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Median and 95th percentile in process and over HTTP, by the number of the tenant's memories."""
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


def _of_size(place: Place, plan: Plan, api: Running, size: int, medians: dict[int, list[float]]) -> Iterator[Figure]:
    tenant, key = tenants.create(f"search {size}")
    fill(place, tenant.tenant_id, size)
    asked = _asked(tenant.tenant_id, Corpus(seed=11).queries(plan.size(40, 5)))
    with psycopg.connect(place.owner_url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        scans = partial(_scans, connection, _scan_values(tenant.tenant_id), asked)
        whole = partial(_searches, tenant.tenant_id, asked)
        http = partial(_over_http, api, key, asked)
        for run in (whole, scans, http):
            run()
        ours, over_http, raw = plan.rounds(whole, http, scans)
    goal = Goal(ratio_most=2) if size >= SIZES[1] or plan.quick else NO_GOAL
    floors = [percentile(took, 0.5) for took in raw]
    medians[size] = [percentile(took, 0.5) for took in ours]
    yield Figure(f"search, {size:,} memories: p50", "ms", medians[size], FLOOR, floors, goal)
    yield Figure(f"search, {size:,} memories: p95", "ms", [percentile(took, 0.95) for took in ours], goal=Goal(most=50))
    yield Figure(
        f"search, {size:,} memories, HTTP: p50", "ms", [percentile(took, 0.5) for took in over_http], FLOOR, floors
    )
    yield Figure(f"search, {size:,} memories, HTTP: p95", "ms", [percentile(took, 0.95) for took in over_http])


def fill(place: Place, tenant_id: UUID, size: int) -> list[UUID]:
    """Give a tenant so many memories, indexed and embedded. Returns their ids."""
    lot = Lot.make(tenant_id, size, ENTRY)
    lot.copy(place.owner_url)
    for ids in lots(lot.ids, settings().index_rows):
        index(tenant_id, ids)
    for ids in lots(lot.ids, settings().embed_rows):
        embed(tenant_id, ids)
    place.owner.execute("VACUUM ANALYZE memories, memory_words, words, embeddings")
    return lot.ids


def _asked(tenant_id: UUID, queries: Sequence[str]) -> list[Asked]:
    asked = []
    for query in queries:
        with database.tenant(tenant_id) as tx:
            spellings = list(dict.fromkeys(content_words(query)))
            weighed = terms.weigh(*words.terms(tx, tenant_id, query, spellings, LANGUAGE))
        vector = np.asarray(embedder().embed_query(query, weighed.spellings), dtype=np.float32)
        asked.append(Asked(query, " | ".join(f"'{lexeme}'" for lexeme in weighed.lexemes), str(vector.tolist())))
    return asked


def _scan_values(tenant_id: UUID) -> dict[str, object]:
    with database.tenant(tenant_id) as tx:
        there = spaces.of_tenant(tx, tenant_id)
    return {"tenant": tenant_id, "space": there and there.searched.space_id}


def _searches(tenant_id: UUID, asked: Sequence[Asked]) -> list[float]:
    return [_took(partial(search, tenant_id, SearchRequest(one.query))) for one in asked]


def _scans(connection: psycopg.Connection, values: dict[str, object], asked: Sequence[Asked]) -> list[float]:
    def scan(one: Asked) -> None:
        connection.execute(_SQL["vectors"], values | {"vector": one.vector}).fetchall()
        connection.execute(_SQL["words"], values | {"any": one.any_lexeme}).fetchall()

    return [_took(partial(scan, one)) for one in asked]


def _over_http(api: Running, key: str, asked: Sequence[Asked]) -> list[float]:
    headers = [("authorization", f"Bearer {key}"), ("content-type", "application/json")]
    with load.Connection(api.host, api.port) as connection:
        return [
            _took(
                partial(
                    connection.ask,
                    load.request("POST", "/v1/search", msgspec.json.encode({"query": one.query}), headers),
                    status=200,
                )
            )
            for one in asked
        ]


def _took(run: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def percentile(took: Sequence[float], share: float) -> float:
    """The value that this share of at least two stayed under."""
    return statistics.quantiles(took, n=100, method="inclusive")[round(share * 100) - 1]
