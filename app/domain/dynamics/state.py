"""The state from which memory strength is calculated, and the events that change the state, in batches of rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Generic, Literal

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import NUMPY, Floats, Ops, Term, V

DAY_SECONDS: Final = 86_400.0
WEEK_SECONDS: Final = 7 * DAY_SECONDS
DUE_MARGIN_SECONDS: Final = 0.001
"""Added to each crossing: exactly at the crossing, rounding would leave half of the rows above their threshold."""
FAR_SECONDS: Final = 253_000_000_000.0
"""The year 9987, near the end of Python's calendar; anything later is treated as never."""
STRENGTH_MIN: Final = 1e-80
"""Minimum strength for storing its logarithm."""


@dataclass(frozen=True, slots=True)
class Row(Generic[V]):
    """Columns from which strength is calculated; the package's docstring describes them.

    In a `State` they are arrays of one shape; in a `Row[Term]`, SQL expressions of the columns.
    """

    kind: V
    salience: V
    multiplier: V
    pace: V
    access_count: V
    created_at: V
    accessed_at: V
    anchored_at: V
    level: V
    retrieval: V
    stability: V


State = Row[Floats]


@dataclass(frozen=True, slots=True)
class Event:
    """An event that strengthens each memory of a batch once.

    Several uses of one memory are several events, in chronological order.

    Attributes:
        at: Moment of the use, in seconds since 1970, one for all or one per row; future moments count as `now`.
        now: The moment of the calculation, by the database's clock.
        source: `direct`, a use; `associate`, use of a linked memory (memory_decay only); `test`, a passed self-test,
            which raises strength and isn't counted as a use.
        boost: Whether the use also raises the multiplier (mnemex): on request, or as a use in another domain.
        place: Rank in the results, from 0 (memory_decay, rank-scaled).
        margin: Similarity minus the similarity of the next result, -1 to 1 (memory_decay, margin).
        lexical: Whether the memory also matched the query's words (memory_decay, margin).
    """

    at: Floats | float
    now: float
    source: Literal["direct", "associate", "test"] = "direct"
    boost: npt.NDArray[np.bool_] | bool = False
    place: Floats | float = 0.0
    margin: Floats | float = 0.0
    lexical: npt.NDArray[np.bool_] | bool = False


def new(
    created_at: Floats,
    *,
    salience: Floats | float = 0.0,
    kind: npt.NDArray[np.integer] | int = 0,
    multiplier: Floats | float = 1.0,
    pace: Floats | float = 1.0,
) -> State:
    """Return the state of newly accepted memories: full strength, never used.

    Args:
        created_at: Moments of acceptance, in seconds since 1970, shape (n,).
        salience: 0 to 1.
        kind: Indices in `ingest.memory.KINDS`.
        multiplier: 0 to 2.
        pace: Factor on the age, above 0.
    """

    def column(value: npt.ArrayLike) -> Floats:
        return np.broadcast_to(np.asarray(value, np.float64), created_at.shape)

    return Row(
        kind=column(kind),
        salience=column(salience),
        multiplier=column(multiplier),
        pace=column(pace),
        access_count=column(0),
        created_at=created_at,
        accessed_at=created_at,
        anchored_at=created_at,
        level=column(0),
        retrieval=column(1),
        stability=column(0),
    )


def sql_columns(table: str = "") -> Row[Term]:
    """Return the columns of `memory_state` as SQL terms: timestamps unchanged, numbers as float8, NULL salience as 0.

    Args:
        table: Alias to qualify each name with; empty for none.
    """
    prefix = f"{table}." if table else ""

    def column(name: str) -> Term:
        if name == "salience":
            return Term(f"coalesce({prefix}salience, 0)::float8")
        # `kind` is compared as an integer; `level` is a double already.
        needs_no_cast = name in {"kind", "level"} or name.endswith("_at")
        return Term(f"{prefix}{name}" if needs_no_cast else f"{prefix}{name}::float8")

    return Row(**{field.name: column(field.name) for field in fields(Row)})


SQL_NOW: Final = Term("now()")


def age_seconds(ops: Ops[V], row: Row[V], now: V) -> V:
    """Return the seconds since the last use, at least 0; moments before a row's anchor count as the anchor."""
    return ops.maximum(ops.seconds(row.accessed_at, ops.maximum(row.anchored_at, now)), 0.0)


def when(state: State, now: Floats | float) -> Floats:
    """Return the later of `now` and the anchor, for each row."""
    return np.maximum(state.anchored_at, now)


def age_at(state: State, now: Floats | float) -> Floats:
    """Return `age_seconds`, evaluated with NumPy."""
    return age_seconds(NUMPY, state, when(state, now))


def take(state: State, rows: npt.NDArray[np.intp]) -> State:
    """Return only these rows."""
    return Row(**{field.name: getattr(state, field.name)[rows] for field in fields(Row)})


def choose(condition: npt.NDArray[np.bool_], state: State, other: State) -> State:
    """Return the rows of `state` where the condition holds, and the rows of `other` elsewhere."""
    pairs = {field.name: (getattr(state, field.name), getattr(other, field.name)) for field in fields(Row)}
    return Row(**{name: np.where(condition, *pair) for name, pair in pairs.items()})


def used_at(state: State, event: Event) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the effective moment of each use, and the late uses: they precede a known use and only raise the count."""
    at = np.minimum(event.at, event.now)
    return when(state, at), at < state.accessed_at


def due(state: State, crossing: Floats) -> Floats:
    """Return crossings adjusted for a sweep: with the margin, not before the anchor, `inf` beyond the calendar."""
    moment = np.maximum(crossing + DUE_MARGIN_SECONDS, state.anchored_at)
    return np.where(moment < FAR_SECONDS, moment, np.inf)
