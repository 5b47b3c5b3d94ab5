"""Live strength in SQL: `memory_state` with the strength and importance that its rows have at a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from app.domain.dynamics.ops import Term, literal
from app.domain.dynamics.protocol import Bridging, Dynamics
from app.domain.dynamics.state import SQL_NOW, Row, sql_columns
from app.domain.dynamics.timeline import Timeline
from app.domain.strength.importance import Importance, importance_sql

MODELS_MOST: Final = 8
"""How many models of forgetting, one after another, are told apart; a row from before fades by the oldest of them."""

_COLUMNS: Final = sql_columns("s")


@dataclass(frozen=True, slots=True, eq=False)
class _Chapter:
    """A model of forgetting, from a version of the policy and a moment on; equal with the very same model alone.

    What is compiled is found again by it, and a model of somebody else may hold what has no hash.
    """

    version: int
    since: float
    dynamics: Dynamics

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Chapter) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, float, int]:
        return self.version, self.since, id(self.dynamics)


def relation(times: Timeline, now: float, moment: Term = SQL_NOW) -> str:
    """All of `memory_state` as a subquery, with two more columns: `strength` and `importance` without a context.

    Both are float8, 0 to 1, the same as `strengths.evaluate` gives to 1e-9; whatever column a query doesn't use, PostgreSQL
    doesn't work out. To be read as `FROM (…) AS state`; it has the rows of deleted memories as well.

    A row that is anchored under a former policy is taken over in the expression, as `Timeline.brought` does. There are
    two exceptions until it is rebased. Where the former model goes by ticks, strength at the change is that of the
    row's anchor, as it always is in SQL. Where a model can't be taken over to (`protocol.Bridging`), strength stays
    what it was at the change.

    Args:
        times: The tenant's policies.
        now: Seconds since 1970; decides which of the policies holds.
        moment: The same moment in SQL; a parameter of the query must be cast to `timestamptz`.
    """
    eras = times.until(now)
    chapters: list[_Chapter] = []
    for era in eras:
        if not chapters or era.dynamics != chapters[-1].dynamics:
            chapters.append(_Chapter(era.version, era.since, era.dynamics))
    return _compiled(tuple(chapters[-MODELS_MOST:]), eras[-1].policy.importance, moment)


@lru_cache(maxsize=1024)
def _compiled(chapters: Sequence[_Chapter], weights: Importance, moment: Term) -> str:
    strength, importance = _strength(chapters, moment), importance_sql(weights, _COLUMNS, moment)
    return f"(SELECT s.*, {strength} AS strength, {importance} AS importance FROM memory_state AS s)"  # noqa: S608


def _strength(chapters: Sequence[_Chapter], moment: Term) -> str:
    """Strength by the last model, of rows whose level is brought to it from model to model."""
    row, frozen = _COLUMNS, ""
    for former, latter in pairwise(chapters):
        row, frozen = _brought(row, frozen, former, latter)
    return _or(frozen, chapters[-1].dynamics.strength_sql(row, moment))


def _brought(row: Row[Term], frozen: str, former: _Chapter, latter: _Chapter) -> tuple[Row[Term], str]:
    """The row as it is under the latter model; and, where that can't be said, strength at the change, case by case."""
    since = Term(f"greatest(s.anchored_at, to_timestamp({literal(latter.since)}))")
    source, is_former = former.dynamics, f"s.policy_version < {latter.version}"
    score = source.score_sql(row, since) if isinstance(source, Bridging) else source.strength_sql(row, since)
    if not isinstance(latter.dynamics, Bridging):
        kept = _or(frozen, score)
        return _COLUMNS, f"WHEN {is_former} THEN least({kept}, {literal(1)}) "
    level = latter.dynamics.level_sql(_COLUMNS, since, Term(_or(frozen, score)))
    return replace(row, level=Term(f"CASE WHEN {is_former} THEN {level} ELSE s.level END")), ""


def _or(frozen: str, otherwise: str) -> str:
    return f"CASE {frozen}ELSE {otherwise} END" if frozen else otherwise
