"""Order results by corrections: the memory that is valid now ranks above the earlier one that it corrects."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from msgspec import structs

from app.domain.search.request import SearchRequest, SearchResult

T = TypeVar("T")

MODES: Final = frozenset({"hybrid", "lexical", "dense"})
"""Modes in which corrections move results; the other modes rank exactly by the forgetting model of the same name."""

_NOW: Final = re.compile(
    r"\b(?:now|nowadays|currently|current|these days|latest|still|finally|in the end|actually|newest|most recent"
    r"|at present|by now|any ?more|any longer|eventually)\b",
    re.IGNORECASE,
)
_PERIOD: Final = (
    r"(?:year|month|week|spring|summer|autumn|winter|january|february|march|april|may|june|july|august|september"
    r"|october|november|december|\d{4})"
)
_PAST: Final = re.compile(
    "|".join(
        (
            r"\bused to\b",
            r"\b(?:originally|original|initially|initial|at first|previously|previous|formerly|former|earlier)\b",
            r"\bfirst (?:\w+ )?(?:plan|idea|date|choice|thought|want)",
            r"\b(?:back then|at the time|in the past|once (?:had|was|were)|history of)\b",
            r"\bbefore (?:that|it|i|we|he|she|they|the (?:change|move|switch)|now|then)\b",
            r"\b(?:was|were|did|had)\b.{0,60}\bbefore\s*\??\s*$",
            r"\bold (?:\w+ )?(?:one|address|number|date|job|plan|flat|house|phone|price|time|version)\b",
            r"\bhow (?:has|have|did)\b.{1,60}\bchanged?\b",
            rf"\b(?:was|were|did|had)\b.{{0,80}}\b(?:last|back in|in) {_PERIOD}\b",
        )
    ),
    re.IGNORECASE,
)


class SubjectAndTime(Protocol):
    """A memory's subject and times; both results and candidates provide them."""

    @property
    def subject(self) -> str | None:
        """Subject of the memory."""

    @property
    def occurred_at(self) -> datetime | None:
        """Time when it happened, if known."""

    @property
    def created_at(self) -> datetime:
        """Time when it was accepted."""


class CorrectionPair(NamedTuple):
    """A memory and the earlier memory that it corrects."""

    newer: UUID
    older: UUID


def asks_for_present(request: SearchRequest) -> bool:
    """Return false if the search has `as_of`, or if its query asks about the past and not about the present.

    Queries are recognised in English. A past tense alone isn't enough: "what did we agree on" asks for the current
    agreement.
    """
    if request.as_of is not None:
        return False
    return _NOW.search(request.query) is not None or _PAST.search(request.query) is None


def place_corrections(
    results: Sequence[SearchResult], pairs: Sequence[CorrectionPair], shown: int
) -> list[SearchResult]:
    """Return the results with each correction above the results that it corrects.

    A correction that ranks lower takes the rank and score of the corrected result. The corrected result moves down to
    the vacated rank, or to the last visible rank if the vacated one isn't visible, but always to a rank below the
    correction. Of two corrections of one memory, the later ranks higher. No result is dropped and corrections never
    apply across subjects.

    Args:
        results: Ordered by score.
        pairs: Corrections; pairs outside the results are ignored.
        shown: Number of visible results.
    """
    by_id = {result.id: result for result in results}
    order, moves = reorder_results([result.id for result in results], complete_pairs(pairs, by_id), shown)
    scores = {result.id: result.score for result in results}
    for newer, older in moves:
        scores[newer], scores[older] = scores[older], scores[newer]
    return _with_scores([by_id[memory_id] for memory_id in order], scores)


def complete_pairs(pairs: Sequence[CorrectionPair], by_id: Mapping[UUID, SubjectAndTime]) -> list[CorrectionPair]:
    """Return the pairs among these memories, plus a pair for consecutive corrections of the same memory.

    Pairs across subjects are dropped. If two memories correct the same memory, the later one counts as a correction of
    the earlier one.
    """
    known = [pair for pair in pairs if _holds(pair, by_id)]
    newer: dict[UUID, list[UUID]] = {}
    for pair in known:
        newer.setdefault(pair.older, []).append(pair.newer)
    siblings = [
        CorrectionPair(later, earlier)
        for ids in newer.values()
        for earlier, later in itertools.pairwise(sorted(ids, key=lambda memory_id: _moment(by_id[memory_id])))
    ]
    return list(dict.fromkeys([*known, *siblings]))


def reorder_results(order: Sequence[T], pairs: Sequence[tuple[T, T]], shown: int) -> tuple[list[T], list[tuple[T, T]]]:
    """Move the first of each pair up to the second's position if the first ranks lower; return the order and the moves.

    Args:
        order: Distinct items.
        pairs: Pairs of items that are in the order.
        shown: Number of visible items. The second of a moved pair takes the first's old position, or the last visible
            position if that is higher, but always a position below the first.
    """
    placed = list(order)
    moves: list[tuple[T, T]] = []
    for _ in range(len(pairs)):
        before = len(moves)
        for newer, older in pairs:
            newer_at, older_at = placed.index(newer), placed.index(older)
            if newer_at > older_at:
                placed.insert(older_at, placed.pop(newer_at))
                placed.remove(older)
                placed.insert(max(older_at + 1, min(newer_at, shown - 1)), older)
                moves.append((newer, older))
        if len(moves) == before:
            break
    return placed, moves


def _holds(pair: CorrectionPair, by_id: Mapping[UUID, SubjectAndTime]) -> bool:
    newer, older = by_id.get(pair.newer), by_id.get(pair.older)
    return newer is not None and older is not None and newer.subject == older.subject and pair.newer != pair.older


def _moment(statement: SubjectAndTime) -> datetime:
    return statement.occurred_at or statement.created_at


def _with_scores(order: Sequence[SearchResult], scores: Mapping[UUID, float]) -> list[SearchResult]:
    """Return results in this order with their new scores; raise each to at least the score of the result below it."""
    placed: list[SearchResult] = []
    best = 0.0
    for result in reversed(order):
        best = max(scores[result.id], best)
        if best != result.score:
            explained = None if result.explain is None else {**result.explain, "placed": {"own_score": result.score}}
            placed.append(structs.replace(result, score=best, explain=explained))
        else:
            placed.append(result)
    return placed[::-1]


def explain_corrections(results: Sequence[SearchResult], pairs: Sequence[CorrectionPair]) -> list[SearchResult]:
    """Add the ids of corrected and correcting memories to explanations; results without corrections are unchanged."""
    corrects: dict[UUID, list[UUID]] = {}
    corrected_by: dict[UUID, list[UUID]] = {}
    for pair in pairs:
        corrects.setdefault(pair.newer, []).append(pair.older)
        corrected_by.setdefault(pair.older, []).append(pair.newer)
    return [_explained(result, corrects.get(result.id, []), corrected_by.get(result.id, [])) for result in results]


def _explained(result: SearchResult, corrects: list[UUID], corrected_by: list[UUID]) -> SearchResult:
    if result.explain is None or not (corrects or corrected_by):
        return result
    links: dict[str, Any] = {"corrects": corrects, "corrected_by": corrected_by}
    return structs.replace(result, explain=result.explain | {name: ids for name, ids in links.items() if ids})
