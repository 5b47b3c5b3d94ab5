"""Decide which earlier statements a later one corrects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from uuid import UUID

from app.domain.corrections.statements import SLOT_WORDS, Clause, ParsedStatement, SlotChange
from app.domain.corrections.stems import stem
from app.domain.corrections.values import Value, are_comparable, differ

Reason = Literal["value", "ended", "renamed"]
"""`value`: a new value replaces the old one. `ended`: the fact no longer holds. `renamed`: the name is retracted."""

RARE_DOCUMENTS_MIN: Final = 500
"""Minimum number of memories assumed for a tenant; otherwise no word of a small tenant would be rare."""
SCORE_MIN: Final = 1.15
"""Minimum score of a correction with the reason `value`, unless `ALONE_MIN` applies."""
BESIDE: Final = 0.5
"""Weight of a word shared only by the contexts (each clause with its neighbours), relative to one naming the slot."""
BESIDE_MAX: Final = 0.6
"""Maximum that words shared by the contexts add to a score."""
ALONE_MIN: Final = 0.6
"""Total rarity of the shared words that suffices if they cover the whole object of the change."""
SAME_VALUE: Final = 0.6
"""Bonus if the new statement says that a value of the old one no longer holds, or replaces it."""
ENDED_MIN: Final = 1.2
"""Minimum score of a correction with the reason `ended`."""
RENAMED_MIN: Final = 0.7
"""Minimum score of a correction with the reason `renamed`."""


class EarlierStatement(NamedTuple):
    """An earlier memory with its parsed statement."""

    memory_id: UUID
    statement: ParsedStatement


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction of an earlier memory.

    Attributes:
        corrected_id: Id of the earlier memory.
        score: Overlap of the two statements, weighted by rarity.
        words: Stems that occur in both.
    """

    corrected_id: UUID
    reason: Reason
    score: float
    words: tuple[str, ...]


def rarity(documents: int, total: int) -> float:
    """Return a word's rarity, 0 to 1: BM25's inverse document frequency, relative to that of a word in one memory."""
    memories, containing = max(total, documents, RARE_DOCUMENTS_MIN), max(documents, 1)
    return math.log(1 + (memories - containing + 0.5) / (containing + 0.5)) / math.log(1 + (memories - 0.5) / 1.5)


def find_corrections(
    new: ParsedStatement, earlier: Sequence[EarlierStatement], rarities: Mapping[str, float], limit: int = 1
) -> list[Correction]:
    """Return the corrections that a statement makes, best first.

    Args:
        new: The later statement.
        earlier: Earlier statements about the same subject, latest first; the later one wins a tie.
        rarities: Rarity of the new statement's stems, 0 to 1; a missing stem counts as 0.
        limit: Maximum number of corrections.
    """
    corrections = [best for one in earlier if (best := _best(new, one, rarities)) is not None]
    return sorted(corrections, key=lambda one: -one.score)[:limit]


def _best(new: ParsedStatement, earlier: EarlierStatement, rarities: Mapping[str, float]) -> Correction | None:
    """Return the best correction of an earlier statement, or None if there is none."""
    corrections: list[Correction] = []
    for place, clause in enumerate(new.clauses):
        if clause.is_open or not (clause.changes or clause.ended or clause.ended_values):
            continue
        new_context = _stems(new.clauses[max(0, place - 1) : place + 2])
        for at, old in enumerate(earlier.statement.clauses):
            if old.is_open or _are_of_others(clause, old, new.names, earlier.statement.names):
                continue
            shared_context = new_context & _stems(earlier.statement.clauses[max(0, at - 1) : at + 2])
            corrections += [
                Correction(earlier.memory_id, reason, score, tuple(sorted(words)))
                for reason, score, words in (
                    *(
                        _by_value(change, clause, old, shared_context, new.ended_values, rarities)
                        for change in clause.changes
                    ),
                    _by_end(clause, old, shared_context, rarities),
                    _by_name(clause, old, rarities),
                )
                if score > 0
            ]
    return max(corrections, key=lambda correction: correction.score, default=None)


_NOTHING: Final[tuple[Reason, float, frozenset[str]]] = ("value", 0.0, frozenset())


def _by_value(
    change: SlotChange,
    clause: Clause,
    old: Clause,
    context: frozenset[str],
    ended: tuple[Value, ...],
    rarities: Mapping[str, float],
) -> tuple[Reason, float, frozenset[str]]:
    """Return the evidence that the new clause gives a different value for the same slot."""
    shared = frozenset(word for word in change.words & old.stems if not _is_qualified_otherwise(word, clause, old))
    if not shared or not _has_other_value(change, old, shared):
        return _NOTHING
    core = _sum(shared, rarities)
    score = core + min(BESIDE_MAX, BESIDE * _sum(context - shared, rarities))
    if _meet(ended, old.values):
        score += SAME_VALUE
    is_all = change.core - {stem(name) for name in clause.names} <= shared and core >= ALONE_MIN
    if change.replaced and not _meet(change.replaced, old.values):
        return _NOTHING
    return ("value", score, shared) if is_all or score >= SCORE_MIN else _NOTHING


def _has_other_value(change: SlotChange, old: Clause, shared: frozenset[str]) -> bool:
    """Return True if the old clause's value nearest to the shared words is comparable to a new value and differs."""
    old_values = old.changes[-1].values if old.changes else old.values
    places = [word.place for word in old.words if word.stem in shared]
    for new in change.values:
        near = [
            (min(abs(old.words_before(value.start) - place) for place in places), value)
            for value in old_values
            if are_comparable(new, value)
        ]
        near = [candidate for candidate in near if candidate[0] <= SLOT_WORDS]
        if near and differ(new, min(near, key=lambda candidate: candidate[0])[1]):
            return True
    return False


def _by_end(
    clause: Clause, old: Clause, context: frozenset[str], rarities: Mapping[str, float]
) -> tuple[Reason, float, frozenset[str]]:
    """Return the evidence that, according to the new clause, the old clause's fact no longer holds."""
    over = (clause.ended & old.stems) - old.ended
    over_value = _meet(clause.ended_values, old.values) and not _meet(clause.ended_values, old.ended_values)
    if not over and not over_value:
        return _NOTHING
    shared = clause.stems & old.stems
    others = any(
        are_comparable(new, value) and differ(new, value)
        for new in clause.values
        if new not in clause.ended_values
        for value in old.values
    )
    score = _sum(shared, rarities) + SAME_VALUE * (over_value + others)
    score += min(BESIDE_MAX, BESIDE * _sum(context - shared, rarities))
    return ("ended", score, shared) if score >= ENDED_MIN else _NOTHING


def _meet(values: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
    """Return True if the two groups have a value in common."""
    return any(are_comparable(one, other) and not differ(one, other) for one in values for other in others)


def _by_name(clause: Clause, old: Clause, rarities: Mapping[str, float]) -> tuple[Reason, float, frozenset[str]]:
    """Return the evidence that the new clause retracts a name in the old one."""
    shared = clause.renamed & {stem(name) for name in old.names}
    score = _sum(shared, rarities)
    return ("renamed", score, shared) if score >= RENAMED_MIN else _NOTHING


def _is_qualified_otherwise(word: str, clause: Clause, old: Clause) -> bool:
    """Return True if the clauses qualify a word differently: "budget" in "the grocery budget" and "the gift budget"."""
    before, before_old = _preceding_stems(word, clause), _preceding_stems(word, old)
    return bool(before and before_old) and not before & old.stems and not before_old & clause.stems


def _preceding_stems(word: str, clause: Clause) -> frozenset[str]:
    """Return the stems of the content words that directly precede a word."""
    pairs = itertools.pairwise(clause.words)
    return frozenset(first.stem for first, second in pairs if second.stem == word and second.place == first.place + 1)


def _are_of_others(clause: Clause, old: Clause, names: frozenset[str], old_names: frozenset[str]) -> bool:
    """Return True if the clauses concern different people, or different numbers of a series."""
    if any(old.labels.get(noun, number) != number for noun, number in clause.labels.items()):
        return True
    if clause.names & old.names:
        return False
    if (clause.theirs & old.ours) - old.theirs or (clause.ours & old.theirs) - old.ours:
        return True
    if clause.ours & old.ours & clause.stems & old.stems:
        return False
    return bool(clause.names and old.names) and not (clause.names & old_names or names & old.names)


def _stems(clauses: Sequence[Clause]) -> frozenset[str]:
    return frozenset(word.stem for clause in clauses for word in clause.words)


def _sum(words: frozenset[str], rarities: Mapping[str, float]) -> float:
    return sum(rarities.get(word, 0.0) for word in words)
