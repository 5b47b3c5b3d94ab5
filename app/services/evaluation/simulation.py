"""Simulate a year of use in a real database: store memories, ask questions and run the nightly maintenance.

The year ends now. The simulation calls production services with the database clock overridden (`database.at`).
Simulated tenants have a database of their own, since audit entries can't be removed from one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np

from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.uses import Use, touch_results
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest, SearchResult, Tier
from app.domain.simulation import baselines
from app.domain.simulation.baselines import RESULTS, BaselineSearch
from app.domain.simulation.measures import Hits, Measures, answered_questions, compute_measures, tells_fact
from app.domain.simulation.year import SimulatedSearch, SimulatedStatement, Year
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.services.embedding import embed
from app.services.enrichment import index, score_by_rules
from app.services.night import night_run
from app.services.night.steps import STEPS
from app.services.search import search
from app.services.strength import memory_strength
from app.services.tenants import tenants
from app.services.uses import reinforcement
from app.services.uses.reinforcement import EnvelopeTouches
from app.store.consolidation import merges
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.enrichment import work_queue
from app.store.ingest import envelopes
from app.store.memories import tenant_counts

Say = Callable[[str, float], object]
"""Progress callback: receives a description and the share done (0 to 1)."""

KEEP_ALL: Final = "keep-all"
DEFAULT: Final[tuple[Tier, ...]] = ("active",)
EVERY_TIER: Final[tuple[Tier, ...]] = ("active", "archived", "cold")
RANKED: Final = 100
"""Number of search results from which a baseline takes the first ones that it still retains."""
_NIGHT, _TOLD, _ASKED, _END = timedelta(hours=2), timedelta(hours=9), timedelta(hours=10), timedelta(hours=3)
_HOURS_OF_QUESTIONS: Final = timedelta(hours=12)
_NIGHTLY: Final = ("sweep", "archive", "cold", "delete")
"""Steps that move memories; the other steps rarely find work, and run every seventh night only."""
_PAGE: Final = 5000
_CLAIM: Final = 1000
_LEASE_SECONDS: Final = 600.0


class NightFailed(Exception):
    """Raised when a step of a simulated night fails; the message names the step and the error."""


@dataclass(frozen=True)
class SimulationOutcome:
    """The result of simulating a year with one forgetting method.

    Attributes:
        name: A profile, `keep-all` or a baseline.
        size_of: For a baseline, the profile whose size it may use; None otherwise.
        measures: Measured on the last day.
        sizes: Number of active memories after each night; empty for a baseline.
        seconds: Duration of the simulation.
    """

    name: str
    size_of: str | None
    measures: Measures
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
        own = self._outcome(profile, None, _SimulatedTenant(self, profile))
        yield own
        created = np.array([one.day for one in self.year.said])
        for name in baselines.BASELINES:
            kept = baselines.retained_memories(name, created, self._searches, own.sizes)
            yield self._outcome(name, profile, _SimulatedTenant(self, f"{name} beside {profile}", kept.tolist()))

    def _keep_all(self) -> SimulationOutcome:
        began = time.monotonic()
        life = _SimulatedTenant(self, KEEP_ALL)
        life.store_all()
        self._searches = life.searches()
        hits = life.ask_questions(DEFAULT)
        self._reach = answered_questions(self.year, hits)
        everything = dict.fromkeys(range(len(self.year.said)), "active")
        found_out = compute_measures(self.year, len(everything), everything, hits, hits, self._reach)
        return SimulationOutcome(KEEP_ALL, None, found_out, (), time.monotonic() - began)

    def _outcome(self, name: str, size_of: str | None, life: _SimulatedTenant) -> SimulationOutcome:
        began = time.monotonic()
        if size_of is None:
            life.run_year()
        else:
            life.store_all()
        found_out = compute_measures(
            self.year,
            life.active(),
            life.tiers(),
            life.ask_questions(DEFAULT),
            life.ask_questions(EVERY_TIER),
            self._reach,
        )
        return SimulationOutcome(name, size_of, found_out, tuple(life.sizes), time.monotonic() - began)

    def moment(self, day: float) -> datetime:
        """Return the time at which a question is asked."""
        whole = int(day)
        return self._began + timedelta(days=whole) + _ASKED + (day - whole) * _HOURS_OF_QUESTIONS

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
        """Report progress."""
        self._say(what, share)


class _SimulatedTenant:
    """A tenant that is simulated through the year, or filled with what a baseline would have retained."""

    def __init__(self, simulation: Simulation, name: str, only: Collection[int] | None = None) -> None:
        """Create the tenant.

        Args:
            name: Name of a profile, `keep-all`, or of a baseline's outcome.
            only: Places of the statements to store; None for all.
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
        asked = {day: list(questions) for day, questions in groupby(self._year.asked, lambda one: int(one.day))}
        for day in range(self._year.days):
            self._night(day)
            self._send_statements(day)
            for one in asked.get(day, ()):
                self._use(one)
            self._simulation.report_progress(self._name, (day + 1) / self._year.days)
        self._night(self._year.days)

    def searches(self) -> list[BaselineSearch]:
        """Return the year's searches, each ranked over all memories stated by its time."""
        return [self._ranked(one) for one in self._year.asked]

    def _ranked(self, asked: SimulatedSearch) -> BaselineSearch:
        fact = self._year.facts[asked.fact]
        ranking = self._search(asked.query, fact.person, RANKED, DEFAULT, self._simulation.moment(asked.day))
        answers = None if self._policy.reinforcement.by_search else fact.places
        return BaselineSearch(asked.day, np.array(ranking, np.intp), answers)

    def store_all(self) -> None:
        """Store all memories at once, each as of its day."""
        with database.at(self._tenant_id, self._simulation.end):
            for day in self._told:
                self._store(day)
            self._enrich()

    def ask_questions(self, tiers: Sequence[Tier]) -> Hits:
        """Ask the last day's questions about facts that still hold; return the places of the memories found."""
        with database.at(self._tenant_id, self._simulation.end):
            return [self._search(question, fact.person, RESULTS, tiers) for fact, question in self._year.questions]

    def active(self) -> int:
        """Count the tenant's active memories, summaries included."""
        with database.tenant(self._tenant_id) as tx:
            return tenant_counts.read(tx, self._tenant_id).active

    def tiers(self) -> dict[int, str]:
        """Return the tier of each remaining memory, by its place in the year's statements."""
        found_in = {}
        for held, [standing] in memory_strength.iterate_pages(self._tenant_id, _PAGE, [self._policy.rules]):
            for memory_id, tier in zip(held.ids, standing.tiers.tolist(), strict=True):
                if memory_id in self._places:
                    found_in[self._places[memory_id]] = DECAY_TIERS[tier]
        return {place: tier for place, tier in found_in.items() if tier != "deleted"}

    def _night(self, day: int) -> None:
        moment = self._simulation.night_of(day)
        with database.at(self._tenant_id, moment):
            state: dict[str, Any] = {}
            finished = False
            while not finished:
                steps = list(STEPS) if day % 7 == 0 else list(_NIGHTLY)
                parameters = {"as_of": moment.isoformat(), "steps": steps}
                step = night_run.run_job_slice(
                    Job(uuid4(), self._tenant_id, night_run.KIND, parameters, state, None, 0)
                )
                state, finished = step.state, step.finished
                if step.failure is not None:
                    raise NightFailed(f"the night of day {day}: {step.failure}")
            self._enrich()  # deleted memories were context of their neighbours
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
        for place, one in self._told[day]:
            people.setdefault(one.person, []).append((place, one))
        told = []
        for number, (person, said) in enumerate(people.items()):
            base = generate_base(accepted_ms, self._chance.bytes(RANDOM_BYTES))
            given = [MemoryIn(one.text, person, f"{person} {day}", person) for _, one in said]
            told.append(Arrival(f"{accepted_ms}-{number}", base, accepted_ms, given))
            ids = memory_uuids(base, len(said))
            self._places |= {UUID(memory_id): place for memory_id, (place, _) in zip(ids, said, strict=True)}
        with database.drain() as tx:
            envelopes.copy_fresh(tx, self._tenant_id, told)

    def _enrich(self) -> None:
        """Process all pending work; a simulation's database has no other workers."""
        stages: tuple[tuple[str, Callable[[UUID, Sequence[UUID]], int]], ...] = (
            (work_queue.INDEX, lambda tenant_id, ids: index.index_memories(tenant_id, ids, self._policy)),
            (work_queue.EMBED, embed.embed_memories),
            (work_queue.SCORE, score_by_rules.score_memories),
        )
        for stage, process in stages:
            while True:
                with database.shared() as tx:
                    claim = work_queue.claim(
                        tx, stage, claim_id=uuid4(), after=work_queue.NIL, limit=_CLAIM, lease_seconds=_LEASE_SECONDS
                    )
                if claim is None:
                    break
                process(claim.tenant_id, claim.memory_ids)
                with database.shared() as tx:
                    work_queue.finish_claim(tx, claim)

    def _use(self, asked: SimulatedSearch) -> None:
        """Search, and record the uses that the policy counts, or only the results with the answer, as callers would."""
        moment, answers = self._simulation.moment(asked.day), self._year.facts[asked.fact].places
        with database.at(self._tenant_id, moment):
            request = SearchRequest(query=asked.query, limit=RESULTS, subject=self._year.facts[asked.fact].person)
            had = search.find_memories(self._tenant_id, request, self._policy)
            each = zip(had.results, self._statements_in(had.results), strict=True)
            answering = [Use(result.id) for result, places in each if not set(answers).isdisjoint(places)]
            uses = had.uses if self._policy.reinforcement.by_search else answering
            if uses:
                base = generate_base(int(moment.timestamp() * 1000), self._chance.bytes(RANDOM_BYTES))
                told = EnvelopeTouches(base, moment.timestamp(), touch_results(uses, self._tenant_id, None))
                reinforcement.reinforce_used(self._tenant_id, [told])

    def _search(
        self, query: str, person: str, limit: int, tiers: Sequence[Tier], as_of: datetime | None = None
    ) -> list[int]:
        """Search for memories about a person; return the places of the statements found, best first, recording no use.

        A summary among the results counts for each source that has all its words in one of the summary's sentences.
        """
        request = SearchRequest(
            query=query, subject=person, limit=limit, tiers=tuple(tiers), as_of=as_of, reinforce=False
        )
        results = search.search(self._tenant_id, request, self._policy)
        return list(dict.fromkeys(place for places in self._statements_in(results) for place in places))

    def _statements_in(self, results: Sequence[SearchResult]) -> list[list[int]]:
        """Return, per result, the places of the statements in it: the memory's own, or those of a summary's sources."""
        others = [result.id for result in results if result.id not in self._places]
        of: dict[UUID, list[int]] = {}
        if others:
            with database.tenant(self._tenant_id) as tx:
                made = merges.list_sources(tx, self._tenant_id, others)
            of = {summary_id: [self._places[each] for each in sources] for summary_id, sources in made.items()}
        return [
            [self._places[result.id]]
            if result.id in self._places
            else [
                place for place in sorted(of.get(result.id, ())) if tells_fact(result.text, self._year.said[place].text)
            ]
            for result in results
        ]
