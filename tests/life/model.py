"""The plain model of a tenant: dictionaries that say what every read of the service must answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product
from typing import Any, Final

import numpy as np

from app.domain.dynamics import state as states
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import DAY_SECONDS, Event, State
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.ingest.memory import KINDS
from app.domain.policy.policy import Policy
from app.domain.strength import importance
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength
from tests.life import tier_rules
from tests.life.tier_rules import Seen

RESTORED_STRENGTH: Final = 0.45
OPEN: Final = ("grace", "held")
TIMES: Final = ("created_at", "accessed_at", "anchored_at")


@dataclass
class Remembered:
    """A memory that a caller sent, as every read must return it.

    Attributes:
        number: Position among the tenant's memories, in order of acceptance.
        code: A word that occurs in no other memory; an edit of the text replaces it.
        codes: All its words of this kind, the earlier ones too.
        thaws: Number of returns from cold storage, each of which destroys the key of the text there.
        is_lost: The text can't be read any more: a copy of the data has it in cold storage under a destroyed key.
        state: The strength's inputs, in arrays of one row, anchored under `version` of the policy.
        is_scored: True once the salience is known: given, or read after the score of the present text.
        is_rated_by_caller: True once the caller has set the salience, which then stays in force.
        keep_chance: Chance by the service's rules, read from it before each comparison of tiers; None if there is none.
    """

    id: str
    number: int
    code: str
    fields: dict[str, Any]
    state: State
    version: int
    tier: str = "active"
    restored_at: float = -np.inf
    uses: int = 0
    codes: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    is_scored: bool = False
    is_rated_by_caller: bool = False
    keep_chance: float | None = None
    thaws: int = 0
    is_lost: bool = False

    @property
    def accepted_at(self) -> float:
        return float(self.state.created_at[0])


@dataclass
class KnownErasure:
    """An erasure: its scope by field, and the position of the last memory that it applies to once it has begun.

    Attributes:
        erased: Ids of the memories that it has erased: in a restored copy, it erases them whatever they were then.
    """

    id: str
    scope: dict[str, Any]
    erase_after: float
    status: str = "grace"
    cut: int | None = None
    is_deletion: bool = False
    erased: set[str] = field(default_factory=set)

    def matches(self, memory: Remembered) -> bool:
        if memory.id in self.erased:
            return True
        if self.cut is not None and memory.number > self.cut:
            return False
        if (ids := self.scope.get("ids")) is not None:
            return memory.id in ids
        return all(memory.fields[name] == value for name, value in self.scope.items())


@dataclass
class Model:
    """All that one tenant must see. Times are in seconds since 1970; `shift` moves all of them into the past."""

    memories: dict[str, Remembered] = field(default_factory=dict)
    eras: list[tuple[int, float, Policy]] = field(default_factory=list)
    erasures: dict[str, KnownErasure] = field(default_factory=dict)
    holds: dict[str, dict[str, Any]] = field(default_factory=dict)
    links: dict[tuple[str, str, str], None] = field(default_factory=dict)
    supersessions: dict[tuple[str, str], str] = field(default_factory=dict)
    merges: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: list[tuple[str, list[str]]] = field(default_factory=list)
    faded: list[Remembered] = field(default_factory=list)
    accepted: int = 0
    later_holds: set[str] = field(default_factory=set)
    """While a ledger is replayed: the holds that were placed after the copy was made."""
    erased_before: set[str] = field(default_factory=set)
    """While a ledger is replayed: the memories that were erased since, which no later hold can have covered."""

    # Time

    def shift(self, days: float) -> None:
        """Let all that has happened lie this many days further back."""
        seconds = days * DAY_SECONDS
        for memory in self.memories.values():
            moved = {name: getattr(memory.state, name) - seconds for name in TIMES}
            memory.state = replace(memory.state, **moved)
            memory.restored_at -= seconds
        self.eras = [(version, since - seconds, policy) for version, since, policy in self.eras]
        for erasure in self.erasures.values():
            erasure.erase_after -= seconds

    def times(self) -> Timeline:
        """Return the policies by the time they took effect."""
        return Timeline([Era(*era) for era in self.eras])

    # Which memories a read returns

    def hiding(self, memory: Remembered) -> list[KnownErasure]:
        """Return the open erasures that hide a memory."""
        return [each for each in self.erasures.values() if each.status in OPEN and each.matches(memory)]

    def visible(self) -> dict[str, Remembered]:
        """Return the memories that reads return, by id."""
        return {memory_id: memory for memory_id, memory in self.memories.items() if not self.hiding(memory)}

    def held(self, memory: Remembered) -> bool:
        """Return True if a legal hold covers a memory."""
        return any(
            memory.id in scope["ids"] if "ids" in scope else memory.fields["subject"] == scope["subject"]
            for hold_id, scope in self.holds.items()
            if hold_id not in self.later_holds or memory.id not in self.erased_before
        )

    def counts(self) -> dict[str, int]:
        """Return the number of visible memories by tier."""
        tiers = [memory.tier for memory in self.visible().values()]
        return {tier: tiers.count(tier) for tier in DECAY_TIERS[:3]}

    def relations(self) -> set[tuple[str, str]]:
        """Return the active supersessions between visible memories, newer memory first, also through hidden ones."""
        return self.relations_without(self.memories.keys() - self.visible().keys())

    def relations_without(self, absent: Collection[str]) -> set[tuple[str, str]]:
        """Return the active supersessions between other memories, direct ones and those that lead through `absent`."""
        active = {pair for pair, status in self.supersessions.items() if status == "active"}
        for middle in absent:
            newer = [pair[0] for pair in active if pair[1] == middle]
            older = [pair[1] for pair in active if pair[0] == middle]
            active |= {pair for pair in product(newer, older) if self.supersessions.get(pair, "active") == "active"}
        return {pair for pair in active if set(pair).isdisjoint(absent)}

    def against(self, newer: str, older: str) -> bool:
        """Return True if the subjects differ, or if `older` supersedes `newer` already, also through others."""
        if self.memories[newer].fields["subject"] != self.memories[older].fields["subject"]:
            return True
        active = self.relations()
        reached, frontier = {newer}, [newer]
        while frontier:
            below = frontier.pop()
            for one, other in active:
                if other == below and one not in reached:
                    reached.add(one)
                    frontier.append(one)
        return older in reached

    def words_to_hide(self) -> set[str]:
        """Return the words that no read may return: those of hidden and of gone memories.

        A summary outlives the sources that decay has deleted, with their words, until its subject is erased.
        """
        hidden = [memory.codes for memory in self.memories.values() if self.hiding(memory)]
        words = {code for codes in hidden for code in codes} | {code for _, codes in self.gone for code in codes}
        open_erasures = [each for each in self.erasures.values() if each.status in OPEN and "subject" in each.scope]
        return words - {
            memory.code for memory in self.faded if not any(erasure.matches(memory) for erasure in open_erasures)
        }

    # Strength

    def settle(self, memory: Remembered, now: float) -> Era:
        """Convert a memory's state to the policy in force, and return that policy's era."""
        times = self.times()
        memory.state = times.advance_to(memory.state, np.array([memory.version]), now)
        era = times.at(now)
        memory.version = era.version
        return era

    def strength(self, memory: Remembered, now: float) -> CurrentStrength:
        """Return strength and importance at a moment, without changing the memory."""
        copied = replace(memory)
        era = self.settle(copied, now)
        return CurrentStrength(
            era.dynamics.strength(copied.state, now), importance.importance(era.policy.importance, copied.state, now)
        )

    def use(self, memory: Remembered, now: float, *, at: float | None = None) -> None:
        """Reinforce a memory; an archived one returns to the active tier."""
        era = self.settle(memory, now)
        memory.state = era.dynamics.reinforce(memory.state, Event(at=at or now, now=now))
        memory.uses += 1
        if memory.tier == "archived":
            self.reactivate(memory, now)

    def reactivate(self, memory: Remembered, now: float) -> None:
        """Return a memory, whose use was counted, to the active tier with at least the restored strength."""
        era = self.settle(memory, now)
        strength = era.dynamics.strength(memory.state, now)
        if strength[0] < RESTORED_STRENGTH:
            memory.state = era.dynamics.at_strength(memory.state, now, np.maximum(strength, RESTORED_STRENGTH))
        memory.tier, memory.restored_at = "active", now

    def restore(self, memory: Remembered, now: float) -> None:
        """Restore a memory of a lower tier, which counts as a use."""
        if memory.tier != "active":
            source, memory.tier = memory.tier, "cold"
            memory.thaws += source == "cold"
            self.use(memory, now)
            memory.tier = source
            self.reactivate(memory, now)

    def change_inputs(self, memory: Remembered, now: float, **inputs: float) -> None:
        """Change salience, kind or multiplier, which leaves the present strength as it is, but for the multiplier."""
        era = self.settle(memory, now)
        before = memory.state
        after = replace(before, **{name: np.array([np.float64(np.float32(value))]) for name, value in inputs.items()})
        if all(getattr(before, name)[0] == getattr(after, name)[0] for name in inputs):
            return
        weighed = after.multiplier
        kept = rebase(before, now, era.dynamics, era.dynamics, replace(after, multiplier=before.multiplier))
        memory.state = replace(kept, multiplier=weighed)

    def decide(self, memory: Remembered, now: float) -> str:
        """Return the tier that a memory belongs in, by the stored keep chance that was read last."""
        era = self.settle(replace(memory), now)
        strength, importance_now = self.strength(memory, now)
        seen = Seen(
            tier=memory.tier,
            kind=memory.fields["kind"],
            tags=frozenset(memory.fields["tags"]),
            strength=float(strength[0]),
            importance=float(importance_now[0]),
            salience=float(memory.state.salience[0]),
            is_from_caller=memory.is_rated_by_caller,
            stored_chance=memory.keep_chance,
            uses=memory.uses,
            age_seconds=now - memory.accepted_at,
            back_seconds=now - max(memory.accepted_at, memory.restored_at),
            is_held=self.held(memory),
        )
        return tier_rules.decide(era.policy, seen)

    # Changes

    def accept(
        self, memory_id: str, code: str, fields: dict[str, Any], now: float, salience: float | None, multiplier: float
    ) -> Remembered:
        """Add a new memory."""
        kind = KINDS.index(fields["kind"] or "episodic")
        state = states.new(
            np.array([now]),
            salience=float(np.float32(salience or 0)),
            kind=kind,
            multiplier=float(np.float32(multiplier)),
        )
        self.accepted += 1
        memory = Remembered(memory_id, self.accepted, code, fields, state, self.eras[-1][0], codes=[code])
        memory.is_scored = memory.is_rated_by_caller = salience is not None
        self.memories[memory_id] = memory
        return memory

    def remove(self, memory_ids: Iterable[str]) -> None:
        """Forget memories and all that refers to them; what superseded them supersedes what they superseded."""
        gone = list(memory_ids)
        seen = self.visible().keys() - gone
        lasting = {pair: "active" for pair in self.relations_without(set(gone)) if seen >= set(pair)}
        self.supersessions = lasting | self.supersessions
        for memory_id in gone:
            memory = self.memories.pop(memory_id)
            self.gone.append((memory_id, memory.codes))
        here = self.memories.keys()
        self.links = {link: None for link in self.links if link[0] in here and link[1] in here}
        self.supersessions = {
            pair: status for pair, status in self.supersessions.items() if pair[0] in here and pair[1] in here
        }

    def fade(self, memory: Remembered) -> None:
        """Forget a memory that decay has deleted."""
        self.remove([memory.id])
        self.faded.append(memory)

    def finish(self, erasure: KnownErasure) -> None:
        """Erase what an erasure matches and no hold covers; the rest stays hidden until the release."""
        if erasure.cut is None:
            erasure.cut = self.accepted
        if "subject" in erasure.scope:  # a summary has the subject of its sources, but not their thread
            self.faded = [memory for memory in self.faded if not erasure.matches(memory)]
        matching = [memory for memory in self.memories.values() if erasure.matches(memory)]
        erased = [memory.id for memory in matching if not self.held(memory)]
        self.remove(erased)
        erasure.erased.update(erased)
        erasure.status = "held" if any(map(self.held, matching)) else "verified"

    def copy(self) -> Model:
        """Return an independent copy."""
        return deepcopy(self)


def seconds(moment: str) -> float:
    """Return a moment of a response in seconds since 1970."""
    return datetime.fromisoformat(moment).timestamp()
