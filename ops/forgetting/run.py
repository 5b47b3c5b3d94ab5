"""Measure a dataset: live each conversation under each model of uses and each profile, and draw the curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ops.forgetting import curves
from ops.forgetting.asking import AskedTenant, ask_tenant
from ops.forgetting.curves import SHARES, Bools, Floats, Order
from ops.forgetting.life import Life, Plan, Usage, Worth
from ops.recall.dataset import Conversation, Question, Size

Say = Callable[[str, float], object]
"""Progress callback: receives what is done now, and the share done of it, 0 to 1."""

FOUND, KEPT = "found", "kept"
"""Measures of a curve: shares of each question's evidence, found by a search or kept."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The profiles, models of uses and questions of a measurement.

    Attributes:
        profiles: Names of profiles.
        usages: Models of uses.
        left_out: Categories of questions to leave out.
        checks: Points of the curves per conversation to repeat with tenants that store only the kept memories.
    """

    plan: Plan
    profiles: Sequence[str]
    usages: Sequence[Usage]
    left_out: Sequence[str] = ()
    checks: int = 0

    def questions(self, conversation: Conversation) -> list[Question]:
        """Return the questions that count: those with evidence whose category isn't left out."""
        return [question for question in conversation.asked() if question.category not in self.left_out]


@dataclass(slots=True)
class Own:
    """The memories of a conversation that a profile's policy leaves.

    Attributes:
        active: Number of active memories, summaries included.
        kept: Share of each question's evidence that is active, shape (q,).
        found: Share of each question's evidence found, shape (q,).
        by_curve: Like `found`, if the curve's ranking over the active memories is asked instead of the tenant.
    """

    active: int
    kept: Floats
    found: Floats
    by_curve: Floats


@dataclass(slots=True)
class Talk:
    """The measures of one conversation under one model of uses.

    Attributes:
        memories: Number of memories.
        reference: Share of each question's evidence found among all memories, shape (q,).
        methods: By method and measure, shape (shares, q).
        own: By profile.
        checked: Pairs of mean recall@10, by the curve and by a tenant that stores only the kept memories.
    """

    memories: int
    reference: Floats
    methods: dict[str, dict[str, Floats]] = field(default_factory=dict)
    own: dict[str, Own] = field(default_factory=dict)
    checked: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Measured:
    """The measures of a dataset, by model of uses."""

    talks: dict[Usage, list[Talk]]
    size: Size = field(default_factory=Size)
    notes: list[str] = field(default_factory=list)


def measure(conversations: Iterable[Conversation], wanted: Measure, say: Say) -> Measured:
    """Measure the conversations that have a question that counts.

    Raises:
        NightFailed: A step of a night failed.
        OSError: The dataset is unreadable.
        ValueError: A part of the dataset has another format.
    """
    measured = Measured({usage: [] for usage in wanted.usages})
    for conversation in conversations:
        questions = wanted.questions(conversation)
        if not questions:
            continue
        for usage, talk in _measure_talk(conversation, questions, wanted, say).items():
            measured.talks[usage].append(talk)
        measured.size.add(conversation)
        measured.notes += [f"{conversation.conversation}: {note}" for note in conversation.notes]
    return measured


def _measure_talk(
    conversation: Conversation, questions: Sequence[Question], wanted: Measure, say: Say
) -> dict[Usage, Talk]:
    """Return the measures by model of uses; all searches for curves are over one tenant that has used nothing."""
    name = conversation.conversation
    lived = partial(_live, conversation, wanted.plan, say)
    keep_all = lived("none", None)
    asked = AskedTenant(keep_all, questions)
    reference = asked.recall(np.ones(len(keep_all.memories), bool))
    fixed = _fixed_orders(keep_all, asked, wanted.plan.seed)
    seen: dict[bytes, Floats] = {}
    talks = {}
    for usage in wanted.usages:
        talks[usage] = talk = Talk(len(keep_all.memories), reference)
        orders = {}
        for profile in wanted.profiles:
            life = lived(usage, profile)
            orders[profile] = [_order_kept(life.worth)]
            kept = np.array(curves.evidence_kept(asked.evidence, life.worth.active))
            found = ask_tenant(life, questions, asked.evidence)
            talk.own[profile] = Own(life.count_active(), kept, found, asked.recall(life.worth.active))
        used = keep_all if usage == "none" else lived(usage, None)
        orders |= {"lru": [curves.order_by(used.worth.used)], **fixed}
        for number, (method, its_orders) in enumerate(orders.items()):
            say(f"{name}, uses {usage}, curves", number / len(orders))
            talk.methods[method] = curves.mean_curves([_curve(asked, order, seen) for order in its_orders])
    first = talks[wanted.usages[0]]
    for number in range(wanted.checks):
        say(f"{name}, checks", number / wanted.checks)
        kept = _random_part(fixed, wanted.plan.seed + number)
        alone = Life(conversation, keep_all.policy, wanted.plan, f"{name}, check {number}")
        alone.store_all(kept)
        real = ask_tenant(alone, questions, asked.evidence)
        first.checked.append((float(asked.recall(kept).mean()), float(real.mean())))
    return talks


def _live(conversation: Conversation, plan: Plan, say: Say, usage: Usage, profile: str | None) -> Life:
    """Return the conversation after its year under a profile; without a profile, nothing is moved or deleted."""
    name = f"{conversation.conversation}, uses {usage}, {profile or 'keep-all'}"
    life = Life(conversation, plan.profile(profile or "spec"), plan, name)
    life.live(usage, nights=profile is not None, say=lambda share: say(name, share))
    return life


def _order_kept(worth: Worth) -> Order:
    """Return the order in which a policy keeps memories while its target share falls: protected ones by their rank."""
    return curves.order_by(worth.protected, np.where(worth.protected, worth.rank, 0.0), worth.strength)


def _fixed_orders(life: Life, asked: AskedTenant, seed: int) -> dict[str, list[Order]]:
    """Return the orders that don't depend on uses; of `random`, several."""
    chance = np.random.default_rng(seed)
    count = len(life.memories)
    created = np.array([moment.timestamp() for moment in life.moments])
    return {
        "ttl": [curves.order_by(created)],
        "random": [curves.order_by(chance.random(count)) for _ in range(curves.RANDOM_ORDERS)],
        "salience": [curves.order_by(life.worth.salience)],
        "keep_chance": [curves.order_by(life.keep_chances())],
        "oracle": [curves.oracle(asked.evidence, count, chance)],
    }


def _curve(asked: AskedTenant, order: Order, seen: dict[bytes, Floats]) -> dict[str, Floats]:
    """Return the measures for every share of an order; `seen` has what other orders have asked already."""
    found, kept_evidence = [], []
    for share in SHARES:
        kept: Bools = curves.keep(order, share)
        key = kept.tobytes()
        if key not in seen:
            seen[key] = asked.recall(kept)
        found.append(seen[key])
        kept_evidence.append(curves.evidence_kept(asked.evidence, kept))
    return {FOUND: np.array(found), KEPT: np.array(kept_evidence)}


def _random_part(orders: Mapping[str, Sequence[Order]], seed: int) -> Bools:
    """Return the memories kept at a random point of a random order's curve."""
    chance = np.random.default_rng(seed)
    names = list(orders)
    order = orders[names[int(chance.integers(len(names)))]][0]
    return curves.keep(order, SHARES[int(chance.integers(len(SHARES) - 1))])
