"""A simulated year in the real database: stored, asked about, and looked after each night, at moments that have passed.

The year ends now. What happens in it goes through the service's own code, to which it is `database.at` each moment.
Simulated tenants live in a database of their own, since an audit can't be removed from one.
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

from app.domain.ingest.ids import RANDOM_BYTES, memory_uuids, new_base
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.touch import Use, found
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest, SearchResult, Tier
from app.domain.simulation import baselines
from app.domain.simulation.baselines import RESULTS, Search
from app.domain.simulation.measures import Hits, Measures, answered, measures, tells
from app.domain.simulation.year import Asked, Said, Year
from app.domain.tiers.tiers import DECAY_TIERS
from app.services.embedding import embed
from app.services.enrichment import index, score
from app.services.night import night
from app.services.night.steps import STEPS
from app.services.search import search
from app.services.strength import strengths
from app.services.tenants import tenants
from app.services.uses import reinforce
from app.services.uses.reinforce import Touched
from app.store.consolidation import merges
from app.store.core import database
from app.store.core.copying import Arrival
from app.store.enrichment import work
from app.store.ingest import arrivals
from app.store.memories import tenant_counts

Say = Callable[[str, float], object]
"""Is told what is going on, and the share of it that is done."""

KEEP_ALL: Final = "keep-all"
DEFAULT: Final[tuple[Tier, ...]] = ("active",)
EVERY_TIER: Final[tuple[Tier, ...]] = ("active", "archived", "cold")
RANKED: Final = 100
"""Results of a search from which baselines take the first that they still have."""
_NIGHT, _TOLD, _ASKED, _END = timedelta(hours=2), timedelta(hours=9), timedelta(hours=10), timedelta(hours=3)
_HOURS_OF_QUESTIONS: Final = timedelta(hours=12)
_NIGHTLY: Final = ("sweep", "archive", "cold", "delete")
"""Steps that move memories; the others find nothing to do on most nights, and are only taken each seventh."""
_PAGE: Final = 5000
_CLAIM: Final = 1000
_LEASE_SECONDS: Final = 600.0


class NightFailed(Exception):
    """A step of a simulated night has failed; says which, and by which error."""


@dataclass(frozen=True)
class Outcome:
    """What a way of forgetting has made of a year.

    Attributes:
        name: A profile, `keep-all` or a baseline.
        size_of: The profile that told the baseline how much it may keep; None for the others.
        measures: On the last day.
        sizes: Active memories after the night of each day; none for a baseline.
        seconds: What it took.
    """

    name: str
    size_of: str | None
    measures: Measures
    sizes: tuple[int, ...]
    seconds: float


class Simulation:
    """A year, and what has been found out about it."""

    def __init__(
        self, year: Year, say: Say = lambda _what, _share: None, given: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Let a year end now; nothing is forgotten in the one that all others are compared with.

        Args:
            year: What is said and asked in it.
            say: Is told how far it is.
            given: What its policies have in place of the defaults.

        Raises:
            pydantic.ValidationError: There is no such policy.
        """
        self.year = year
        self.given = dict(given)
        self._say = say
        with database.shared() as tx:
            self._began = database.now(tx).replace(microsecond=0) - timedelta(days=year.days) - _END
        self.tenants: dict[str, UUID] = {}
        """By the names of outcomes."""
        self.keep_all = self._keep_all()

    def outcomes(self, profile: str) -> Iterator[Outcome]:
        """What a profile makes of the year, and then what the baselines make of it at the size of its active set.

        Raises:
            NightFailed: A step of a night has.
        """
        own = self._outcome(profile, None, _Life(self, profile))
        yield own
        created = np.array([one.day for one in self.year.said])
        for name in baselines.BASELINES:
            kept = baselines.kept(name, created, self._searches, own.sizes)
            yield self._outcome(name, profile, _Life(self, f"{name} beside {profile}", kept.tolist()))

    def _keep_all(self) -> Outcome:
        began = time.monotonic()
        life = _Life(self, KEEP_ALL)
        life.fill()
        self._searches = life.searches()
        hits = life.ask(DEFAULT)
        self._reach = answered(self.year, hits)
        everything = dict.fromkeys(range(len(self.year.said)), "active")
        found_out = measures(self.year, len(everything), everything, hits, hits, self._reach)
        return Outcome(KEEP_ALL, None, found_out, (), time.monotonic() - began)

    def _outcome(self, name: str, size_of: str | None, life: _Life) -> Outcome:
        began = time.monotonic()
        if size_of is None:
            life.live()
        else:
            life.fill()
        found_out = measures(
            self.year, life.active(), life.tiers(), life.ask(DEFAULT), life.ask(EVERY_TIER), self._reach
        )
        return Outcome(name, size_of, found_out, tuple(life.sizes), time.monotonic() - began)

    def moment(self, day: float) -> datetime:
        """When a question of a day is asked."""
        whole = int(day)
        return self._began + timedelta(days=whole) + _ASKED + (day - whole) * _HOURS_OF_QUESTIONS

    def night_of(self, day: int) -> datetime:
        """When the night begins that a day begins with."""
        return self._began + timedelta(days=day) + _NIGHT

    def told_at(self, day: int) -> datetime:
        """When all that is said on a day is said."""
        return self._began + timedelta(days=day) + _TOLD

    @property
    def end(self) -> datetime:
        """When the last questions are asked."""
        return self._began + timedelta(days=self.year.days) + _END

    def say(self, what: str, share: float) -> None:
        """Tell how far it is."""
        self._say(what, share)


class _Life:
    """A tenant that lives through the year, or is given what a baseline would have left of it."""

    def __init__(self, simulation: Simulation, name: str, only: Collection[int] | None = None) -> None:
        """Make the tenant.

        Args:
            simulation: With the year.
            name: Of a profile, or of what follows the first one's.
            only: Places of the memories that it has; None for all.
        """
        self._simulation, self._name = simulation, name
        self._year = simulation.year
        profile = "spec" if " " in name or name == KEEP_ALL else name
        forgetting = {**simulation.given.get("forgetting", {}), "profile": profile}
        # No model is asked, whatever the settings say: it would cost money, and another year each time.
        policy = Policy.model_validate({**simulation.given, "forgetting": forgetting, "budget": {"tokens": 0}})
        self._policy = policy
        self._tenant_id = tenants.simulated(f"simulated {name}", policy, simulation.night_of(-1))
        simulation.tenants[name] = self._tenant_id
        self._chance = np.random.default_rng(self._year.seed)
        self._places: dict[UUID, int] = {}
        self.sizes: list[int] = []
        told = list(enumerate(self._year.said)) if only is None else [(place, self._year.said[place]) for place in only]
        self._told = {day: list(said) for day, said in groupby(told, lambda one: int(one[1].day))}

    def live(self) -> None:
        """Live through it.

        Raises:
            NightFailed: A step of a night has.
        """
        asked = {day: list(questions) for day, questions in groupby(self._year.asked, lambda one: int(one.day))}
        for day in range(self._year.days):
            self._night(day)
            self._tell(day)
            for one in asked.get(day, ()):
                self._use(one)
            self._simulation.say(self._name, (day + 1) / self._year.days)
        self._night(self._year.days)

    def searches(self) -> list[Search]:
        """The searches of the year, each with all that it would find that was said by then."""
        return [self._ranked(one) for one in self._year.asked]

    def _ranked(self, asked: Asked) -> Search:
        fact = self._year.facts[asked.fact]
        ranking = self._search(asked.query, fact.person, RANKED, DEFAULT, self._simulation.moment(asked.day))
        answers = None if self._policy.reinforcement.by_search else fact.places
        return Search(asked.day, np.array(ranking, np.intp), answers)

    def fill(self) -> None:
        """Store all at once, each memory as of its day."""
        with database.at(self._tenant_id, self._simulation.end):
            for day in self._told:
                self._store(day)
            self._enrich()

    def ask(self, tiers: Sequence[Tier]) -> Hits:
        """The last day's questions about what still holds: which memories are found in these tiers, by place."""
        with database.at(self._tenant_id, self._simulation.end):
            return [self._search(question, fact.person, RESULTS, tiers) for fact, question in self._year.questions]

    def active(self) -> int:
        """How many of its memories are active, summaries included."""
        with database.tenant(self._tenant_id) as tx:
            return tenant_counts.read(tx, self._tenant_id).active

    def tiers(self) -> dict[int, str]:
        """Tier of each memory that is left, by its place in the year."""
        found_in = {}
        for held, [standing] in strengths.pages(self._tenant_id, _PAGE, [self._policy.rules]):
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
                step = night.step(Job(uuid4(), self._tenant_id, night.KIND, parameters, state, None, 0))
                state, finished = step.state, step.finished
                if step.failure is not None:
                    raise NightFailed(f"the night of day {day}: {step.failure}")
            self._enrich()  # what was deleted was context of others
            self.sizes.append(self.active())

    def _tell(self, day: int) -> None:
        if day in self._told:
            with database.at(self._tenant_id, self._simulation.told_at(day)):
                self._store(day)
                self._enrich()

    def _store(self, day: int) -> None:
        """Each person's words of a day are a request, and a thread."""
        accepted_ms = int(self._simulation.told_at(day).timestamp() * 1000)
        people: dict[str, list[tuple[int, Said]]] = {}
        for place, one in self._told[day]:
            people.setdefault(one.person, []).append((place, one))
        told = []
        for number, (person, said) in enumerate(people.items()):
            base = new_base(accepted_ms, self._chance.bytes(RANDOM_BYTES))
            given = [MemoryIn(one.text, person, f"{person} {day}", person) for _, one in said]
            told.append(Arrival(f"{accepted_ms}-{number}", base, accepted_ms, given))
            ids = memory_uuids(base, len(said))
            self._places |= {UUID(memory_id): place for memory_id, (place, _) in zip(ids, said, strict=True)}
        with database.drain() as tx:
            arrivals.copy_fresh(tx, self._tenant_id, told)

    def _enrich(self) -> None:
        """Do what waits; nobody else works in a simulation's database."""
        stages: tuple[tuple[str, Callable[[UUID, Sequence[UUID]], int]], ...] = (
            (work.INDEX, lambda tenant_id, ids: index.index(tenant_id, ids, self._policy)),
            (work.EMBED, embed.embed),
            (work.SCORE, score.score),
        )
        for stage, process in stages:
            while True:
                with database.shared() as tx:
                    claim = work.claim(
                        tx, stage, claim_id=uuid4(), after=work.NIL, limit=_CLAIM, lease_seconds=_LEASE_SECONDS
                    )
                if claim is None:
                    break
                process(claim.tenant_id, claim.memory_ids)
                with database.shared() as tx:
                    work.finish(tx, claim)

    def _use(self, asked: Asked) -> None:
        """Search, and take for used what the policy says, or else, as a caller would tell it, the answer alone."""
        moment, answers = self._simulation.moment(asked.day), self._year.facts[asked.fact].places
        with database.at(self._tenant_id, moment):
            request = SearchRequest(query=asked.query, limit=RESULTS, subject=self._year.facts[asked.fact].person)
            had = search.find(self._tenant_id, request, self._policy)
            each = zip(had.results, self._told_by(had.results), strict=True)
            answering = [Use(result.id) for result, places in each if not set(answers).isdisjoint(places)]
            uses = had.uses if self._policy.reinforcement.by_search else answering
            if uses:
                base = new_base(int(moment.timestamp() * 1000), self._chance.bytes(RANDOM_BYTES))
                told = Touched(base, moment.timestamp(), found(uses, self._tenant_id, None))
                reinforce.apply(self._tenant_id, [told])

    def _search(
        self, query: str, person: str, limit: int, tiers: Sequence[Tier], as_of: datetime | None = None
    ) -> list[int]:
        """Look for something about a person. Returns the places of what is told, best first; nothing is used.

        A summary among the results tells those of its sources whose words one of its sentences has all.
        """
        request = SearchRequest(
            query=query, subject=person, limit=limit, tiers=tuple(tiers), as_of=as_of, reinforce=False
        )
        results = search.search(self._tenant_id, request, self._policy)
        return list(dict.fromkeys(place for places in self._told_by(results) for place in places))

    def _told_by(self, results: Sequence[SearchResult]) -> list[list[int]]:
        """By result, the places of what it says: a memory itself; of a summary, those of its sources that it tells."""
        others = [result.id for result in results if result.id not in self._places]
        of: dict[UUID, list[int]] = {}
        if others:
            with database.tenant(self._tenant_id) as tx:
                made = merges.sources_of(tx, self._tenant_id, others)
            of = {summary_id: [self._places[each] for each in sources] for summary_id, sources in made.items()}
        return [
            [self._places[result.id]]
            if result.id in self._places
            else [place for place in sorted(of.get(result.id, ())) if tells(result.text, self._year.said[place].text)]
            for result in results
        ]
