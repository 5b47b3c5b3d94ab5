"""What is left of a year on its last day, and what of it is found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.domain.consolidation.sentences import sentences
from app.domain.simulation.year import Year
from app.domain.text.wording import content_words

Hits = Sequence[Sequence[int]]
"""By question of `Year.questions`, the places of the memories that a search has found, best first.

A summary stands for those of its sources that it `tells`, in their order.
"""


@dataclass(frozen=True)
class Measures:
    """Shares of what matters and still holds, or of the questions about it; each 0 to 1.

    Attributes:
        active_set: How many memories are active, summaries included.
        kept: Not deleted, in whichever tier.
        active: Still active, as a memory of its own.
        wrongly_deleted: Deleted.
        found: Answered by a default search: among its ten results is the memory, or a summary that tells it.
        found_in_reach: The same, of the questions that are answered where nothing is ever forgotten.
        found_in_all_tiers: Of these, answered by a default search or else by one in all tiers.
        unimportant_active: Share of the chatter that is still active.
        outdated_first: Of the answers to what has changed in the year, those that come after the one that no longer
            holds.
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


def tells(summary: str, memory: str) -> bool:
    """Whether a summary says all that a memory says: for each of its sentences, one that has all its content words."""
    told = [set(content_words(sentence)) for sentence in sentences(summary)]
    return all(any(words.issuperset(content_words(said)) for words in told) for said in sentences(memory))


def measures(
    year: Year,
    active_set: int,
    tiers: Mapping[int, str],
    default: Hits,
    everywhere: Hits,
    reach: Collection[int],
) -> Measures:
    """What a way of forgetting has made of a year.

    Args:
        year: The year.
        active_set: How many memories are active, summaries included.
        tiers: Tier of each memory that is left, by its place in `year.said`.
        default: What default searches have found.
        everywhere: What searches in all tiers have found.
        reach: Places in `Year.questions` of those that are answered where nothing is forgotten.
    """
    facts = year.current
    active = {place for place, tier in tiers.items() if tier == "active"}
    found = answered(year, default)
    widely = found | answered(year, everywhere)
    kept = sum(any(place in tiers for place in fact.places) for fact in facts)
    chatter = [place for place, one in enumerate(year.said) if one.fact is None]
    first = [_outdated_first(year, number, default[number]) for number in sorted(found)]
    changed = [is_first for is_first in first if is_first is not None]
    return Measures(
        active_set=active_set,
        kept=_share(kept, len(facts)),
        active=_share(sum(not active.isdisjoint(fact.places) for fact in facts), len(facts)),
        wrongly_deleted=_share(len(facts) - kept, len(facts)),
        found=_share(len(found), len(year.questions)),
        found_in_reach=_share(len(found.intersection(reach)), len(reach)),
        found_in_all_tiers=_share(len(widely.intersection(reach)), len(reach)),
        unimportant_active=_share(sum(place in active for place in chatter), len(chatter)),
        outdated_first=_share(sum(changed), len(changed)),
    )


def answered(year: Year, hits: Hits) -> set[int]:
    """Places in `Year.questions` of those whose answer was found."""
    return {
        number
        for number, ((fact, _), found) in enumerate(zip(year.questions, hits, strict=True))
        if not set(fact.places).isdisjoint(found)
    }


def _outdated_first(year: Year, number: int, found: Sequence[int]) -> bool | None:
    """Whether what used to hold is found before what holds; None for a fact that has never changed."""
    fact, _ = year.questions[number]
    former = {place for other in year.facts if other.questions == fact.questions for place in other.places}
    former -= set(fact.places)
    if not former:
        return None
    first = next(place for place in found if place in former or place in fact.places)
    return first in former


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
