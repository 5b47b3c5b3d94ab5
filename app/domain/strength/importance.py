"""Compute the importance of memories, 0 to 1, with and without a context (seed 004 §1)."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import NUMPY, Floats, Ops, Sql, Term, V
from app.domain.dynamics.parameter_types import STRICT, Share
from app.domain.dynamics.state import DAY_SECONDS, Row, State, age_at, age_seconds, due

_RECENCY_EXPONENT_MIN = -60.0  # e^-60 is negligible beside any other part, and its powers don't underflow


@dataclass(frozen=True, config=STRICT)
class ImportanceWeights:
    """Weight of each factor, 0 to 1; the weights are divided by their sum (seed 004 §1.5)."""

    recency: Share = 0.25
    """w1, for time since the last use."""
    frequency: Share = 0.20
    """w2, for the number of uses."""
    salience: Share = 0.35
    """w3, for the content."""
    relevance: Share = 0.20
    """w4, for closeness to the context."""

    @model_validator(mode="after")
    def _none_alone(self) -> ImportanceWeights:
        if self.recency + self.frequency + self.salience < 0.01:
            raise ValueError(
                "recency, frequency and salience must sum to at least 0.01, because only they count without a context"
            )
        return self


PRESETS: Final = {
    "default": ImportanceWeights(),
    "time_sensitive": ImportanceWeights(0.40, 0.20, 0.25, 0.15),
    "content_heavy": ImportanceWeights(0.15, 0.15, 0.50, 0.20),
    "context_aware": ImportanceWeights(0.20, 0.15, 0.25, 0.40),
}
"""Weights by use case (seed 004 §1.5, adaptive weighting)."""


@dataclass(frozen=True, config=STRICT)
class Importance:
    """Parameters of importance (seed 004 §1, including the defaults)."""

    weights: ImportanceWeights = ImportanceWeights()
    """Weight of each factor."""
    recency_lambda_per_day: Annotated[float, Field(ge=0.001, le=10, allow_inf_nan=False)] = 0.05
    """λ of recency, e^(-λτ), where τ is days since creation or the last use, whichever is later (§1.1)."""
    max_expected_accesses: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Number of uses at which frequency reaches 1 (§1.2)."""
    background_relevance: Literal["renormalise", "neutral"] = "renormalise"
    """Without a context, drop the weight of relevance and renormalise the others, or count relevance as 0.5."""


class Shares(NamedTuple):
    """Normalised weights; `neutral` is a constant that every memory receives."""

    recency: float
    frequency: float
    salience: float
    relevance: float
    neutral: float


def normalised_weights(parameters: Importance, *, context: bool) -> Shares:
    """Return the normalised weights, with or without a context."""
    weights = parameters.weights
    total = weights.recency + weights.frequency + weights.salience
    neutral = 0.0
    if context or parameters.background_relevance == "neutral":
        total += weights.relevance
        neutral = 0.0 if context else 0.5 * weights.relevance / total
    return Shares(
        weights.recency / total,
        weights.frequency / total,
        weights.salience / total,
        weights.relevance / total if context else 0.0,
        neutral,
    )


def lasting_importance(ops: Ops[V], parameters: Importance, row: Row[V]) -> V:
    """Return importance without a context and without recency, 0 to 1: its limit after a long time."""
    share = normalised_weights(parameters, context=False)
    often = frequency(ops, parameters, row.access_count)
    return often * share.frequency + row.salience * share.salience + share.neutral


def recency(ops: Ops[V], parameters: Importance, age_days: V) -> V:
    """Return e^(-λτ), 0 to 1 (seed 004 §1.1)."""
    return ops.exp(age_days * -parameters.recency_lambda_per_day, _RECENCY_EXPONENT_MIN)


def frequency(ops: Ops[V], parameters: Importance, access_count: V) -> V:
    """Return log(1 + n) / log(1 + maximum expected), at most 1 (seed 004 §1.2)."""
    return ops.minimum(ops.log(access_count + 1.0) * (1 / math.log1p(parameters.max_expected_accesses)), 1.0)


def importance(
    parameters: Importance, state: State, now: Floats | float, relevance: npt.NDArray[np.floating[Any]] | None = None
) -> Floats:
    """Return the importance of each memory at `now`, 0 to 1 (seed 004 §1.5).

    Args:
        parameters: Weights and constants.
        now: Seconds since 1970.
        relevance: Closeness to the context, 0 to 1, from `relevance`; None without a context.
    """
    share = normalised_weights(parameters, context=relevance is not None)
    total = recency(NUMPY, parameters, age_at(state, now) / DAY_SECONDS) * share.recency
    total += frequency(NUMPY, parameters, state.access_count) * share.frequency
    total += state.salience * share.salience + share.neutral
    return total if relevance is None else total + relevance * share.relevance


def in_context(parameters: Importance, background: Floats, relevance: npt.NDArray[np.floating[Any]]) -> Floats:
    """Return importance with a context, 0 to 1, from importance without one (seed 004 §1.4, §1.5).

    Equals `importance` with this relevance: the other three factors are the same with and without a context.

    Args:
        parameters: Weights and constants, which were also those of `background`.
        background: Importance without a context, shape (n,).
        relevance: Closeness to the context, 0 to 1, shape (n,).
    """
    weights = parameters.weights
    without = weights.recency + weights.frequency + weights.salience
    total = without + weights.relevance
    neutral = parameters.background_relevance == "neutral"
    others = background * total - 0.5 * weights.relevance if neutral else background * without
    return np.asarray((others + weights.relevance * relevance) / total, np.float64)


def importance_sql(parameters: Importance, row: Row[Term], now: Term) -> str:
    """Return importance without a context as an SQL expression; it agrees with `importance` to 1e-9."""
    ops = Sql()
    recent = recency(ops, parameters, age_seconds(ops, row, now) / DAY_SECONDS)
    return ops.text(
        recent * normalised_weights(parameters, context=False).recency + lasting_importance(ops, parameters, row)
    )


def relevance(
    embeddings: npt.NDArray[np.floating[Any]], context: npt.NDArray[np.floating[Any]]
) -> npt.NDArray[np.floating[Any]]:
    """Return the closeness of each memory to a context: (1 + cosine) / 2, 0 to 1 (seed 004 §1.4).

    Args:
        embeddings: One vector per row, shape (n, d), of any norm.
        context: One vector, shape (d,). Zero vectors have a closeness of 0.5.
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", embeddings, embeddings)) * math.sqrt(float(context @ context))
    return closeness((embeddings @ context) / np.where(lengths > 0, lengths, 1))


def closeness(cosines: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Return cosines to a context, -1 to 1, as closeness, 0 to 1; NaN, for a memory without a vector, becomes 0.5."""
    return np.asarray(0.5 + 0.5 * np.clip(np.nan_to_num(cosines), -1, 1))


def due_at(parameters: Importance, state: State, thresholds: Floats | float) -> Floats:
    """Return the first time at which each memory's importance without a context falls below its threshold.

    Times are in seconds since 1970, at most 1 ms late and never before the row's anchor; `inf` if the importance never
    falls below the threshold.
    """
    share = normalised_weights(parameters, context=False).recency
    missing = thresholds - lasting_importance(NUMPY, parameters, state)
    falls = (missing > 0) & (share > 0)
    recent = np.where(falls, missing, 1.0) / (share or 1.0)
    age_days = -np.log(np.minimum(recent, 1.0)) / parameters.recency_lambda_per_day
    crossing = due(state, state.accessed_at + age_days * DAY_SECONDS)
    return np.where(falls, crossing, np.where(missing > 0, state.anchored_at, np.inf))
