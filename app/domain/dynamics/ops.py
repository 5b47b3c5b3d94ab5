"""The operations that formulas are written in: NumPy works them out over arrays, SQL compiles them to text.

PostgreSQL raises an error where a float underflows or overflows, so `exp` never sees an exponent that could, and
there is no power: multiply instead. It also folds constant branches of CASE that are never reached, so no formula
divides by, or takes the logarithm of, anything that could be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""A number for each row of a batch."""

EXPONENT_MIN: Final = -200.0
"""`exp` of anything less is taken as that of this, 1.4e-87: a few of them multiply without underflow."""


@dataclass(frozen=True, slots=True)
class Term:
    """An SQL expression: a float8, a boolean from a comparison, or a moment; in brackets where it needs them.

    Attributes:
        sql: Its text.
        depth: How many values named by `once` stand on one another below it.
    """

    sql: str
    depth: int = 0

    def __add__(self, other: Term | float) -> Term:
        return _infix(self, "+", other)

    def __radd__(self, other: float) -> Term:
        return _infix(other, "+", self)

    def __sub__(self, other: Term | float) -> Term:
        return _infix(self, "-", other)

    def __rsub__(self, other: float) -> Term:
        return _infix(other, "-", self)

    def __mul__(self, other: Term | float) -> Term:
        return _infix(self, "*", other)

    def __rmul__(self, other: float) -> Term:
        return _infix(other, "*", self)

    def __truediv__(self, other: Term | float) -> Term:
        return _infix(self, "/", other)

    def __rtruediv__(self, other: float) -> Term:
        return _infix(other, "/", self)

    def __lt__(self, other: Term | float) -> Term:
        return _infix(self, "<", other)

    def __gt__(self, other: Term | float) -> Term:
        return _infix(self, ">", other)

    def __ge__(self, other: Term | float) -> Term:
        return _infix(self, ">=", other)


_IDLE = {("+", 0.0), ("-", 0.0), ("*", 1.0), ("/", 1.0)}

V = TypeVar("V", Floats, Term)
"""What a formula is made of: arrays or terms."""


class Ops(Protocol[V]):
    """What a formula may use besides + - * / and comparisons. Each works row by row."""

    def once(self, name: str, x: V) -> V:
        """The same, worked out once however often it is used; the name is its own in the formula."""

    def seconds(self, earlier: V, later: V) -> V:
        """From one moment to another, in whole microseconds; moments are `timestamptz` in SQL."""

    def exp(self, x: V, floor: float = EXPONENT_MIN) -> V:
        """e^max(x, floor). The formula sees to it that x stays below 700."""

    def log(self, x: V) -> V:
        """Natural logarithm; x is above 0."""

    def minimum(self, x: V, y: V | float) -> V:
        """The lesser."""

    def maximum(self, x: V, y: V | float) -> V:
        """The greater."""

    def where(self, condition: Any, then: V, otherwise: V) -> V:
        """`then` where the condition holds, `otherwise` elsewhere; both must be fit to be worked out everywhere."""

    def pick(self, code: V, numbers: Sequence[float]) -> V:
        """The number at the place that the code names; a code is an integer from 0, of two or more."""


class _Numpy:
    """Works formulas out over arrays."""

    def once(self, name: str, x: Floats) -> Floats:  # noqa: ARG002 - Python names values itself
        return x

    def seconds(self, earlier: Floats, later: Floats) -> Floats:
        # Doubles of this century are off by up to a quarter of a microsecond, which is PostgreSQL's unit.
        return np.rint((later - earlier) * 1e6) / 1e6

    def exp(self, x: Floats, floor: float = EXPONENT_MIN) -> Floats:
        return np.exp(np.maximum(x, floor))

    def log(self, x: Floats) -> Floats:
        return np.log(x)

    def minimum(self, x: Floats, y: Floats | float) -> Floats:
        return np.minimum(x, y)

    def maximum(self, x: Floats, y: Floats | float) -> Floats:
        return np.maximum(x, y)

    def where(self, condition: Any, then: Floats, otherwise: Floats) -> Floats:
        return np.where(condition, then, otherwise)

    def pick(self, code: Floats, numbers: Sequence[float]) -> Floats:
        return np.asarray(numbers, np.float64)[code.astype(np.intp)]


class Sql:
    """Compiles one formula to text: give it to the formula, then ask for the `text` of what comes out."""

    def __init__(self) -> None:
        self._named: list[list[str]] = []

    def once(self, name: str, x: Term) -> Term:
        """The value under a name; PostgreSQL itself finds no common parts."""
        if x.depth == len(self._named):
            self._named.append([])
        self._named[x.depth].append(f"{x.sql} AS {name}")
        return Term(name, x.depth + 1)

    def seconds(self, earlier: Term, later: Term) -> Term:
        """As in `Ops`; `extract` would answer a numeric, at twice the time."""
        return _call("date_part('epoch', {} - {})", later, earlier)

    def exp(self, x: Term, floor: float = EXPONENT_MIN) -> Term:
        """As in `Ops`."""
        return _call("exp({})", self.maximum(x, floor))

    def log(self, x: Term) -> Term:
        """As in `Ops`."""
        return _call("ln({})", x)

    def minimum(self, x: Term, y: Term | float) -> Term:
        """As in `Ops`."""
        return _call("least({}, {})", x, _term(y))

    def maximum(self, x: Term, y: Term | float) -> Term:
        """As in `Ops`."""
        return _call("greatest({}, {})", x, _term(y))

    def where(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """As in `Ops`."""
        return _call("CASE WHEN {} THEN {} ELSE {} END", condition, then, otherwise)

    def pick(self, code: Term, numbers: Sequence[float]) -> Term:
        """As in `Ops`."""
        *firsts, last = (literal(number) for number in numbers)
        whens = " ".join(f"WHEN {place} THEN {number}" for place, number in enumerate(firsts))
        return _call(f"CASE {{}} {whens} ELSE {last} END", code)

    def text(self, formula: Term) -> str:
        """The formula as one expression, with a subselect a depth of named values.

        OFFSET 0 keeps PostgreSQL from putting the values back in place of their names.
        """
        source, carried = "", ""
        for depth, values in enumerate(self._named):
            source = f" FROM (SELECT {carried}{', '.join(values)}{source} OFFSET 0) AS at_{depth}"
            carried = f"at_{depth}.*, "
        return f"(SELECT {formula.sql}{source})" if source else formula.sql


NUMPY: Final[Ops[Floats]] = _Numpy()


def literal(number: float) -> str:
    """A number as float8; without quotes PostgreSQL would read it as numeric first, which is slow."""
    return f"'{float(number)!r}'::float8"


def _term(value: Term | float) -> Term:
    return value if isinstance(value, Term) else Term(literal(value))


def _call(template: str, *parts: Term) -> Term:
    return Term(template.format(*(part.sql for part in parts)), max(part.depth for part in parts))


def _infix(left: Term | float, sign: str, right: Term | float) -> Term:
    if isinstance(left, Term) and (sign, right) in _IDLE:
        return left
    return _call(f"({{}} {sign} {{}})", _term(left), _term(right))
