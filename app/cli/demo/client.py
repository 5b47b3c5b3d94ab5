"""Tour of `ebbing demo`: use the service over HTTP like any client and record the results."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from statistics import quantiles
from typing import Any, Final

from app import sample
from app.cli.core.client import Api, pages
from app.cli.core.connection import ApiConnection
from app.cli.core.output import progress
from app.cli.demo import scores
from app.cli.demo.scores import Salience
from app.cli.memories.ingest import wait_searchable

REQUEST_MEMORIES: Final = 10
RESULTS: Final = 5
PATIENCE_SECONDS: Final = 20.0
PAGE: Final = 100

EDITED: Final = "m004"
EDIT: Final = "Orla has given up tea: she drinks rooibos with honey now, in the yellow enamel mug."
EDIT_QUERY: Final = "Who drinks rooibos with honey?"


@dataclass(frozen=True)
class Hit:
    """Search result, identified by the key of its memory in the sample."""

    key: str
    text: str
    score: float
    expected: bool


@dataclass(frozen=True)
class AskedQuestion:
    """Question with its results and the keys of the expected answers."""

    query: str
    expected: tuple[str, ...]
    note: str
    milliseconds: float
    hits: tuple[Hit, ...]
    found: bool


@dataclass(frozen=True)
class TourReport:
    """Results of the tour. Times are measured from the first request."""

    memories: int
    requests: int
    accepted_p50_ms: float
    accepted_p95_ms: float
    sent_seconds: float
    stored_seconds: float
    searchable_seconds: float
    kinds: dict[str, int]
    tiers: dict[str, int]
    questions: tuple[AskedQuestion, ...]
    search_p50_ms: float
    salience: Salience
    edit_is_found: bool
    delete_is_gone: bool
    repeat_gives_same_ids: bool

    @property
    def found_count(self) -> int:
        """Number of questions with an expected answer among the results."""
        return sum(asked.found for asked in self.questions)

    @property
    def wrong(self) -> list[str]:
        """Descriptions of failed checks."""
        kept = sum(self.kinds.values())
        checks = {
            f"{kept} of {self.memories} memories were stored": kept == self.memories,
            f"only {self.found_count} of {len(self.questions)} questions were answered": self.found_count * 2
            >= len(self.questions),
            "an edited memory wasn't found by its new text": self.edit_is_found,
            "a deleted memory was still found": self.delete_is_gone,
            "a repeated request returned different ids": self.repeat_gives_same_ids,
        }
        return [sentence for sentence, well in checks.items() if not well]


def run_tour(place: ApiConnection, *, rated: bool, quiet: bool) -> TourReport:
    """Create a tenant, send the sample, ask the questions, read the ratings, then edit, delete and repeat a request.

    Args:
        place: API address with a key that may create tenants.
        rated: True if a model rates memories.
        quiet: Hide progress bars.

    Raises:
        CommandFailure: A call failed, or memories didn't become searchable.
    """
    with Api(place) as admin:
        made = admin.call("POST", "/v1/admin/tenants", json={"name": f"demo-{token_hex(4)}"}).body
    with Api(ApiConnection(place.url, made["api_key"]), patience_seconds=PATIENCE_SECONDS) as api:
        return _run_steps(api, rated=rated, quiet=quiet)


def _run_steps(api: Api, *, rated: bool, quiet: bool) -> TourReport:
    memories = sample.load_memories()
    keys: dict[str, str] = {}
    waits: list[float] = []
    first: tuple[bytes, str, list[str]] | None = None
    began = time.monotonic()
    with progress("sending", len(memories), quiet=quiet) as step:
        for start in range(0, len(memories), REQUEST_MEMORIES):
            part = memories[start : start + REQUEST_MEMORIES]
            body, repeat_key = _ndjson(part), f"demo-{token_hex(8)}"
            answer, milliseconds = _timed(partial(api.add, body, repeat_key))
            ids = answer.body["ids"]
            waits.append(milliseconds)
            keys |= dict(zip(ids, map(_key, part), strict=True))
            first = first or (body, repeat_key, ids)
            step(len(part))
    sent = time.monotonic() - began
    while api.stats()["pending"]["ingest"]:
        time.sleep(0.01)
    stored = time.monotonic() - began
    with progress("indexing", len(memories), quiet=quiet) as step:
        wait_searchable(api, step, PATIENCE_SECONDS)
    searchable = time.monotonic() - began
    kept = list(pages(api, "/v1/memories", "memories", {"limit": PAGE}))
    questions = sample.load_questions()
    asked = []
    with progress("asking", len(questions), quiet=quiet) as step:
        for question in questions:
            asked.append(_ask(api, question, keys))
            step(1)
    return TourReport(
        memories=len(memories),
        requests=len(waits),
        accepted_p50_ms=_quantile(waits, 50),
        accepted_p95_ms=_quantile(waits, 95),
        sent_seconds=round(sent, 3),
        stored_seconds=round(stored, 3),
        searchable_seconds=round(searchable, 3),
        kinds=dict(Counter(memory["kind"] or "none given" for memory in kept).most_common()),
        tiers=dict(Counter(memory["tier"] for memory in kept)),
        questions=tuple(asked),
        search_p50_ms=_quantile([one.milliseconds for one in asked], 50),
        salience=_salience(api, memories, rated=rated, quiet=quiet),
        **_changes(api, {key: memory_id for memory_id, key in keys.items()}[EDITED]),
        repeat_gives_same_ids=first is not None and api.add(first[0], first[1]).body["ids"] == first[2],
    )


def _salience(api: Api, memories: Sequence[dict[str, object]], *, rated: bool, quiet: bool) -> Salience:
    """Wait until all memories are rated; with a model, send some texts again to measure the cost of duplicates."""
    scores.wait_judged(api, quiet=quiet)
    kept = list(pages(api, "/v1/memories", "memories", {"limit": PAGE}))
    if not rated:
        return scores.summarise_salience(kept, None)
    cost = scores.read_cost(api)
    repeated: list[dict[str, object]] = [
        {name: memory[name] for name in ("text", "speaker") if name in memory}
        for memory in memories
        if "salience" not in memory and "thread" not in memory  # a turn's rating depends on the turns around it
    ]
    api.add(_ndjson(repeated[:REQUEST_MEMORIES]), f"demo-{token_hex(8)}")
    with progress("again", REQUEST_MEMORIES, quiet=quiet) as step:
        wait_searchable(api, step, PATIENCE_SECONDS)
    scores.wait_judged(api, quiet=quiet)
    return scores.summarise_salience(kept, cost, scores.subtract_cost(scores.read_cost(api), cost))


def _changes(api: Api, memory_id: str) -> dict[str, bool]:
    """Edit a memory, search, delete it and search again, without pauses."""
    path = f"/v1/memories/{memory_id}"
    api.call("PATCH", path, json={"text": EDIT}, safe=True)
    best = api.search(EDIT_QUERY, limit=RESULTS)["results"][:1]
    edited = [(result["id"], result["text"]) for result in best] == [(memory_id, EDIT)]
    api.call("DELETE", path)
    after = api.search(EDIT_QUERY, limit=RESULTS)["results"]
    return {"edit_is_found": edited, "delete_is_gone": memory_id not in {result["id"] for result in after}}


def _ask(api: Api, question: sample.SampleQuestion, keys: dict[str, str]) -> AskedQuestion:
    answer, milliseconds = _timed(partial(api.search, question.query, limit=RESULTS))
    hits = tuple(
        Hit(key, result["text"], round(result["score"], 4), key in question.expected)
        for result in answer["results"]
        for key in [keys.get(result["id"], "")]
    )
    found = any(hit.expected for hit in hits)
    return AskedQuestion(question.query, question.expected, question.note, milliseconds, hits, found)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = call()
    return found, round((time.perf_counter() - began) * 1000, 2)


def _quantile(values: list[float], percent: int) -> float:
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 2)


def _ndjson(part: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(memory, ensure_ascii=False).encode() + b"\n" for memory in part)


def _key(memory: dict[str, Any]) -> str:
    return str(memory["metadata"]["key"])
