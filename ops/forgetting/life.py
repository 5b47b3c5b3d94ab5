"""Send a conversation to a simulated tenant at its own times, and pass time until its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final, Literal, get_args
from uuid import UUID, uuid4

import numpy as np
import numpy.typing as npt
from sqlalchemy import text

from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.uses import Touches, Use, session_digest
from app.domain.policy.policy import Policy
from app.domain.recall.request import WINDOW_MESSAGES, Message, RecallRequest
from app.domain.tiers import keep_rule, tier_decision
from app.domain.tiers.keep_calibration import THRESHOLD_MAX
from app.services.evaluation import simulated_time
from app.services.recall import recall
from app.services.strength import memory_strength
from app.services.tenants import tenants
from app.services.uses import reinforcement
from app.services.uses.reinforcement import EnvelopeTouches
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.ingest import envelopes
from app.store.memories import tenant_counts
from ops.forgetting import clock
from ops.recall.dataset import Conversation, Memory

Usage = Literal["none", "later"]
USAGES: Final[tuple[Usage, ...]] = get_args(Usage)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Say = Callable[[float], object]
"""Progress callback: receives the share done, 0 to 1."""

_NIGHT, _QUESTIONS = timedelta(hours=2), timedelta(hours=12)
_NIGHTLY: Final = ("calibration", "sweep", "expire", "consolidate", "archive", "cold", "delete")
"""The steps of a night that move, merge or delete memories, or decide which. The others check, report or ask a model;
self-tests, which strengthen what they find, would cost most of the time."""
_IDLE_NIGHTS: Final = 4
"""While nothing is used, nights are this many times as far apart: strength doesn't depend on them."""
_PAGE: Final = 5000
_CHANCES: Final = text("SELECT memory_id, coalesce(keep_chance, 0) FROM scores WHERE tenant_id = :tenant")


@dataclass(frozen=True, slots=True)
class Plan:
    """The passing of time.

    Attributes:
        days: Days between the last turn and the questions.
        night_days: Days between two nights while memories are used; otherwise, nights are four times as far apart.
        seed: Seed of the memories' ids.
        policy: Policy fields that replace the defaults.
    """

    days: int
    night_days: int
    seed: int
    policy: dict[str, Any] = field(default_factory=dict)

    def profile(self, name: str) -> Policy:
        """Return the policy with this profile, and without a model, which would cost money and differ in each run."""
        forgetting = {**self.policy.get("forgetting", {}), "profile": name}
        return Policy.model_validate({**self.policy, "forgetting": forgetting, "budget": {"tokens": 0}})


@dataclass(slots=True)
class Worth:
    """The memories' values at the time of the questions; every array has shape (n,).

    Of a memory deleted before, the last known values count: its strength then would be that without the deletion.

    Attributes:
        protected: True if a rule of the policy protects the memory from decay.
        rank: Order of protected memories, 0 to 1: the keep chance, up to the highest threshold that a target share
            finds; 1 if the memory is protected otherwise.
        strength: Strength under the tenant's profile, 0 to 1.
        salience: Salience, 0 to 1.
        active: True if the memory is in the active tier.
        used: Seconds since 1970 of the last use, or of the acceptance.
    """

    protected: Bools
    rank: Floats
    strength: Floats
    salience: Floats
    active: Bools
    used: Floats


class Life:
    """A conversation's memories in a simulated tenant."""

    def __init__(self, conversation: Conversation, policy: Policy, plan: Plan, name: str) -> None:
        """Create the tenant, which has no memories yet; `name` is the start of its name."""
        self.memories = sorted(conversation.memories, key=lambda memory: memory.moment)
        self.policy, self._plan = policy, plan
        self.moments = [memory.moment + timedelta(seconds=place) for place, memory in enumerate(self.memories)]
        last = self.moments[-1].replace(hour=0, minute=0, second=0, microsecond=0)
        self.end = last + timedelta(days=plan.days) + _QUESTIONS
        self.tenant_id = tenants.create_simulated(f"{name} {uuid4()}", policy, self.moments[0] - timedelta(days=1))
        self.places: dict[UUID, int] = {}
        """Places in `memories` by the ids of the stored memories."""
        count = len(self.memories)
        accepted = np.array([moment.timestamp() for moment in self.moments])
        self.worth = Worth(
            *(np.zeros(count, bool), np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count, bool)),
            used=accepted,
        )
        self._chance = np.random.default_rng(plan.seed)
        self._next_night = self.moments[0].replace(hour=0, minute=0, second=0, microsecond=0) + _NIGHT

    def store_all(self, kept: Bools | None = None) -> None:
        """Store all memories, or the kept ones, each accepted at its own time; no night runs and nothing is used."""
        places = range(len(self.memories)) if kept is None else np.flatnonzero(kept).tolist()
        with clock.at(self.tenant_id, self.end):
            self._store(places)

    def live(self, usage: Usage, *, nights: bool, say: Say = lambda _share: None) -> None:
        """Pass the time from the first turn to the questions.

        Args:
            nights: False if nothing is ever moved or deleted.
            say: Called after each part of the conversation.

        Raises:
            NightFailed: A step of a night failed.
        """
        for batch in self._batches() if usage == "none" else self._sittings():
            if nights:
                self._run_nights(self.moments[batch[0]], is_idle=usage == "none")
            if usage == "later":
                self._use_for(batch)
            with clock.at(self.tenant_id, self.moments[batch[-1]]):
                self._store(batch)
            say(batch[-1] / len(self.memories) / 2)
        if nights:
            self._run_nights(self.end, is_idle=True, say=lambda share: say((1 + share) / 2))
        self.read_worth()
        say(1)

    def read_worth(self) -> None:
        """Read the values as of the questions' time of the memories that still exist."""
        now = self.end.timestamp()
        with database.tenant(self.tenant_id) as tx:
            times = memory_strength.load_timeline(tx, self.tenant_id)
        era = times.at(now)
        self.worth.active[:] = False
        for stored, [facts] in memory_strength.iterate_pages(self.tenant_id, _PAGE, [self.policy.rules]):
            known = np.array([memory_id in self.places for memory_id in stored.ids], bool)
            rows = np.array([self.places[memory_id] for memory_id in stored.ids if memory_id in self.places], np.intp)
            state = memory_strength.advance_to_era(stored, times, now).state
            seen = memory_strength.evaluate_strength(era, state, now)
            by_chance = self.policy.rules.judge_keep(facts.keep, state).by_chance
            chance = np.minimum(keep_rule.shifted(facts.keep, state.salience), THRESHOLD_MAX)
            self.worth.rank[rows] = np.where(by_chance, chance, 1.0)[known]
            may_move = tier_decision.may_move(self.policy.rules, facts, state, now, seen)
            self.worth.protected[rows] = ~may_move[known]
            self.worth.strength[rows] = seen.strength[known]
            self.worth.salience[rows] = state.salience[known]
            self.worth.active[rows] = facts.tiers[known] == 0

    def keep_chances(self) -> Floats:
        """Return each memory's stored keep chance, 0 to 1, shape (n,); 0 if it has none."""
        chances = np.zeros(len(self.memories))
        with database.tenant(self.tenant_id) as tx:
            for memory_id, chance in tx.execute(_CHANCES, {"tenant": self.tenant_id}):
                if memory_id in self.places:
                    chances[self.places[memory_id]] = chance
        return chances

    def count_active(self) -> int:
        """Return the number of active memories, summaries included."""
        with database.tenant(self.tenant_id) as tx:
            return tenant_counts.read(tx, self.tenant_id).active

    def _sittings(self) -> Iterator[list[int]]:
        """Yield the places of successive turns of one session on one day."""

        def key(place: int) -> tuple[object, ...]:
            return self.memories[place].session, self.memories[place].moment.date()

        for _, sitting in groupby(range(len(self.memories)), key):
            yield list(sitting)

    def _batches(self) -> Iterator[list[int]]:
        """Yield the places of successive turns that are stored at once if nothing is used: those between two nights."""
        first_night, apart = self._next_night, timedelta(days=self._plan.night_days * _IDLE_NIGHTS)
        for _, batch in groupby(range(len(self.memories)), lambda n: (self.moments[n] - first_night) // apart):
            yield list(batch)

    def _run_nights(self, until: datetime, *, is_idle: bool, say: Say = lambda _share: None) -> None:
        """Run the nights that are due before this moment; the last one is on the day of the questions."""
        started = self._next_night
        while self._next_night < until:
            self.read_worth()  # afterwards, some memories may be deleted
            with clock.at(self.tenant_id, self._next_night):
                simulated_time.run_night(self.tenant_id, self._next_night, _NIGHTLY)
                simulated_time.process_pending(self.policy)  # neighbours of deleted memories are embedded again
            say((self._next_night - started) / (until - started))
            apart = self._plan.night_days * (_IDLE_NIGHTS if is_idle else 1)
            step = self._next_night + timedelta(days=apart)
            final = self.end - _QUESTIONS + _NIGHT
            self._next_night = final if self._next_night < final < step else step

    def _store(self, places: Sequence[int]) -> None:
        arrivals = []
        for place in places:
            memory, moment = self.memories[place], self.moments[place]
            accepted_ms = int(moment.timestamp() * 1000)
            base = generate_base(accepted_ms, self._chance.bytes(RANDOM_BYTES))
            body = MemoryIn(
                memory.text,
                thread=str(memory.session),
                speaker=memory.speaker,
                role=memory.role,
                occurred_at=moment.astimezone(UTC),
            )
            arrivals.append(Arrival(f"{accepted_ms}-0", base, accepted_ms, [body]))
            [memory_id] = map(UUID, memory_uuids(base, 1))
            self.places[memory_id] = place
        with database.drain() as tx:
            envelopes.copy_fresh(tx, self.tenant_id, arrivals)
        simulated_time.process_pending(self.policy)

    def _use_for(self, sitting: Sequence[int]) -> None:
        """Recall memories of other threads for each turn of the user, and count the recalled context as used."""
        for number, place in enumerate(sitting):
            memory = self.memories[place]
            if memory.role not in (None, "user") or not self.places:
                continue
            latest = sitting[max(0, number + 1 - WINDOW_MESSAGES) : number + 1]
            messages: list[str | Message] = [_message(self.memories[each]) for each in latest]
            request = RecallRequest(messages=messages, exclude_thread=str(memory.session))
            moment = self.moments[place]
            with clock.at(self.tenant_id, moment):
                recalled = recall.recall_memories(self.tenant_id, request, self.policy).ids
                self._record_uses(recalled, moment, str(memory.session))

    def _record_uses(self, used: Sequence[UUID], moment: datetime, session: str) -> None:
        if not used:
            return
        base = generate_base(int(moment.timestamp() * 1000), self._chance.bytes(RANDOM_BYTES))
        touches = Touches([Use(memory_id) for memory_id in used], session_digest(self.tenant_id, session))
        reinforcement.reinforce_used(self.tenant_id, [EnvelopeTouches(base, moment.timestamp(), touches)])
        rows = [self.places[memory_id] for memory_id in used if memory_id in self.places]
        self.worth.used[rows] = moment.timestamp()


def _message(memory: Memory) -> Message:
    return Message(text=memory.text[:32_768], role=memory.role, speaker=memory.speaker)
