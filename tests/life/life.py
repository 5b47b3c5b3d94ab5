"""Two tenants that live at random: each step is one operation, and the service must answer as the plain model does."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import httpx

from app.domain.policy.policy import Policy
from tests.api.caller import Api
from tests.life.installation import Backup, Installation
from tests.life.model import Model, Remembered
from tests.service import Tenant

SUBJECTS: Final = (None, "ann", "bob", "carol", "dave")
THREADS: Final = (None, "harbour", "quay")
TAGS: Final = ("boat", "decision", "rain", "soup")
ROLES: Final = (None, "user", "assistant")
KINDS: Final = (None, None, None, "semantic", "emotional")
TEXTS: Final = (
    "the red boat lies in the harbour and waits for rain, {}",
    "the blue boat lies in the harbour and waits for rain, {}",
    "a grey cat sleeps on the roof of the kitchen near {}",
    "we ate soup with bread for lunch at {}",
    "the train to {} leaves at nine",
)
MANY: Final = 60
REFRACTORY_SECONDS: Final = 86_400
COMMON: Final[dict[str, Any]] = {
    "reinforcement": {"by_search_share": 1.0, "refractory_seconds": REFRACTORY_SECONDS},
    "consolidation": {"rule": "cohesion", "merged_from": 1.0, "asked_from": 0.5, "at_night": False},
    "privacy": {"archived_conversation_days": None},
    "history_days": 36_500,
}
POLICIES: Final = tuple(
    Policy.model_validate(COMMON | given)
    for given in (
        {"protection": {"salience_above": 1.0}, "tiers": {"deleted_salience_below": 1.0}},
        {"protection": {"keep_chance_above": 0.11}},
    )
)
"""Policies of the two tenants: decay alone decides about tiers, or the keep chance, too.

In both, only the best result of a search counts as used, and merges await approval.
"""


class Difference(AssertionError):
    """The service's answer differs from the model's."""


@dataclass
class Person:
    """A tenant, its model, and what it remembers to repeat."""

    tenant: Tenant
    model: Model
    requests: list[tuple[str, Any, list[str]]] = field(default_factory=list)
    counted: dict[tuple[str, str], float] = field(default_factory=dict)
    former: list[tuple[Model, dict[tuple[str, str], float]]] = field(default_factory=list)


class World:
    """The two tenants, the installation that they share, and the words that are left to give."""

    def __init__(self, api: Api, installation: Installation, seed: str) -> None:
        self.api, self.place, self.seed = api, installation, seed
        self.number = 0
        self.codes = 0
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        """Numbers of operations and of outcomes, by name."""
        self.trail: list[str] = []
        self.backup: Backup | None = None
        self.people: list[Person] = []
        for policy in POLICIES:
            tenant = api.service.tenant(policy)
            since = api.service.one(
                "SELECT extract(epoch FROM effective_at)::float8 FROM policies WHERE tenant_id = %s", tenant.tenant_id
            )
            self.people.append(Person(tenant, Model(eras=[(1, since, policy)])))
        self.self = self.people[0]

    @property
    def model(self) -> Model:
        return self.self.model

    def call(self, method: str, path: str, *expected: int, **given: Any) -> httpx.Response:
        """Send a request of the present tenant, and check that its status is one of those expected (200 if none)."""
        answer = self.api.request(method, path, key=self.self.tenant.key, **given)
        if method != "GET":
            sent = given.get("json", given.get("params", ""))
            self.trail.append(f"{self.people.index(self.self)} {method} {path} {sent} {answer.status_code}"[:300])
        if answer.status_code not in (expected or (200,)):
            raise Difference(f"{method} {path} {given}: {answer.status_code} {answer.text}, expected {expected or 200}")
        return answer

    def word(self) -> str:
        """Return a word that no memory has had, which no number can contain, not even as hexadecimal digits."""
        self.codes += 1
        number, letters = self.codes, ""
        while number:
            number, rest = divmod(number, 20)
            letters += "bcdfghjklmnprstvwxyz"[rest]
        return f"qz{letters}q"

    def text(self) -> tuple[str, str]:
        """Return a word of its own and a text with it."""
        code = self.word()
        return code, self.chance.choice(TEXTS).format(code)

    def pick(self, *, tier: str | None = None, number: int = 1) -> list[Remembered]:
        """Return distinct visible memories by chance; none if there are too few."""
        among = [each for each in self.model.visible().values() if tier in {None, each.tier} and not each.is_lost]
        return self.chance.sample(among, number) if len(among) >= number else []

    def new_memory(self) -> tuple[str, dict[str, Any]]:
        """Return a memory to send and its word."""
        code, text = self.text()
        given: dict[str, Any] = {"text": text, "subject": self.chance.choice(SUBJECTS)}
        given |= {"thread": self.chance.choice(THREADS), "kind": self.chance.choice(KINDS)}
        if self.chance.random() < 0.4:
            given["tags"] = self.chance.sample(TAGS, self.chance.choice((1, 1, 2)))
        if self.chance.random() < 0.3:
            given["metadata"] = {"code": code, "number": self.codes}
        if self.chance.random() < 0.4:
            given["salience"] = self.chance.choice((0.0, 0.05, 0.5, 1.0))
        if self.chance.random() < 0.2:
            given["multiplier"] = self.chance.choice((0.5, 1.5))
        if self.chance.random() < 0.3:
            given["role"] = self.chance.choice(ROLES)
        if self.chance.random() < 0.2:
            given["external_id"] = f"key {code}"
        return code, {name: value for name, value in given.items() if value is not None}

    def learn(self, memory_id: str, code: str, given: dict[str, Any], at: float | None = None) -> Remembered:
        """Add a memory that was accepted to the model."""
        fields = {
            "text": given["text"],
            **{name: given.get(name) for name in ("subject", "thread", "kind", "role", "external_id", "speaker")},
            "tags": given.get("tags", []),
            "metadata": given.get("metadata", {}),
        }
        return self.model.accept(
            memory_id, code, fields, at or moment_of(memory_id), given.get("salience"), given.get("multiplier", 1.0)
        )

    def count_outcome(self, outcome: str) -> None:
        """Count an outcome, for the summary of a life."""
        self.done[outcome] += 1

    def settle(self) -> None:
        """Do all pending work, and learn the salience of memories whose text was scored."""
        self.place.work()
        for person in self.people:
            for erasure in [each for each in person.model.erasures.values() if each.status == "held"]:
                person.model.finish(erasure)  # a memory that came to match since is erased unless a hold covers it
            if unscored := [memory for memory in person.model.visible().values() if not memory.is_scored]:
                self.learn_scores(person, unscored)

    def learn_scores(self, person: Person, memories: Sequence[Remembered]) -> None:
        """Take the salience of scored memories from their rows: how a text is scored is the subject of other tests."""
        rows = self.api.service.rows(
            "SELECT memory_id::text, salience, kind, salience_source FROM memory_state "
            "WHERE tenant_id = %s AND memory_id = ANY (%s)",
            person.tenant.tenant_id,
            [UUID(memory.id) for memory in memories],
        )
        scored = {memory_id: found for memory_id, *found in rows}
        for memory in memories:
            salience, kind, source = scored.get(memory.id, (None, None, None))
            if salience is None or kind is None:
                state = "no salience" if memory.id in scored else "no row"
                raise Difference(f"memory {memory.id} has {state} after all work is done: {self.describe_work()}")
            if (source == "caller") != memory.is_rated_by_caller:
                raise Difference(f"the salience of {memory.id} is from {source}")
            person.model.change_inputs(memory, time.time(), salience=salience, kind=kind)
            memory.is_scored = True

    def learn_chances(self) -> None:
        """Take the stored keep chances of the present tenant, which change with the turns around a memory."""
        rows = self.api.service.rows(
            "SELECT memory_id::text, keep_chance FROM memory_state WHERE tenant_id = %s", self.self.tenant.tenant_id
        )
        chances = dict(rows)
        for memory in self.model.memories.values():
            memory.keep_chance = chances.get(memory.id)

    def describe_work(self) -> str:
        """Return what is pending and dead, for a message."""
        rows = self.api.service.rows
        pending = rows("SELECT stage, memory_ids, attempts FROM tenant_work")
        letters = rows("SELECT stage, reason, memory_ids FROM dead_letters")
        return f"pending {pending}, dead letters {letters}, backlog {self.api.service.backlog()}"

    def describe(self, memory_id: str) -> str:
        """Return what the service and the models have about a memory, for the output of a failure."""
        tables = ("memories", "memory_state", "memory_words", "hidden_memories", "cold_memories", "lineage")
        rows = {
            table: self.api.service.rows(
                f"SELECT to_jsonb(one) FROM {table} AS one WHERE memory_id = %s",  # noqa: S608 - constants
                UUID(memory_id),
            )
            for table in tables
        }
        rows |= {
            table: self.api.service.rows(
                f"SELECT to_jsonb(one) FROM {table} AS one WHERE %s IN (memory_id, superseded_id)",  # noqa: S608 - constants
                UUID(memory_id),
            )
            for table in ("supersessions", "hidden_supersessions")
        }
        erasures = self.api.service.rows("SELECT erasure_id, kind, status, scope, cut FROM erasures")
        models = [person.model.memories.get(memory_id) for person in self.people]
        expected = [person.model.erasures for person in self.people]
        pairs = [(pair, status) for person in self.people for pair, status in person.model.supersessions.items()]
        related = [(pair, status) for pair, status in pairs if memory_id in pair]
        return (
            f"{memory_id}: rows {rows}, erasures {erasures}, models {models}, their erasures {expected}, "
            f"their supersessions {related}"
        )

    def count_use(self, memory: Remembered, session: str) -> None:
        """Let a use count in the model unless its session used the memory within the refractory period."""
        now = time.time()
        last = self.self.counted.get((memory.id, session))
        if last is None or now - last >= REFRACTORY_SECONDS:
            self.self.counted[memory.id, session] = now
            self.model.use(memory, now)

    def advance(self, days: int) -> None:
        """Move the clock on."""
        self.place.advance(days)
        for person in self.people:
            person.model.shift(days)
            person.counted = {key: at - days * 86_400 for key, at in person.counted.items()}


def moment_of(memory_id: str) -> float:
    """Return the moment in an id, in seconds since 1970."""
    return int(UUID(memory_id).hex[:12], 16) / 1000


def weighted(chance: random.Random, ways: Sequence[tuple[int, Any]]) -> Any:
    """Choose one of the ways by their weights."""
    return chance.choices([way for _, way in ways], [weight for weight, _ in ways])[0]
