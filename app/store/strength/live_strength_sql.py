"""Compute strength and importance in SQL, as two extra columns of `memory_state` at a given time."""

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
"""Maximum number of successive forgetting models in the SQL; rows of earlier models use the oldest of these."""

_COLUMNS: Final = sql_columns("s")


@dataclass(frozen=True, slots=True, eq=False)
class _ModelPeriod:
    """A forgetting model with the policy version and time at which it started; equality compares the model by identity.

    Instances are keys of the compilation cache, and a third-party model may contain unhashable values.
    """

    version: int
    since: float
    dynamics: Dynamics

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ModelPeriod) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, float, int]:
        return self.version, self.since, id(self.dynamics)


def strength_relation(times: Timeline, now: float, moment: Term = SQL_NOW) -> str:
    """Return a subquery over `memory_state` with the extra columns `strength` and `importance` (without a context).

    Both are float8 from 0 to 1 and match `memory_strength.evaluate_strength` to 1e-9. PostgreSQL doesn't compute a
    column that the query doesn't use. Use it as `FROM (…) AS state`; it includes the rows of deleted memories.

    Rows anchored under an earlier policy are converted within the expression, as in `Timeline.advance_to`, with two
    exceptions until they are rebased. If the former model counts ticks, strength at the policy change is that at the
    row's anchor, as in all SQL of such models. If a model doesn't support conversion (`protocol.Bridging`), strength
    remains at its value at the change.

    Args:
        times: The tenant's policies.
        now: Seconds since 1970; selects the policy in force.
        moment: The same time in SQL; a query parameter must be cast to `timestamptz`.
    """
    eras = times.until(now)
    periods: list[_ModelPeriod] = []
    for era in eras:
        if not periods or era.dynamics != periods[-1].dynamics:
            periods.append(_ModelPeriod(era.version, era.since, era.dynamics))
    return _compiled(tuple(periods[-MODELS_MOST:]), eras[-1].policy.importance, moment)


@lru_cache(maxsize=1024)
def _compiled(chapters: Sequence[_ModelPeriod], weights: Importance, moment: Term) -> str:
    strength, importance = _strength(chapters, moment), importance_sql(weights, _COLUMNS, moment)
    return f"(SELECT s.*, {strength} AS strength, {importance} AS importance FROM memory_state AS s)"  # noqa: S608


def _strength(chapters: Sequence[_ModelPeriod], moment: Term) -> str:
    """Return SQL for strength under the last model, converting each row's level from model to model."""
    row, frozen = _COLUMNS, ""
    for former, latter in pairwise(chapters):
        row, frozen = _convert_row(row, frozen, former, latter)
    return _or(frozen, chapters[-1].dynamics.strength_sql(row, moment))


def _convert_row(row: Row[Term], frozen: str, former: _ModelPeriod, latter: _ModelPeriod) -> tuple[Row[Term], str]:
    """Convert the row to the latter model.

    If that is impossible, return the row unchanged with CASE branches that yield strength at the change.
    """
    since = Term(f"greatest(s.anchored_at, to_timestamp({literal(latter.since)}))")
    source, is_former = former.dynamics, f"s.policy_version < {latter.version}"
    score = source.score_sql(row, since) if isinstance(source, Bridging) else source.strength_sql(row, since)
    if not isinstance(latter.dynamics, Bridging):
        strength_at_change = _or(frozen, score)
        return _COLUMNS, f"WHEN {is_former} THEN least({strength_at_change}, {literal(1)}) "
    level = latter.dynamics.level_sql(_COLUMNS, since, Term(_or(frozen, score)))
    return replace(row, level=Term(f"CASE WHEN {is_former} THEN {level} ELSE s.level END")), ""


def _or(frozen: str, otherwise: str) -> str:
    return f"CASE {frozen}ELSE {otherwise} END" if frozen else otherwise
