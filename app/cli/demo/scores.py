"""Salience of the demo's memories as a client sees it: sources, highest ratings and model costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer

from app.cli.core.client import Api
from app.cli.core.output import progress, until_none
from app.domain.formatting import count_memories, format_span

PATIENCE_SECONDS: Final = 30.0
BEST: Final = 3


@dataclass(frozen=True)
class JudgedMemory:
    """Memory text with its salience (0 to 1), the source of the salience, and its four criteria (0 to 10)."""

    text: str
    salience: float
    source: str
    criteria: dict[str, float]


@dataclass(frozen=True)
class Cost:
    """Model calls and their cost; `cost` is None if no price is configured."""

    model: str = ""
    host: str = ""
    calls: int = 0
    tokens: int = 0
    cache_hits: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class Salience:
    """Salience of all memories and the cost of rating them.

    Attributes:
        sources: Number of memories by source of their salience: `heuristic`, `llm` or `caller`.
        best: Highest ratings that were not set by the caller.
        cost: None if no model provider is configured.
        again: Additional cost of sending identical texts a second time.
    """

    sources: dict[str, int]
    best: tuple[JudgedMemory, ...]
    cost: Cost | None = None
    again: Cost | None = None


def wait_judged(api: Api, *, quiet: bool) -> None:
    """Wait until all memories are scored, and rated if a model is configured; print a warning if progress stalls."""

    def left() -> int:
        pending = api.stats()["pending"]
        return int(pending["score"] + pending.get("rate", 0))

    with progress("rating", None, quiet=quiet) as step:
        still = until_none(left, step, PATIENCE_SECONDS)
    if still:
        typer.echo(
            f"still unrated: {count_memories(still)}, with no progress for "
            f"{format_span(PATIENCE_SECONDS)}: their rule-based scores apply until a model responds; check it with "
            "`ebbing doctor`",
            err=True,
        )


def summarise_salience(memories: Sequence[dict[str, Any]], cost: Cost | None, again: Cost | None = None) -> Salience:
    """Summarise the salience of memories returned by the API."""
    known = [memory for memory in memories if memory["salience"]["value"] is not None]
    ours = {memory["text"]: memory for memory in known if memory["salience"]["source"] != "caller"}
    best = sorted(ours.values(), key=lambda memory: -memory["salience"]["value"])[:BEST]
    return Salience(
        sources=dict(Counter(memory["salience"]["source"] for memory in known).most_common()),
        best=tuple(
            JudgedMemory(
                memory["text"],
                round(memory["salience"]["value"], 3),
                memory["salience"]["source"],
                {name: round(value, 1) for name, value in (memory["salience"]["criteria"] or {}).items()},
            )
            for memory in best
        ),
        cost=cost,
        again=again,
    )


def read_cost(api: Api) -> Cost:
    """Return the tenant's cost of rating so far."""
    rows = [row for row in api.call("GET", "/v1/usage").body["usage"] if row["purpose"] == "score"]
    if not rows:
        return Cost()
    costs = [row["cost"] for row in rows]
    return Cost(
        model=rows[-1]["model"],
        host=rows[-1]["host"],
        calls=sum(row["calls"] for row in rows),
        tokens=sum(row["input_tokens"] + row["output_tokens"] for row in rows),
        cache_hits=sum(row["cache_hits"] for row in rows),
        cost=None if None in costs else sum(costs),
    )


def subtract_cost(later: Cost, earlier: Cost) -> Cost:
    """Return the difference of two costs."""
    return Cost(
        later.model,
        later.host,
        later.calls - earlier.calls,
        later.tokens - earlier.tokens,
        later.cache_hits - earlier.cache_hits,
        None if later.cost is None or earlier.cost is None else later.cost - earlier.cost,
    )
