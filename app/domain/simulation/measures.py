"""Measure what is retained and found on the last day of a simulated year."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.domain.consolidation.sentences import split_sentences
from app.domain.simulation.year import Year
from app.domain.text.words import content_words

Hits = Sequence[Sequence[int]]
"""For each question of `Year.questions`, the indexes of the memories that a search returned, best first.

A summary is replaced by its sources for which `tells_fact` is true, in the order of the sources."""


@dataclass(frozen=True)
class Measures:
    """Retention and retrieval metrics; shares, 0 to 1, of the current facts or of the questions about them.

    Attributes:
        active_set: Number of active memories, including summaries.
        kept: Share not deleted, in any tier.
        active: Share still active as an individual memory.
        wrongly_deleted: Share deleted.
        found: Share of questions answered by a default search: the fact, or a summary that states it, is among the ten
            results.
        found_in_reach: Like `found`, but only over the questions that are answered if nothing is ever forgotten.
        found_in_all_tiers: Like `found_in_reach`, for a default search followed by a search in all tiers.
        unimportant_active: Share of the chatter that is still active.
        outdated_first: Share of the answers about changed facts that rank below an outdated statement.
    """

    active_set: int
    kept: float
    active: float
    wrongly_deleted: float
    found: float
    found_in_reach: float
    found_in_all_tiers: float
    unimportant_active: float
    outdated_first: float


def tells_fact(summary: str, memory: str) -> bool:
    """Return true if, for each sentence of the memory, some sentence of the summary has all its content words."""
    summary_words = [set(content_words(sentence)) for sentence in split_sentences(summary)]
    return all(
        any(words.issuperset(content_words(fact_sentence)) for words in summary_words)
        for fact_sentence in split_sentences(memory)
    )


def compute_measures(
    year: Year,
    active_set: int,
    tiers: Mapping[int, str],
    default: Hits,
    everywhere: Hits,
    reach: Collection[int],
) -> Measures:
    """Compute the metrics of a forgetting policy on a year.

    Args:
        active_set: Number of active memories, including summaries.
        tiers: Tier of each remaining memory, by its index in `year.said`.
        default: Results of default searches.
        everywhere: Results of searches in all tiers.
        reach: Indexes in `Year.questions` of the questions that are answered if nothing is forgotten.
    """
    facts = year.current
    active = {place for place, tier in tiers.items() if tier == "active"}
    answered = answered_questions(year, default)
    found_anywhere = answered | answered_questions(year, everywhere)
    retained = sum(any(place in tiers for place in fact.places) for fact in facts)
    chatter = [place for place, statement in enumerate(year.said) if statement.fact is None]
    outdated_flags = [_outdated_first(year, number, default[number]) for number in sorted(answered)]
    changed_flags = [flag for flag in outdated_flags if flag is not None]
    return Measures(
        active_set=active_set,
        kept=_share(retained, len(facts)),
        active=_share(sum(not active.isdisjoint(fact.places) for fact in facts), len(facts)),
        wrongly_deleted=_share(len(facts) - retained, len(facts)),
        found=_share(len(answered), len(year.questions)),
        found_in_reach=_share(len(answered.intersection(reach)), len(reach)),
        found_in_all_tiers=_share(len(found_anywhere.intersection(reach)), len(reach)),
        unimportant_active=_share(sum(place in active for place in chatter), len(chatter)),
        outdated_first=_share(sum(changed_flags), len(changed_flags)),
    )


def answered_questions(year: Year, hits: Hits) -> set[int]:
    """Return the indexes in `Year.questions` of the questions whose answer was found."""
    return {
        number
        for number, ((fact, _), results) in enumerate(zip(year.questions, hits, strict=True))
        if not set(fact.places).isdisjoint(results)
    }


def _outdated_first(year: Year, number: int, found: Sequence[int]) -> bool | None:
    """Return true if an outdated fact ranks above the current one; None for a fact that never changed."""
    fact, _ = year.questions[number]
    former = {
        place for former_fact in year.facts if former_fact.questions == fact.questions for place in former_fact.places
    }
    former -= set(fact.places)
    if not former:
        return None
    first = next(place for place in found if place in former or place in fact.places)
    return first in former


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
