"""Budget rules: the cost of tokens, a day's spending compared with its limits, and the remaining amounts.

Tokens are input and output tokens. Cached tokens count in full towards token limits, and have their own price.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar

PRICED_TOKENS: Final = 1_000_000
"""Number of tokens to which a price refers."""

N = TypeVar("N", int, float)


class BudgetState(StrEnum):
    """Budget status of the current day."""

    OK = "ok"
    SOFT = "soft"
    """Close to a hard limit: reported in the log, `/metrics` and `/v1/usage`, without other effects."""
    HARD = "hard"
    """At a hard limit: no model is called for this tenant until the next day in UTC."""


class TokenCounts(Protocol):
    """Token counts of calls, 0 or more each."""

    @property
    def input_tokens(self) -> int:
        """Input tokens, including cached tokens."""

    @property
    def cached_tokens(self) -> int:
        """Input tokens that the provider had cached."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""


class TokenPrice(Protocol):
    """Prices per million tokens, 0 or more."""

    @property
    def input(self) -> float:
        """Price of input tokens."""

    @property
    def output(self) -> float:
        """Price of output tokens."""

    @property
    def cached(self) -> float | None:
        """Price of cached input tokens; None means the price of other input tokens."""


@dataclass(frozen=True, slots=True)
class DaySpending:
    """Spending of a day so far.

    Attributes:
        tokens: All tokens, priced or not.
        cost: Cost of the tokens with a known price.
        unpriced_tokens: Tokens without a known price; while there are any, the total cost is unknown.
    """

    tokens: int = 0
    cost: float = 0.0
    unpriced_tokens: int = 0

    def __add__(self, other: DaySpending) -> DaySpending:
        return DaySpending(
            self.tokens + other.tokens, self.cost + other.cost, self.unpriced_tokens + other.unpriced_tokens
        )

    @property
    def known_cost(self) -> float | None:
        """Cost of all tokens, or None if some have no price, so that a partial cost isn't taken for the total."""
        return None if self.unpriced_tokens else self.cost


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits per day, for one tenant's spending and for all tenants together; None means no limit."""

    tokens: int | None = None
    cost: float | None = None
    total_tokens: int | None = None
    total_cost: float | None = None

    @property
    def has_total(self) -> bool:
        """Return whether there is a limit for all tenants together."""
        return not (self.total_tokens is None and self.total_cost is None)

    def lower_to(self, tokens: int | None, cost: float | None) -> Limits:
        """Return these limits, lowered to a tenant's own limits where these are smaller."""
        return Limits(_smaller(self.tokens, tokens), _smaller(self.cost, cost), self.total_tokens, self.total_cost)


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """Today's spending of a tenant and of all tenants, with the limits of both."""

    own: DaySpending
    total: DaySpending
    limits: Limits


def token_cost(counted: TokenCounts, price: TokenPrice | None) -> float | None:
    """Return the cost of tokens, or None if they have no price. Zero tokens cost 0 even without a price."""
    if not (counted.input_tokens or counted.output_tokens):
        return 0.0
    if price is None:
        return None
    cached = min(counted.cached_tokens, counted.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    money = (counted.input_tokens - cached) * price.input + cached * cached_price + counted.output_tokens * price.output
    return money / PRICED_TOKENS


def budget_state(standing: BudgetStatus, soft_share: float) -> BudgetState:
    """Return the budget status; the most exhausted limit decides. With a limit of 0, the status is always hard.

    Tokens without a price don't count towards a cost limit, which can't be enforced for them.

    Args:
        soft_share: Share of a hard limit from which the status is soft, above 0, at most 1.
    """
    pairs = [(spent, limit) for spent, limit in _against_limits(standing) if limit is not None]
    if any(spent >= limit for spent, limit in pairs):
        return BudgetState.HARD
    if any(spent >= soft_share * limit for spent, limit in pairs):
        return BudgetState.SOFT
    return BudgetState.OK


def without_total(standing: BudgetStatus) -> BudgetStatus:
    """Return the status without figures about all tenants, for display to a tenant."""
    return BudgetStatus(standing.own, DaySpending(), Limits(standing.limits.tokens, standing.limits.cost))


def remaining(standing: BudgetStatus) -> Limits:
    """Return the remainder of each limit, 0 or more; None if there is no limit or the cost is unknown."""
    limits = standing.limits
    return Limits(
        _subtract(standing.own.tokens, limits.tokens),
        _subtract(standing.own.known_cost, limits.cost),
        _subtract(standing.total.tokens, limits.total_tokens),
        _subtract(standing.total.known_cost, limits.total_cost),
    )


def _against_limits(standing: BudgetStatus) -> tuple[tuple[float, float | None], ...]:
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


def _subtract(spent: N | None, limit: N | None) -> N | None:
    return None if spent is None or limit is None else limit - min(spent, limit)
