"""Operations for formulas, with two implementations: NumPy evaluates arrays, SQL compiles text.

PostgreSQL raises an error if a float underflows or overflows, so exponents passed to `exp` are limited, and there is no
power operation: multiply instead. PostgreSQL also folds constants in branches of CASE that are never reached, so no
formula may divide by, or take the logarithm of, an expression that could be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""One number per row of a batch."""

EXPONENT_MIN: Final = -200.0
"""Lower limit of exponents; e^-200 is 1.4e-87, so a product of a few doesn't underflow."""


@dataclass(frozen=True, slots=True)
class Term:
    """An SQL expression, parenthesised where necessary: a float8, a boolean from a comparison, or a timestamp.

    Attributes:
        sql: Text of the expression.
        depth: Nesting depth of the values named by `once` that the expression uses.
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
"""Operand of a formula: array or term."""


class Ops(Protocol[V]):
    """Operations that a formula may use, apart from + - * / and comparisons. Each works row by row."""

    def once(self, name: str, x: V) -> V:
        """Return `x`, evaluated only once in the formula; the name must be unique in the formula."""

    def seconds(self, earlier: V, later: V) -> V:
        """Return the seconds between two moments, in whole microseconds; moments are `timestamptz` in SQL."""

    def exp(self, x: V, floor: float = EXPONENT_MIN) -> V:
        """Return e^max(x, floor). The formula must ensure that x is below 700."""

    def log(self, x: V) -> V:
        """Return the natural logarithm of x, which must be above 0."""

    def minimum(self, x: V, y: V | float) -> V:
        """Return the smaller value."""

    def maximum(self, x: V, y: V | float) -> V:
        """Return the larger value."""

    def where(self, condition: Any, then: V, otherwise: V) -> V:
        """Return `then` where the condition holds and `otherwise` elsewhere; both must be valid for every row."""

    def pick(self, code: V, numbers: Sequence[float]) -> V:
        """Return the number with this index; the code is an integer from 0, and there are two or more numbers."""


class _Numpy:
    """Evaluates formulas over arrays."""

    def once(self, name: str, x: Floats) -> Floats:  # noqa: ARG002 - a Python value is evaluated only once
        return x

    def seconds(self, earlier: Floats, later: Floats) -> Floats:
        # Round to PostgreSQL's microseconds: doubles of this century are off by up to a quarter of a microsecond.
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
    """Compiles one formula to text: pass it to the formula, then pass the result to `text`."""

    def __init__(self) -> None:
        self._named: list[list[str]] = []

    def once(self, name: str, x: Term) -> Term:
        """Name a value, since PostgreSQL doesn't eliminate common subexpressions."""
        if x.depth == len(self._named):
            self._named.append([])
        self._named[x.depth].append(f"{x.sql} AS {name}")
        return Term(name, x.depth + 1)

    def seconds(self, earlier: Term, later: Term) -> Term:
        """See `Ops`; `extract` would return a numeric and take twice as long."""
        return _call("date_part('epoch', {} - {})", later, earlier)

    def exp(self, x: Term, floor: float = EXPONENT_MIN) -> Term:
        """See `Ops`."""
        return _call("exp({})", self.maximum(x, floor))

    def log(self, x: Term) -> Term:
        """See `Ops`."""
        return _call("ln({})", x)

    def minimum(self, x: Term, y: Term | float) -> Term:
        """See `Ops`."""
        return _call("least({}, {})", x, _term(y))

    def maximum(self, x: Term, y: Term | float) -> Term:
        """See `Ops`."""
        return _call("greatest({}, {})", x, _term(y))

    def where(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """See `Ops`."""
        return _call("CASE WHEN {} THEN {} ELSE {} END", condition, then, otherwise)

    def pick(self, code: Term, numbers: Sequence[float]) -> Term:
        """See `Ops`."""
        *firsts, last = (literal(number) for number in numbers)
        whens = " ".join(f"WHEN {place} THEN {number}" for place, number in enumerate(firsts))
        return _call(f"CASE {{}} {whens} ELSE {last} END", code)

    def text(self, formula: Term) -> str:
        """Return the formula as one expression, with a subselect for each depth of named values.

        OFFSET 0 prevents PostgreSQL from inlining the named values.
        """
        source, outer_columns = "", ""
        for depth, values in enumerate(self._named):
            source = f" FROM (SELECT {outer_columns}{', '.join(values)}{source} OFFSET 0) AS at_{depth}"
            outer_columns = f"at_{depth}.*, "
        return f"(SELECT {formula.sql}{source})" if source else formula.sql


NUMPY: Final[Ops[Floats]] = _Numpy()


def literal(number: float) -> str:
    """Return a number as a float8 literal; unquoted, PostgreSQL would parse it as numeric first, which is slow."""
    return f"'{float(number)!r}'::float8"


def _term(value: Term | float) -> Term:
    return value if isinstance(value, Term) else Term(literal(value))


def _call(template: str, *parts: Term) -> Term:
    return Term(template.format(*(part.sql for part in parts)), max(part.depth for part in parts))


def _infix(left: Term | float, sign: str, right: Term | float) -> Term:
    if isinstance(left, Term) and (sign, right) in _IDLE:
        return left
    return _call(f"({{}} {sign} {{}})", _term(left), _term(right))
