"""Explain the decision about a memory's tier, and when the decision next changes if the memory isn't used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import numpy as np

from app.domain.dynamics.state import FAR_SECONDS, State
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.ingest.sources import Source
from app.domain.tiers import explanation
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.explanation import DecisionCase
from app.domain.tiers.tier_decision import RULES, TierFacts, TierRules
from app.errors import Unavailable
from app.services.consolidation import supersession
from app.services.consolidation.supersession import SupersessionOutcome
from app.services.enrichment import keep_explanation
from app.services.enrichment.keep_explanation import KeepExplanation
from app.services.storage import lookup
from app.services.storage.lookup import Missing, Pending
from app.services.strength import memory_strength
from app.store.consolidation import supersessions
from app.store.consolidation.supersessions import MemorySupersessions
from app.store.core import database
from app.store.enrichment import corrections, rating_comparison
from app.store.enrichment.rating_comparison import StoredRating
from app.store.privacy import holds
from app.store.privacy.holds import MemoryHold
from app.store.strength import states
from app.store.tiers import protections

LOOKS_MOST: Final = 1_000
"""Maximum number of future times evaluated; a forgetting model that advances in ticks needs one every few ticks."""


@dataclass(frozen=True, slots=True)
class TierVerdict:
    """A decision about a memory.

    Attributes:
        tier: The tier that the memory should be in, one of `DECAY_TIERS`.
        rule: The deciding rule, one of `tier_decision.RULES`.
        why: The reason, as a sentence with numbers.
    """

    tier: str
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class TierExplanation:
    """The explanation of a memory's tier.

    Attributes:
        tier: The current tier.
        source: Who wrote the memory, one of `SOURCES`.
        verdict: The decision; the nightly run carries it out.
        case: The numbers used in the decision.
        change_at: Time at which the decision first names another tier if the memory isn't used; None if never, or not
            within `LOOKS_MOST` evaluations.
        change: The decision at that time.
        lasting: The decision that stays in force if the memory isn't used; None if the decision changes, or if
            that is unknown. Its rule may differ from that of `verdict`, as after a grace period.
        holders: Legal holds that cover the memory, oldest first.
        supersedes: The outcomes of the memory's `supersedes` fields, including unresolved ones.
        superseded_by: Newer memories that supersede this memory, oldest first; searches return only these.
        corrects: Earlier memories that this memory corrects.
        corrected_by: Later memories that correct this memory.
        keep: The chance that the memory should be kept, by the rules; None if they didn't score it.
        rating: A model's rating of the present text, even if the caller's salience overrides it; None if there is none.
    """

    memory_id: UUID
    as_of: datetime
    tier: str
    source: Source
    verdict: TierVerdict
    case: DecisionCase
    change_at: datetime | None
    change: TierVerdict | None
    lasting: TierVerdict | None
    holders: list[MemoryHold]
    supersedes: list[SupersessionOutcome]
    superseded_by: list[UUID]
    corrects: list[UUID]
    corrected_by: list[UUID]
    keep: KeepExplanation | None
    rating: StoredRating | None


def explain_tier(tenant_id: UUID, memory_id: UUID, as_of: datetime | None = None) -> TierExplanation:
    """Explain the decision about a memory as of a time.

    Args:
        memory_id: The memory's id, or an alias.
        as_of: Any time; None for now. For times before the memory's last change, the state after that change is used.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the ingest queue.
    """
    memory = lookup.get(tenant_id, memory_id)
    if isinstance(memory, Pending):
        raise Unavailable("this memory is still in the queue", retry_after_seconds=1)
    with lookup.stored_only(tenant_id, memory_id), database.tenant(tenant_id) as tx:
        stored = states.read(tx, tenant_id, [memory.memory_id])
        if not stored.ids:
            raise Missing
        times = memory_strength.load_timeline(tx, tenant_id)
        wanted_time = as_of or database.now(tx)
        now = max(wanted_time.timestamp(), float(stored.state.anchored_at[0]), float(times.since(stored.versions)[0]))
        eras = [times.at(now), *times.after(now)]
        facts_by_rules = {
            rules: protections.read(tx, tenant_id, stored.ids, rules) for rules in {era.policy.rules for era in eras}
        }
        holders = holds.list_by_memory(tx, tenant_id, stored.ids).get(stored.ids[0], [])
        corrects, corrected_by = corrections.list_around(tx, tenant_id, stored.ids[0])
        around = supersessions.list_around(tx, tenant_id, stored.ids).get(stored.ids[0], MemorySupersessions())
        keep = keep_explanation.explain(tx, tenant_id, stored.ids[0])
        rating = rating_comparison.read(tx, tenant_id, stored.ids[0])
    supersession_outcomes = supersession.list_outcomes(tenant_id, [memory.memory_id])
    simulated = _FutureMemory(times, facts_by_rules, memory_strength.advance_to_era(stored, times, now).state, now)
    verdict, case = simulated.decide()
    tier = DECAY_TIERS[simulated.standing.tiers[0]]
    moment = wanted_time if now == wanted_time.timestamp() else simulated.moment
    change_at, change, lasting = simulated.find_next_change(verdict)
    related = (holders, supersession_outcomes, around.superseded_by, corrects, corrected_by, keep, rating)
    source: Source = memory.source or "unknown"
    return TierExplanation(memory.memory_id, moment, tier, source, verdict, case, change_at, change, lasting, *related)


@dataclass(slots=True)
class _FutureMemory:
    """A memory whose future is simulated on the assumption that it is neither used nor changed.

    Attributes:
        standings: The memory's protections for each set of tier rules, current or scheduled.
        state: Strength state, converted to the policy in force at `now`.
        now: The simulated time, in seconds since 1970.
    """

    times: Timeline
    standings: Mapping[TierRules, TierFacts]
    state: State
    now: float

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)

    @property
    def era(self) -> Era:
        return self.times.at(self.now)

    @property
    def standing(self) -> TierFacts:
        return self.standings[self.era.policy.rules]

    def decide(self) -> tuple[TierVerdict, DecisionCase]:
        """Return the decision at `now` and the numbers used in it."""
        strengths, decision = memory_strength.decide_tiers(self.era, self.state, self.now, self.standing)
        [words] = explanation.explain_decisions(
            self.era.policy.rules, self.standing, self.state, self.now, strengths, decision
        )
        [case] = explanation.decision_cases(self.era.policy.rules, self.standing, self.state, self.now, strengths)
        return TierVerdict(DECAY_TIERS[decision.tiers[0]], RULES[decision.rules[0]], words), case

    def find_next_change(self, verdict: TierVerdict) -> tuple[datetime | None, TierVerdict | None, TierVerdict | None]:
        """Find the first later decision for another tier, evaluating only the times at which a decision can change.

        Returns:
            Time and decision of the change, and None; or None twice, and the decision that stays in force, if known.
        """
        tier = verdict.tier
        for _ in range(LOOKS_MOST):
            next_time = self._next_time()
            if next_time > FAR_SECONDS:
                return None, None, verdict
            version = np.array([self.era.version])
            self.state, self.now = self.times.advance_to(self.state, version, next_time), next_time
            if np.isfinite(self.era.dynamics.refresh_seconds):
                self.state = self.era.dynamics.advance(self.state, next_time)
            verdict, _ = self.decide()
            if verdict.tier != tier:
                return self.moment, verdict, None
        return None, None, None

    def _next_time(self) -> float:
        """Return the next time at which the decision or policy can change, in seconds since 1970; infinite if never."""
        strengths = memory_strength.evaluate_strength(self.era, self.state, self.now)
        due = float(memory_strength.due_at(self.era, self.state, self.now, strengths, self.standing)[0])
        return min([due, *(era.since for era in self.times.after(self.now))])
