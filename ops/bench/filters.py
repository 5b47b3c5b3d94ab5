"""Searches filtered by metadata, against the same searches without a filter."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from app.domain.search.request import SearchRequest
from app.services.search.search import search
from app.services.tenants import tenants
from app.settings import settings
from ops.bench.corpus import Corpus
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.place import Place
from ops.bench.search import fill, index_vectors, measure_milliseconds, percentile

SIZE: Final = 100_000
PARTS: Final = {"half": 2, "tenth": 10, "thirtieth": 30, "hundredth": 100, "thousandth": 1000}
"""Members of the metadata by name, each with its number of different values."""


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure the 95th percentile and the recall by the share of memories that pass."""
    place.empty()
    size = plan.size(SIZE, 2_000)
    tenant, _ = tenants.create(f"filters {size}")
    fill(place, tenant.tenant_id, size)
    add_metadata(place)
    queries = Corpus(seed=11).queries(plan.size(40, 5))
    if size > settings().search_exact_rows:
        index_vectors(place, tenant.tenant_id, plan.repeats)
    wanted: list[dict[str, Any] | None] = [None, *({part: 1} for part in PARTS)]
    runs = [partial(_searches, tenant.tenant_id, queries, metadata) for metadata in wanted]
    for run in runs:
        run()
    unfiltered, *filtered = plan.rounds(*runs)
    requests = [SearchRequest(query) for query in queries]
    unfiltered_recall = _found_share(tenant.tenant_id, requests, size) if size > settings().search_exact_rows else 1.0
    floors = [percentile(took, 0.95) for took in unfiltered]
    for part, rounds in zip(PARTS, filtered, strict=True):
        yield Figure(
            f"search, {size:,} memories, metadata of a {part}: p95",
            "ms",
            [percentile(took, 0.95) for took in rounds],
            "no filter",
            floors,
            Goal(ratio_most=1.5),
        )
        if size > settings().search_exact_rows:
            yield _recall(tenant.tenant_id, queries, part, size, unfiltered_recall)
    place.empty()


def add_metadata(place: Place) -> None:
    """Give every memory metadata whose members select the shares in `PARTS`."""
    values = [f"'{part}', abs(hashtext('{part}' || memory_id)) % {number}" for part, number in PARTS.items()]
    members = f"'channel', 'chat', 'labels', ARRAY['a', 'b'], {', '.join(values)}"
    place.owner.execute(f"UPDATE memories SET metadata = jsonb_build_object({members})".encode())  # noqa: S608 - constants
    place.owner.execute("VACUUM ANALYZE memories")


def _searches(tenant_id: UUID, queries: Sequence[str], metadata: dict[str, Any] | None) -> list[float]:
    return [
        measure_milliseconds(partial(search, tenant_id, SearchRequest(query, metadata=metadata))) for query in queries
    ]


def _recall(tenant_id: UUID, queries: Sequence[str], part: str, size: int, unfiltered: float) -> Figure:
    """Measure what a filtered search finds of the best results, beside the same searches without a filter."""
    share = _found_share(tenant_id, [SearchRequest(query, metadata={part: 1}) for query in queries], size)
    work = f"search, {size:,} memories, metadata of a {part}: recall@10"
    return Figure(work, "share", [share], "no filter", [unfiltered], Goal(ratio_least=0.98))


def _found_share(tenant_id: UUID, requests: Sequence[SearchRequest], size: int) -> float:
    """Return the share of the ten best results of a comparison of all memories that the searches find."""
    found = [{result.id for result in search(tenant_id, request)} for request in requests]
    os.environ["EBBING_SEARCH_EXACT_ROWS"] = str(10 * size)
    settings.cache_clear()
    exact = [{result.id for result in search(tenant_id, request)} for request in requests]
    del os.environ["EBBING_SEARCH_EXACT_ROWS"]
    settings.cache_clear()
    return statistics.fmean(len(some & every) / len(every) for some, every in zip(found, exact, strict=True) if every)
