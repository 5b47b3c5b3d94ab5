"""Ratings: the rate of model ratings, and the cost of a thousand of them, for new and for known texts.

The model is the tests' provider, on the same cores. Like the service, it counts four bytes as one token.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import local
from uuid import UUID, uuid4

import httpx
import msgspec

from app import queues
from app.domain.prompts import DELIMITER_BYTES, delimiter
from app.domain.salience import llm_scoring, rating_batches
from app.domain.salience.rating_batches import TURNS_AFTER, TURNS_BEFORE, ContextTurn, Conversation, UnscoredText
from app.domain.text.words import format_line
from app.services.tenants import tenants
from app.settings import settings
from app.store.enrichment import work_queue
from ops.bench.corpus import Corpus
from ops.bench.drain import until
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.place import Place, Running

# Memories by latency of the provider in milliseconds; at the highest latency, this number takes five seconds.
MEMORIES = {0: 1_000, 50: 1_000, 500: 800}
ENTRY = 100
ROUNDS_MAX = 3
STORED_SECONDS = 60
PAUSE_SECONDS = 0.005
THOUSAND = 1000
GOAL = Goal(ratio_least=0.7)  # where the model dominates the time
FLOOR = "direct requests to the provider, same batches"
COSTS = ("calls", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Rated:
    """The results of rating memories.

    Attributes:
        per_second: Memories per second, from the nudge until no memory has only the rules' score.
        costs: Costs of a thousand memories, by `COSTS`.
    """

    per_second: float
    costs: dict[str, float]


@dataclass(frozen=True)
class Tenant:
    """A tenant of one round, without ratings at the start."""

    tenant_id: UUID
    http: httpx.Client


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure memories per second by the provider's latency; calls and tokens; and the rate for known texts."""
    place.empty()
    with place.provider() as provider:
        given = {"EBBING_OPENAI_BASE_URL": f"{provider.url}/v1"}
        with place.api(**given) as api, place.workers("ingest", "embed", "score", **given):
            few = Plan(min(plan.repeats, ROUNDS_MAX), plan.quick, plan.say)
            for latency_ms, memories in MEMORIES.items():
                answer_after(provider, latency_ms)
                yield from _of_latency(place, few, api, provider, latency_ms, plan.size(memories, 80))
    place.empty()


def answer_after(provider: Running, latency_ms: float) -> None:
    """Set the minimum latency of the provider."""
    httpx.post(f"{provider.url}/control", json={"latency_ms": latency_ms}, trust_env=False).raise_for_status()


def _of_latency(
    place: Place, plan: Plan, api: Running, provider: Running, latency_ms: int, memories: int
) -> Iterator[Figure]:
    numbers = count()

    def by_stage() -> list[Rated]:
        name = f"rating {latency_ms} ms, {next(numbers)}"
        tenant, key = tenants.create(name)
        headers = {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=api.url, headers=headers, timeout=60, trust_env=False) as client:
            of_round = Tenant(tenant.tenant_id, client)
            new = _rate(place, of_round, memories)
            return [new, _rate(place, of_round, memories, first_thread=memories)] if latency_ms == 0 else [new]

    if latency_ms == 0:
        by_stage()  # the worker loads its client for the first call
    stage, floors = plan.rounds(by_stage, partial(_by_bare_client, provider, memories))
    work_name = f"rating, provider's latency {latency_ms} ms"
    yield Figure(
        work_name,
        "memories/s",
        [new.per_second for new, *_ in stage],
        FLOOR,
        [floor.per_second for [floor] in floors],
        GOAL if latency_ms else NO_GOAL,
        note="the tests' provider runs on the same cores, and both figures include its work" if not latency_ms else "",
    )
    if latency_ms == 0:
        yield from _costs([new for new, _ in stage], "new texts", NO_GOAL)
        known = [again for _, again in stage]
        yield Figure("rating, known texts", "memories/s", [again.per_second for again in known])
        yield from _costs(known, "known texts", Goal(most=0))


def _costs(rounds: Sequence[Rated], what: str, goal: Goal) -> Iterator[Figure]:
    for cost in COSTS:
        name = cost.replace("_", " ")
        yield Figure(f"rating 1,000 {what}: {name}", name, [rated.costs[cost] for rated in rounds], goal=goal)


def _rate(place: Place, tenant: Tenant, memories: int, first_thread: int = 0) -> Rated:
    """Send memories, wait until the rules have scored them, and have the model rate them."""
    before = _spent(tenant)
    place.hold_back(queues.RATE_MEMORIES)
    given = Corpus().memories(memories, first_thread)
    for start in range(0, memories, ENTRY):
        tenant.http.post("/v1/memories", json=given[start : start + ENTRY]).raise_for_status()
    place.settled(STORED_SECONDS, work_queue.STAGES)
    started = time.perf_counter()
    queues.enqueue(queues.RATE_MEMORIES)
    until(lambda: not _unrated(place, tenant), PAUSE_SECONDS)
    took = time.perf_counter() - started
    done = before["done"] + memories
    until(lambda: _spent(tenant)["done"] >= done, PAUSE_SECONDS)  # the usage is recorded after the scores
    after = _spent(tenant)
    return Rated(memories / took, {cost: (after[cost] - before[cost]) / memories * THOUSAND for cost in COSTS})


def _unrated(place: Place, tenant: Tenant) -> int:
    query = "SELECT count(*) FROM scores WHERE tenant_id = %s AND scorer = 'heuristic'"
    [[unrated]] = place.owner.execute(query, (tenant.tenant_id,)).fetchall()
    return int(unrated)


def _spent(tenant: Tenant) -> dict[str, int]:
    """Return the tenant's costs for ratings so far, and the number of memories rated, as `done`."""
    rows = tenant.http.get("/v1/usage").raise_for_status().json()["usage"]
    ratings = [row for row in rows if row["purpose"] == "score"]
    spent = {cost: sum(row[cost] for row in ratings) for cost in COSTS}
    return spent | {"done": sum(row["memories"] + row["cache_hits"] for row in ratings)}


def _by_bare_client(provider: Running, memories: int) -> list[Rated]:
    """Send the same requests as fast as the responses come, with the same concurrency."""
    bodies = requests(memories)
    connections = local()
    headers = {"content-type": "application/json"}

    def ask(body: bytes) -> None:
        if not hasattr(connections, "http"):
            connections.http = http.client.HTTPConnection(provider.host, provider.port)
        connections.http.request("POST", "/v1/chat/completions", body, headers)
        answer = connections.http.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the provider answered {answer.status}")

    with ThreadPoolExecutor(settings().llm_concurrency) as threads:
        started = time.perf_counter()
        list(threads.map(ask, bodies))
        return [Rated(memories / (time.perf_counter() - started), {})]


def show_conversations(memories: int) -> list[UnscoredText]:
    """Return the corpus's memories with the turns around them, as the stage shows them."""
    given = Corpus().memories(memories)
    lines = [format_line(memory["text"], memory["speaker"]) for memory in given]
    turns = [ContextTurn(uuid4(), place, rating_batches.excerpt(line)) for place, line in enumerate(lines)]
    return [
        UnscoredText(
            turn.memory_id,
            line,
            Conversation(memory["thread"], None),
            turn.seq,
            tuple(
                other
                for other in turns[max(turn.seq - TURNS_BEFORE, 0) : turn.seq + 1 + TURNS_AFTER]
                if other is not turn and given[other.seq]["thread"] == memory["thread"]
            ),
        )
        for turn, line, memory in zip(turns, lines, given, strict=True)
    ]


def requests(memories: int) -> list[bytes]:
    """Return the bodies that the stage would send about these memories in order of arrival."""
    config = settings()
    bodies = []
    for batch in rating_batches.split_batches(
        show_conversations(memories), config.score_batch_tokens, config.score_batch_memories
    ):
        answer = {"name": "answer", "strict": True, "schema": llm_scoring.CUES_SCHEMA}
        request = {
            "model": config.salience_model,
            "messages": llm_scoring.build_messages(batch, delimiter(os.urandom(DELIMITER_BYTES)), cues=True),
            "response_format": {"type": "json_schema", "json_schema": answer},
            "max_completion_tokens": llm_scoring.answer_tokens_max(len(batch)),
        }
        bodies.append(msgspec.json.encode(request))
    return bodies
