"""What memories were found to be worth, as a client sees it: by whom, the best of them, and what that cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer

from app.cli.core.client import Api
from app.cli.core.output import progress, until_none

PATIENCE_SECONDS: Final = 30.0
BEST: Final = 3


@dataclass(frozen=True)
class Judged:
    """A memory, its salience from 0 to 1, who gave it, and the four criteria from 0 to 10."""

    text: str
    salience: float
    source: str
    criteria: dict[str, float]


@dataclass(frozen=True)
class Cost:
    """What a model was asked, and what it took; `cost` is None where no price is set."""

    model: str = ""
    host: str = ""
    calls: int = 0
    tokens: int = 0
    cache_hits: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class Salience:
    """Who judged how many memories, the best of them, and what a model cost for it.

    Attributes:
        sources: Memories by who judged them: `heuristic`, `llm` or `caller`.
        best: The most salient ones that the caller left to judge.
        cost: None where no provider of models is set.
        again: What the same words, sent once more, cost besides.
    """

    sources: dict[str, int]
    best: tuple[Judged, ...]
    cost: Cost | None = None
    again: Cost | None = None


def wait_judged(api: Api, *, quiet: bool) -> None:
    """Wait until everything is scored, and rated where there is a model; when nothing moves for too long, say so."""

    def left() -> int:
        pending = api.stats()["pending"]
        return int(pending["score"] + pending.get("rate", 0))

    with progress("until judged", None, quiet=quiet) as step:
        still = until_none(left, step, PATIENCE_SECONDS)
    if still:
        typer.echo(
            f"{still:,} memories still wait to be judged, and nothing has moved for {PATIENCE_SECONDS:g} s: they go by "
            "the rules until a model has answered; `ebbing doctor` says whether it does",
            err=True,
        )


def look(memories: Sequence[dict[str, Any]], cost: Cost | None, again: Cost | None = None) -> Salience:
    """What is known of these memories, as the API gave them."""
    known = [memory for memory in memories if memory["salience"]["value"] is not None]
    ours = {memory["text"]: memory for memory in known if memory["salience"]["source"] != "caller"}
    best = sorted(ours.values(), key=lambda memory: -memory["salience"]["value"])[:BEST]
    return Salience(
        sources=dict(Counter(memory["salience"]["source"] for memory in known).most_common()),
        best=tuple(
            Judged(
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


def spent(api: Api) -> Cost:
    """What models that rate have cost the tenant so far."""
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


def less(later: Cost, earlier: Cost) -> Cost:
    """What came on top."""
    return Cost(
        later.model,
        later.host,
        later.calls - earlier.calls,
        later.tokens - earlier.tokens,
        later.cache_hits - earlier.cache_hits,
        None if later.cost is None or earlier.cost is None else later.cost - earlier.cost,
    )
