"""Re-embedding: a tenant moves to another embedding space and back, with searches running throughout.

The other embedder is the tests' provider, on the same cores; the move back is to the bundled embedder.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from uuid import UUID

import httpx
import msgspec

from app.clients.embedding.embedder import Embedder
from app.clients.embedding.static_embedder import StaticEmbedder
from app.services.tenants import tenants
from app.settings import Settings
from app.store.core import database
from app.store.embedding import embeddings
from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.load import Connection
from ops.bench.place import Place, Running
from ops.bench.search import fill, percentile
from ops.bench.stages import lots

MEMORIES = 20_000
SAMPLE = 2_000  # memories for measuring the embedder alone
BATCH = 200
QUERIES = 40
DIMENSIONS = 256
PAUSE_SECONDS = 0.05  # between searches: without a pause, the client would occupy one of two cores
QUIET_SECONDS = 5
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 180
NOTE = "one move; the job, the provider and the searches (a pause of 50 ms after each) share the cores"
TO_PROVIDER, BACK = "by the provider", "by the bundled embedder"


@dataclass
class Searches:
    """Results of consecutive searches so far.

    Attributes:
        latencies_ms: Latencies of successful searches.
        failed: Number of searches without a response of status 200.
    """

    latencies_ms: list[float] = field(default_factory=list)
    failed: int = 0

    def percentile_ms(self, share: float) -> float:
        """Return the latency below which this share of the searches stayed."""
        return percentile(self.latencies_ms, share)


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure a move's memories per second against the embedder alone, and its effect on searches."""
    from app.clients.embedding import openai_embedder  # noqa: PLC0415 - half a second that the other benchmarks avoid

    place.empty()
    size = plan.size(MEMORIES, 1_000)
    tenant, key = tenants.create("reembed")
    ids = fill(place, tenant.tenant_id, size)
    with place.provider() as provider:
        there = {
            "EBBING_EMBEDDER": "openai",
            "EBBING_EMBEDDING_DIMENSIONS": str(DIMENSIONS),
            "EBBING_OPENAI_BASE_URL": f"{provider.url}/v1",
        }
        back = {"EBBING_OPENAI_BASE_URL": f"{provider.url}/v1"}
        settings = Settings(embedder="openai", embedding_dimensions=DIMENSIONS, openai_base_url=f"{provider.url}/v1")
        sample = ids[: plan.size(SAMPLE, 400)]
        for where, given, embedder in (
            (TO_PROVIDER, there, openai_embedder.from_settings(settings)),
            (BACK, back, StaticEmbedder()),
        ):
            alone = _alone(embedder, tenant.tenant_id, sample)
            with place.api(**given) as api, place.workers("maintain", **given):
                yield from _move(plan, api, key, where, size, alone)
    place.empty()


def _move(plan: Plan, api: Running, key: str, where: str, size: int, alone: float) -> Iterator[Figure]:
    requests = _requests(key)
    with searching(api, requests[:1]):  # a process is slow at first
        time.sleep(plan.seconds)
    with searching(api, requests) as quiet:
        time.sleep(plan.size(QUIET_SECONDS, 1))
    headers = {"authorization": f"Bearer {key}"}
    with (
        httpx.Client(base_url=api.url, headers=headers, timeout=60, trust_env=False) as client,
        searching(api, requests) as busy,
    ):
        started = time.perf_counter()
        _moved(client)
        took = time.perf_counter() - started
    work = f"re-embedding {size:,} {where}"
    note = NOTE if where == TO_PROVIDER else ""
    yield Figure(work, "memories/s", [size / took], "embedder alone, texts loaded", [alone], note=note)
    yield Figure(f"{work}: failed searches", f"of {len(busy.latencies_ms)}", [busy.failed], goal=Goal(most=0))
    if min(len(quiet.latencies_ms), len(busy.latencies_ms)) < 2:
        return  # too few responses for percentiles
    for name, share, goal in (("p50", 0.5, NO_GOAL), ("p95", 0.95, Goal(most=50))):
        values, floors = [busy.percentile_ms(share)], [quiet.percentile_ms(share)]
        yield Figure(f"{work}: search {name}", "ms", values, "search without a move", floors, goal)


def _moved(client: httpx.Client) -> None:
    """Start the job and wait until it is done.

    Raises:
        RuntimeError: The job failed, or is not done after three minutes.
    """
    job_id = client.post("/v1/maintenance/reembed", json={}).raise_for_status().json()["job_id"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (job := client.get(f"/v1/jobs/{job_id}").raise_for_status().json())["status"] != "done":
        if job["status"] not in {"queued", "running"} or time.monotonic() > deadline:
            raise RuntimeError(f"the job is {job['status']} at {job['done']} of {job['total']}: {job.get('error')}")
        time.sleep(POLL_SECONDS)


@contextmanager
def searching(api: Running, requests: Sequence[bytes]) -> Iterator[Searches]:
    """Run searches over one connection, with a pause after each, until the block ends."""
    found, ended = Searches(), threading.Event()
    thread = threading.Thread(target=_search, args=(api, requests, found, ended), name="searches", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _search(api: Running, requests: Sequence[bytes], found: Searches, ended: threading.Event) -> None:
    following = cycle(requests)
    while not ended.is_set():
        try:
            with Connection(api.host, api.port) as connection:
                while not ended.wait(PAUSE_SECONDS):
                    started = time.perf_counter()
                    connection.ask(next(following), status=200)
                    found.latencies_ms.append((time.perf_counter() - started) * 1000)
        except (OSError, RuntimeError):
            found.failed += 1


def _requests(key: str) -> list[bytes]:
    headers = [("authorization", f"Bearer {key}"), ("content-type", "application/json")]
    return [
        load.request("POST", "/v1/search", msgspec.json.encode({"query": query}), headers)
        for query in Corpus(seed=11).queries(QUERIES)
    ]


def _alone(embedder: Embedder, tenant_id: UUID, ids: list[UUID]) -> float:
    """Return the memories per second of the embedder alone, in the job's batches, with texts read beforehand."""
    batches = []
    for some in lots(ids, BATCH):
        with database.tenant(tenant_id) as tx:
            batches.append(embeddings.read_texts(tx, tenant_id, some, ahead=True).memories)
    embedder.embed_memories(batches[0])  # the first call opens connections
    started = time.perf_counter()
    for batch in batches:
        embedder.embed_memories(batch)
    return len(ids) / (time.perf_counter() - started)
