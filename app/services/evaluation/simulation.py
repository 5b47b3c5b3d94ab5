"""Simulate a year of use in a real database: store memories, ask questions and run the nightly maintenance.

The simulated year ends at the current time. The simulation calls production services with the database clock overridden
(`database.at`). Simulated tenants need a separate database, since their audit entries can't be removed afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import numpy as np

from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.uses import Use, touch_results
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest, SearchResult, Tier
from app.domain.simulation import baselines
from app.domain.simulation.baselines import RESULTS, BaselineSearch
from app.domain.simulation.measures import Hits, Measures, answered_questions, compute_measures, tells_fact
from app.domain.simulation.pillars import Pillars, compute_pillars
from app.domain.simulation.year import SimulatedSearch, SimulatedStatement, Year
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.services.evaluation import simulated_time
from app.services.evaluation.simulated_time import NightFailed
from app.services.night.steps import STEPS
from app.services.search import search
from app.services.strength import memory_strength
from app.services.tenants import tenants
from app.services.uses import reinforcement
from app.services.uses.reinforcement import EnvelopeTouches
from app.store.consolidation import merges
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.ingest import envelopes
from app.store.memories import tenant_counts

Say = Callable[[str, float], object]
"""Progress callback: receives a description and the share done (0 to 1)."""

KEEP_ALL: Final = "keep-all"
ASSISTANT: Final = "Assistant"
"""Speaker of the assistant's statements."""
DEFAULT: Final[tuple[Tier, ...]] = ("active",)
EVERY_TIER: Final[tuple[Tier, ...]] = ("active", "archived", "cold")
RANKED: Final = 100
"""Number of results per search of the reference tenant; a baseline uses the first results that it still retains."""
_NIGHT, _TOLD, _ASKED, _END = timedelta(hours=2), timedelta(hours=9), timedelta(hours=10), timedelta(hours=3)
_HOURS_OF_QUESTIONS: Final = timedelta(hours=12)
_NIGHTLY: Final = ("sweep", "archive", "cold", "delete")
"""Steps that run every night, since they change tiers; the others rarely find work, and run every seventh night."""
_PAGE: Final = 5000


@dataclass(frozen=True)
class SimulationOutcome:
    """The result of simulating a year with one forgetting method.

    Attributes:
        name: A profile, `keep-all` or a baseline.
        size_of: For a baseline, the profile whose active set limits the baseline's size; None otherwise.
        measures: Measures on the last day.
        pillars: The three pillars of seed 003 on the last day; `plausibility` is None for baselines and `keep-all`.
        sizes: Number of active memories after each night; empty for a baseline.
        seconds: Duration of the simulation.
    """

    name: str
    size_of: str | None
    measures: Measures
    pillars: Pillars
    sizes: tuple[int, ...]
    seconds: float


class Simulation:
    """A simulated year and its results."""

    def __init__(
        self, year: Year, say: Say = lambda _what, _share: None, given: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Prepare a year that ends now, and simulate the reference tenant, which forgets nothing.

        Args:
            year: The statements and questions of the year.
            given: Policy values that replace the defaults.

        Raises:
            pydantic.ValidationError: The policy values are invalid.
        """
        self.year = year
        self.given = dict(given)
        self._say = say
        with database.shared() as tx:
            self._began = database.now(tx).replace(microsecond=0) - timedelta(days=year.days) - _END
        self.tenants: dict[str, UUID] = {}
        """Tenant ids by outcome name."""
        self.keep_all = self._keep_all()

    def outcomes(self, profile: str) -> Iterator[SimulationOutcome]:
        """Yield a profile's outcome, followed by the outcomes of the baselines limited to its active set's size.

        Raises:
            NightFailed: A step of a night failed.
        """
        profile_outcome = self._outcome(profile, None, _SimulatedTenant(self, profile))
        yield profile_outcome
        created = np.array([statement.day for statement in self.year.said])
        for name in baselines.BASELINES:
            retained = baselines.retained_memories(name, created, self._searches, profile_outcome.sizes)
            yield self._outcome(name, profile, _SimulatedTenant(self, f"{name} beside {profile}", retained.tolist()))

    def _keep_all(self) -> SimulationOutcome:
        started_at = time.monotonic()
        tenant = _SimulatedTenant(self, KEEP_ALL)
        tenant.store_all()
        self._searches = tenant.searches()
        hits = tenant.ask_questions(DEFAULT)
        self._reach = answered_questions(self.year, hits)
        all_active = dict.fromkeys(range(len(self.year.said)), "active")
        measures = compute_measures(self.year, len(all_active), all_active, hits, hits, self._reach)
        pillars = compute_pillars(self.year, hits, measures.unimportant_active, None)
        return SimulationOutcome(KEEP_ALL, None, measures, pillars, (), time.monotonic() - started_at)

    def _outcome(self, name: str, size_of: str | None, life: _SimulatedTenant) -> SimulationOutcome:
        started_at = time.monotonic()
        if size_of is None:
            life.run_year()
        else:
            life.store_all()
        hits = life.ask_questions(DEFAULT)
        measures = compute_measures(
            self.year, life.active(), life.tiers(), hits, life.ask_questions(EVERY_TIER), self._reach
        )
        strengths = life.strengths() if size_of is None else None
        pillars = compute_pillars(self.year, hits, measures.unimportant_active, strengths)
        return SimulationOutcome(name, size_of, measures, pillars, tuple(life.sizes), time.monotonic() - started_at)

    def moment(self, day: float) -> datetime:
        """Return the time of a search; `day` counts from the year's start, and its fraction selects the hour."""
        day_number = int(day)
        return self._began + timedelta(days=day_number) + _ASKED + (day - day_number) * _HOURS_OF_QUESTIONS

    def night_of(self, day: int) -> datetime:
        """Return the start of the nightly run at the beginning of a day."""
        return self._began + timedelta(days=day) + _NIGHT

    def told_at(self, day: int) -> datetime:
        """Return the time of all statements of a day."""
        return self._began + timedelta(days=day) + _TOLD

    @property
    def end(self) -> datetime:
        """Time of the final questions."""
        return self._began + timedelta(days=self.year.days) + _END

    def report_progress(self, what: str, share: float) -> None:
        """Call the progress callback."""
        self._say(what, share)


class _SimulatedTenant:
    """A tenant that is simulated through the year, or that stores only the memories that a baseline would retain."""

    def __init__(self, simulation: Simulation, name: str, only: Collection[int] | None = None) -> None:
        """Create the tenant.

        Args:
            name: Name of a profile, `keep-all`, or of a baseline's outcome.
            only: Positions of the statements to store; None for all.
        """
        self._simulation, self._name = simulation, name
        self._year = simulation.year
        profile = "spec" if " " in name or name == KEEP_ALL else name
        forgetting = {**simulation.given.get("forgetting", {}), "profile": profile}
        # A model would cost money and make each simulated year different, so the budget is always 0.
        policy = Policy.model_validate({**simulation.given, "forgetting": forgetting, "budget": {"tokens": 0}})
        self._policy = policy
        self._tenant_id = tenants.create_simulated(f"simulated {name}", policy, simulation.night_of(-1))
        simulation.tenants[name] = self._tenant_id
        self._chance = np.random.default_rng(self._year.seed)
        self._places: dict[UUID, int] = {}
        self.sizes: list[int] = []
        told = list(enumerate(self._year.said)) if only is None else [(place, self._year.said[place]) for place in only]
        self._told = {day: list(said) for day, said in groupby(told, lambda one: int(one[1].day))}

    def run_year(self) -> None:
        """Simulate every day of the year.

        Raises:
            NightFailed: A step of a night failed.
        """
        searches_by_day = {
            day: list(day_questions)
            for day, day_questions in groupby(self._year.asked, lambda question: int(question.day))
        }
        for day in range(self._year.days):
            self._night(day)
            self._send_statements(day)
            for question in searches_by_day.get(day, ()):
                self._use(question)
            self._simulation.report_progress(self._name, (day + 1) / self._year.days)
        self._night(self._year.days)

    def searches(self) -> list[BaselineSearch]:
        """Return the year's searches, each with its ranking of all memories accepted before the search."""
        return [self._ranked(question) for question in self._year.asked]

    def _ranked(self, asked: SimulatedSearch) -> BaselineSearch:
        fact = self._year.facts[asked.fact]
        ranking = self._search(asked.query, fact.person, RANKED, DEFAULT, self._simulation.moment(asked.day))
        answers = None if self._policy.reinforcement.by_search else fact.places
        return BaselineSearch(asked.day, np.array(ranking, np.intp), answers)

    def store_all(self) -> None:
        """Store all memories at once, each with the acceptance time of its day."""
        with database.at(self._tenant_id, self._simulation.end):
            for day in self._told:
                self._store(day)
            self._enrich()

    def ask_questions(self, tiers: Sequence[Tier]) -> Hits:
        """Ask the last day's questions about valid facts; return the positions of the statements found, by question."""
        with database.at(self._tenant_id, self._simulation.end):
            return [self._search(question, fact.person, RESULTS, tiers) for fact, question in self._year.questions]

    def active(self) -> int:
        """Count the tenant's active memories, summaries included."""
        with database.tenant(self._tenant_id) as tx:
            return tenant_counts.read(tx, self._tenant_id).active

    def tiers(self) -> dict[int, str]:
        """Return the tier of each remaining memory, by its position in the year's statements."""
        tier_by_position = {}
        for states, [tier_facts] in memory_strength.iterate_pages(self._tenant_id, _PAGE, [self._policy.rules]):
            for memory_id, tier in zip(states.ids, tier_facts.tiers.tolist(), strict=True):
                if memory_id in self._places:
                    tier_by_position[self._places[memory_id]] = DECAY_TIERS[tier]
        return {position: tier for position, tier in tier_by_position.items() if tier != "deleted"}

    def strengths(self) -> dict[int, float]:
        """Return each remaining memory's strength at the end of the year, by its position in the year's statements."""
        now = self._simulation.end.timestamp()
        with database.tenant(self._tenant_id) as tx:
            times = memory_strength.load_timeline(tx, self._tenant_id)
        strength_by_position = {}
        for states, _ in memory_strength.iterate_pages(self._tenant_id, _PAGE, []):
            current = memory_strength.advance_to_era(states, times, now).state
            strengths = memory_strength.evaluate_strength(times.at(now), current, now).strength
            for memory_id, strength in zip(states.ids, strengths.tolist(), strict=True):
                if memory_id in self._places:
                    strength_by_position[self._places[memory_id]] = strength
        return strength_by_position

    def _night(self, day: int) -> None:
        moment = self._simulation.night_of(day)
        with database.at(self._tenant_id, moment):
            try:
                simulated_time.run_night(self._tenant_id, moment, list(STEPS) if day % 7 == 0 else _NIGHTLY)
            except NightFailed as failed:
                raise NightFailed(f"the night of day {day}: {failed}") from failed
            self._enrich()  # the neighbours of deleted memories are embedded again, without them in context
            self.sizes.append(self.active())

    def _send_statements(self, day: int) -> None:
        if day in self._told:
            with database.at(self._tenant_id, self._simulation.told_at(day)):
                self._store(day)
                self._enrich()

    def _store(self, day: int) -> None:
        """Store a day's statements, with one request and one thread per person."""
        accepted_ms = int(self._simulation.told_at(day).timestamp() * 1000)
        people: dict[str, list[tuple[int, SimulatedStatement]]] = {}
        for position, statement in self._told[day]:
            people.setdefault(statement.person, []).append((position, statement))
        arrivals = []
        for number, (person, day_statements) in enumerate(people.items()):
            base = generate_base(accepted_ms, self._chance.bytes(RANDOM_BYTES))
            bodies = [_memory(statement, f"{person} {day}") for _, statement in day_statements]
            arrivals.append(Arrival(f"{accepted_ms}-{number}", base, accepted_ms, bodies))
            ids = memory_uuids(base, len(day_statements))
            self._places |= {
                UUID(memory_id): position for memory_id, (position, _) in zip(ids, day_statements, strict=True)
            }
        with database.drain() as tx:
            envelopes.copy_fresh(tx, self._tenant_id, arrivals)

    def _enrich(self) -> None:
        simulated_time.process_pending(self._policy)

    def _use(self, asked: SimulatedSearch) -> None:
        """Search, and record the uses that the search counts.

        If the policy counts no uses by search, record a use of each result that answers the question, as callers do.
        """
        moment, answers = self._simulation.moment(asked.day), self._year.facts[asked.fact].places
        with database.at(self._tenant_id, moment):
            request = SearchRequest(query=asked.query, limit=RESULTS, subject=self._year.facts[asked.fact].person)
            found = search.find_memories(self._tenant_id, request, self._policy)
            pairs = zip(found.results, self._statements_in(found.results), strict=True)
            answer_uses = [Use(result.id) for result, positions in pairs if not set(answers).isdisjoint(positions)]
            uses = found.uses if self._policy.reinforcement.by_search else answer_uses
            if uses:
                base = generate_base(int(moment.timestamp() * 1000), self._chance.bytes(RANDOM_BYTES))
                touches = EnvelopeTouches(base, moment.timestamp(), touch_results(uses, self._tenant_id, None))
                reinforcement.reinforce_used(self._tenant_id, [touches])

    def _search(
        self, query: str, person: str, limit: int, tiers: Sequence[Tier], as_of: datetime | None = None
    ) -> list[int]:
        """Search a person's memories without recording uses; return the positions of the statements found, best first.

        A summary among the results counts for each source statement that it still contains (`tells_fact`).
        """
        request = SearchRequest(
            query=query, subject=person, limit=limit, tiers=tuple(tiers), as_of=as_of, reinforce=False
        )
        results = search.search(self._tenant_id, request, self._policy)
        return list(dict.fromkeys(position for positions in self._statements_in(results) for position in positions))

    def _statements_in(self, results: Sequence[SearchResult]) -> list[list[int]]:
        """Return the positions of each result's statements: a memory's own, or those that a summary still contains."""
        summary_ids = [result.id for result in results if result.id not in self._places]
        sources_by_summary: dict[UUID, list[int]] = {}
        if summary_ids:
            with database.tenant(self._tenant_id) as tx:
                source_lists = merges.list_sources(tx, self._tenant_id, summary_ids)
            sources_by_summary = {
                summary_id: [self._places[source_id] for source_id in sources]
                for summary_id, sources in source_lists.items()
            }
        return [
            [self._places[result.id]]
            if result.id in self._places
            else [
                position
                for position in sorted(sources_by_summary.get(result.id, ()))
                if tells_fact(result.text, self._year.said[position].text)
            ]
            for result in results
        ]


def _memory(statement: SimulatedStatement, thread: str) -> MemoryIn:
    speaker = ASSISTANT if statement.role == "assistant" else statement.person
    return MemoryIn(statement.text, statement.person, thread, speaker, role=statement.role)
