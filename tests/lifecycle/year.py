"""A simulated year of a tenant: generated memories and events, applied to the reference and to the service."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec
import numpy as np

from app.domain.ingest.memory import KINDS
from app.domain.policy.policy import Forgetting, Policy
from app.domain.privacy.parameters import Privacy
from app.domain.tiers.decay_tier import DECAY_TIERS, TierThresholds
from app.domain.tiers.protection import Protection
from app.services.night.steps import STEPS
from app.services.storage.memory_write import memory_write
from app.services.tiers import cold_restore, reactivation
from app.store.strength import states
from app.store.tiers import protections
from tests.lifecycle import reference
from tests.lifecycle.reference import Memory, Numbers
from tests.services.aged import Aged, days

NIGHT: Final = 2 / 24
NIGHTS: Final = [day + NIGHT for day in range(366)]
QUIET: Final = ((40, 61), (150, 171), (290, 320))
"""Periods (first day, end) without events, in which skipped nights must make no difference."""
_TAGS: Final = ((), (), (), (), (), (), ("holiday",), ("decision",), ("promise", "holiday"))
_CATEGORIES: Final = ((), (), (), (), (), (), ("work",), ("consent",))
_KINDS: Final = (None, None, None, None, "episodic", "episodic", "semantic", "emotional", "procedural", "system")
_HARSH: Final[dict[str, dict[str, Any]]] = {
    "spec": {"law": "linear", "base_per_day": 0.15},
    "mnemex": {"half_life_days": 1.5},
    "cmm": {"lambda_per_second": 1e-6},
    "all": {
        "archived_below": 0.44,
        "deleted_uses_below": 3,
        "uses_above": 30,
        "grace_importance_above": 0.5,
        "semantic_importance_above": 0.55,
        "salience_above": 0.95,
        "deleted_salience_below": 0.4,
    },
}
"""Changes of day 120, after which only the remaining importance protects weak memories."""


def policy(numbers: Numbers) -> Policy:
    """Convert the reference's numbers to a policy."""
    parameters: dict[str, dict[str, Any]] = {
        "spec": {"law": numbers.law, "base_per_day": numbers.base_per_day},
        "mnemex": {"half_life_days": numbers.half_life_days},
        "cmm": {"lambda_per_second": numbers.lambda_per_second, "age_from": "last_use"},
    }
    return Policy(
        forgetting=Forgetting(profile=numbers.profile, parameters=parameters[numbers.profile]),
        tiers=TierThresholds(
            archived_below=numbers.archived_below,
            cold_below=numbers.cold_below,
            deleted_below=numbers.deleted_below,
            deleted_after_days=numbers.deleted_after_days,
            deleted_importance_below=numbers.deleted_importance_below,
            deleted_uses_below=numbers.deleted_uses_below,
            deleted_salience_below=numbers.deleted_salience_below,
        ),
        protection=Protection(
            never_forget_tags=tuple(sorted(numbers.never_tags)),
            never_forget_categories=tuple(sorted(numbers.never_categories)),
            grace_days=numbers.grace_days,
            grace_importance_above=numbers.grace_importance_above,
            semantic_importance_above=numbers.semantic_importance_above,
            uses_above=numbers.uses_above,
            salience_above=numbers.salience_above,
        ),
        privacy=Privacy(work_days=None),  # expiry has its own reference
    )


@dataclass(frozen=True)
class Happening:
    """An event for some memories, given by position, at a time."""

    day: float
    what: str
    places: list[int]
    value: Any = None


class Year:
    """The events of a year, and the reference's state after each night.

    Attributes:
        given: The memories as accepted, some before the year begins.
        happenings: The events in order of time.
        tiers: Tier index of each memory after each of `NIGHTS`, shape (nights, memories).
        lived: The reference's memories at the end.
        numbers_now: The numbers in force at the end.
    """

    def __init__(self, memories: int, profile: str = "spec", seed: int = 1, last: int = 365) -> None:
        """Generate memories and simulate them up to the night of day `last`."""
        self._chance = random.Random(seed)
        self.numbers = Numbers(profile=profile, salience_above=0.95, deleted_salience_below=0.8)
        self.given = [self._memory() for _ in range(memories)]
        self.happenings: list[Happening] = []
        self.lived = [replace(memory) for memory in self.given]
        self.numbers_now = self.numbers
        self._holds: dict[str, float] = {}
        nights = []
        for night in NIGHTS[: last + 1]:
            reference.night(self.numbers_now, self.lived, night)
            nights.append([reference.TIERS.index(memory.tier) for memory in self.lived])
            day = int(night)
            if day < last and not any(first <= day < end for first, end in QUIET):
                self._live(day)
        self.tiers = np.array(nights, np.int8)

    def _memory(self) -> Memory:
        pick = self._chance.choice
        kind = pick(_KINDS)
        accepted = round(self._chance.uniform(-120, 340) * 86_400, 3) / 86_400
        return Memory(
            accepted=accepted,
            salience=pick((0.0, 0.0, 0.125, 0.25, 0.5, 0.5, 0.75, 0.9375, 1.0)),
            kind=kind,
            fades_as=kind or pick(("episodic", "episodic", "semantic", "emotional", "procedural")),
            tags=set(pick(_TAGS)),
            categories=set(pick(_CATEGORIES)),
        )

    def _live(self, day: int) -> None:
        """Apply a day's events about an hour apart, each slightly after the full hour."""
        chance, count = self._chance, len(self.lived)
        there = [place for place, memory in enumerate(self.lived) if memory.accepted < day and memory.tier != "deleted"]
        some = [place for place in there if place % 97 == 0 or chance.random() < 0.005]
        active = [place for place in some if self.lived[place].tier == "active"]
        back = [
            place
            for place in some
            if self.lived[place].tier == "archived" or (self.lived[place].tier == "cold" and chance.random() < 0.3)
        ]
        self._happen(day + 10 / 24, "use", active)
        self._happen(day + 11 / 24, "restore", back)
        few = chance.sample(there, max(len(there) // 1_000, 1)) if there else []
        self._happen(day + 12 / 24, "salience", few, chance.randrange(17) / 16)
        few = chance.sample(there, max(len(there) // 1_000, 1)) if there else []
        self._happen(day + 13 / 24, "tags", few, sorted(chance.choice(_TAGS)))
        if day % 17 == 3:
            held = chance.sample(range(count), count // 20)
            name = str(uuid4())
            self._holds[name] = day + 45
            self._happen(day + 14 / 24, "hold", held, name)
        for name in [name for name, until in self._holds.items() if until <= day]:
            del self._holds[name]
            held = [place for place in range(count) if name in self.lived[place].holds]
            self._happen(day + 15 / 24, "release", held, name)
        if day == 120:
            changed = replace(self.numbers, **_HARSH[self.numbers.profile], **_HARSH["all"])
            self._happen(day + 16 / 24, "policy", list(range(count)), changed)
        if day == 235:
            tags = self.numbers.never_tags - {"decision"} | {"holiday"}
            changed = replace(
                self.numbers_now, law="product", archived_below=0.25, salience_above=1, never_tags=tags, grace_days=14
            )
            self._happen(day + 16 / 24, "policy", list(range(count)), changed)

    def _happen(self, day: float, what: str, places: list[int], value: Any = None) -> None:
        if not places:
            return
        day = round((day + self._chance.random() / 48) * 86_400, 3) / 86_400
        self.happenings.append(Happening(day, what, places, value))
        for place in places:
            self._change(self.lived[place], day, what, value)
        if what == "policy":
            self.numbers_now = value

    def _change(self, memory: Memory, day: float, what: str, value: Any) -> None:
        match what:
            case "use":
                reference.use(self.numbers_now, memory, day)
            case "restore":
                reference.restore(self.numbers_now, memory, day)
            case "salience":
                reference.settle(self.numbers_now, memory, day)
                memory.salience = value
            case "tags":
                memory.tags = set(value)
            case "hold":
                memory.holds = memory.holds | {value}
            case "release":
                memory.holds = memory.holds - {value}
            case "policy":
                reference.settle(self.numbers_now, memory, day)


class Lived:
    """The same year in the service."""

    def __init__(self, aged: Aged, year: Year) -> None:
        """Insert the memories' rows."""
        self.aged, self.year = aged, year
        given = year.given
        self.ids = aged.remember(
            *(memory.accepted for memory in given),
            salience=[memory.salience for memory in given],
            kind=[KINDS.index(memory.fades_as) for memory in given],
        )
        labels = [
            {"id": str(memory_id), "kind": memory.kind, "tags": sorted(memory.tags), "found": sorted(memory.categories)}
            for memory_id, memory in zip(self.ids, given, strict=True)
        ]
        aged.service.rows(
            "UPDATE memories SET kind = given.kind, tags = given.tags, categories = given.found "
            "FROM jsonb_to_recordset(%s) AS given (id uuid, kind text, tags text[], found text[]) WHERE memory_id = id",
            msgspec.json.encode(labels).decode(),
        )

    def through(self, runs: Callable[[int], int], last: int = 365) -> list[int]:
        """Apply the year's events and nights.

        Args:
            runs: Returns how often a day's night runs.
            last: The last day whose night runs.

        Returns:
            The days after whose nights some memory is in another tier than in the reference.
        """
        happenings, wrong = iter(self.year.happenings), []
        following = next(happenings, None)
        for day, night in enumerate(NIGHTS[: last + 1]):
            while following is not None and following.day < night:
                self.aged.now = days(following.day)
                self._happen(following)
                following = next(happenings, None)
            self.aged.now = days(night)
            for _ in range(runs(day)):
                self.night()
            if runs(day) and (self.tiers() != self.year.tiers[day]).any():
                wrong.append(day)
        return wrong

    def tiers(self) -> Any:
        """Return each memory's tier as an index into `DECAY_TIERS`; memories without a row were deleted."""
        [(ids, tiers)] = self.aged.service.rows(
            "SELECT coalesce(string_agg(uuid_send(memory_id), '' ORDER BY memory_id), ''), "
            "coalesce(string_agg(substr(tier, 2, 1), '' ORDER BY memory_id), '') FROM memory_state"
        )
        found = np.full(len(self.ids), DECAY_TIERS.index("deleted"), np.int8)
        places = np.frombuffer(ids, ">u4")[3::4] - self.ids[0].int % 2**32  # `Aged` numbers them consecutively
        found[places] = ["".join(tier[1] for tier in DECAY_TIERS).index(tier) for tier in tiers]
        return found

    def night(self) -> None:
        """Run every step of a night that moves memories, now."""
        for name in ("sweep", "archive", "cold", "delete"):
            state: dict[str, Any] = {}
            finished = False
            while not finished:
                step = STEPS[name](self.aged.tenant_id, self.aged.now, state, float("inf"))
                assert step.failure is None
                state, finished = step.state, step.finished

    def _restore(self, ids: Sequence[UUID]) -> None:
        """Restore from the archive directly, and from cold storage out of its segments.

        Memories that a night would have moved there are restored too, as in the reference.
        """
        tenant_id = self.aged.tenant_id
        with memory_write(tenant_id, "state") as write:
            tx = write.tx
            held = states.lock(tx, tenant_id, ids)
            here = held.only(np.flatnonzero(protections.read(tx, tenant_id, held.ids, Policy().rules).tiers == 0))
            used, era, now = reactivation.record_use(tx, tenant_id, here)
            reactivation.record_reactivation(tx, tenant_id, used, "active", era, now)
            back = reactivation.restore(write, sorted({*ids}.difference(here.ids)), "use")
        cold = sorted({*ids}.difference(here.ids, back))
        for part in (cold[at : at + cold_restore.ROWS] for at in range(0, len(cold), cold_restore.ROWS)):
            assert not cold_restore.restore(tenant_id, part).failed

    def _happen(self, happening: Happening) -> None:
        aged, ids = self.aged, [self.ids[place] for place in happening.places]
        match happening.what:
            case "use":
                aged.use(ids)
            case "restore":
                self._restore(ids)
            case "salience":
                aged.change(ids, salience=happening.value)
            case "tags":
                aged.service.rows("UPDATE memories SET tags = %s WHERE memory_id = ANY (%s)", happening.value, ids)
                self._look_again(ids)
            case "hold":
                aged.service.rows(
                    "INSERT INTO holds (tenant_id, hold_id, memory_ids, reason, placed_by) "
                    "VALUES (%s, %s, %s, 'court', 'k')",
                    aged.tenant_id,
                    happening.value,
                    ids,
                )
            case "release":
                aged.service.rows("UPDATE holds SET released_at = %s WHERE hold_id = %s", aged.now, happening.value)
                self._look_again(ids)
            case "policy":
                aged.decide(policy(happening.value), happening.day)

    def _look_again(self, ids: Sequence[UUID]) -> None:
        statement = "UPDATE memory_state SET next_due_at = '-infinity' WHERE memory_id = ANY (%s) AND tier <> 'deleted'"
        self.aged.service.rows(statement, ids)
