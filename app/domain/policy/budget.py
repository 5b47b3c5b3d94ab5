"""Budgets as a rule: what tokens cost, how near a day's spending is to its limits, and what is left.

Tokens are those sent and those answered; cached ones count in full as tokens, and at their own price as money.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar

PRICED_TOKENS: Final = 1_000_000
"""What a price is for."""

N = TypeVar("N", int, float)


class State(StrEnum):
    """How much of today's budget is left."""

    OK = "ok"
    SOFT = "soft"
    """Close to a hard limit: said in the log, `/metrics` and `/v1/usage`, nothing else."""
    HARD = "hard"
    """At a hard limit: no model is asked for this tenant until the next day in UTC."""


class Counted(Protocol):
    """Tokens of calls, 0 or more each."""

    @property
    def input_tokens(self) -> int:
        """Tokens sent, cached ones included."""

    @property
    def cached_tokens(self) -> int:
        """Those of them that the provider knew already."""

    @property
    def output_tokens(self) -> int:
        """Tokens answered."""


class Price(Protocol):
    """Money for a million tokens, 0 or more."""

    @property
    def input(self) -> float:
        """For those sent."""

    @property
    def output(self) -> float:
        """For those answered."""

    @property
    def cached(self) -> float | None:
        """For those sent that were cached; None is the same as for the others."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a day has cost so far.

    Attributes:
        tokens: All of them.
        cost: Money for those whose price is known.
        unpriced_tokens: Those whose price isn't known; while there are any, the whole cost is unknown.
    """

    tokens: int = 0
    cost: float = 0.0
    unpriced_tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.unpriced_tokens + other.unpriced_tokens)

    @property
    def known_cost(self) -> float | None:
        """Money for all tokens; None where that isn't known, so that it never looks cheaper than it was."""
        return None if self.unpriced_tokens else self.cost


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits of a day, of a tenant's own spending and of all tenants' together; None is no limit."""

    tokens: int | None = None
    cost: float | None = None
    total_tokens: int | None = None
    total_cost: float | None = None

    @property
    def has_total(self) -> bool:
        """Whether all tenants' spending matters."""
        return not (self.total_tokens is None and self.total_cost is None)

    def within(self, tokens: int | None, cost: float | None) -> Limits:
        """These limits, and a tenant's own where they are smaller."""
        return Limits(_smaller(self.tokens, tokens), _smaller(self.cost, cost), self.total_tokens, self.total_cost)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a tenant has spent today, what all have, and the limits of both."""

    own: Spent
    total: Spent
    limits: Limits


def cost(counted: Counted, price: Price | None) -> float | None:
    """Money for tokens; None where they have no price. No tokens cost nothing at any price."""
    if not (counted.input_tokens or counted.output_tokens):
        return 0.0
    if price is None:
        return None
    cached = min(counted.cached_tokens, counted.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    money = (counted.input_tokens - cached) * price.input + cached * cached_price + counted.output_tokens * price.output
    return money / PRICED_TOKENS


def state(standing: Standing, soft_share: float) -> State:
    """How near the spending is to its limits; the worst of them decides. A limit of 0 is hard at once.

    Tokens without a price don't count towards a limit of money, which can't be held for them.

    Args:
        soft_share: Share of a hard limit from which on it is soft, above 0, at most 1.
    """
    pairs = [(spent, limit) for spent, limit in _against_limits(standing) if limit is not None]
    if any(spent >= limit for spent, limit in pairs):
        return State.HARD
    if any(spent >= soft_share * limit for spent, limit in pairs):
        return State.SOFT
    return State.OK


def without_total(standing: Standing) -> Standing:
    """The same without what concerns all tenants, as a tenant may see it."""
    return Standing(standing.own, Spent(), Limits(standing.limits.tokens, standing.limits.cost))


def left(standing: Standing) -> Limits:
    """What is left of each limit, 0 or more; None where there is no limit, or the cost isn't known."""
    limits = standing.limits
    return Limits(
        _left(standing.own.tokens, limits.tokens),
        _left(standing.own.known_cost, limits.cost),
        _left(standing.total.tokens, limits.total_tokens),
        _left(standing.total.known_cost, limits.total_cost),
    )


def _against_limits(standing: Standing) -> tuple[tuple[float, float | None], ...]:
    limits = standing.limits
    return (
        (standing.own.tokens, limits.tokens),
        (standing.own.cost, limits.cost),
        (standing.total.tokens, limits.total_tokens),
        (standing.total.cost, limits.total_cost),
    )


def _smaller(one: N | None, other: N | None) -> N | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _left(spent: N | None, limit: N | None) -> N | None:
    return None if spent is None or limit is None else limit - min(spent, limit)
