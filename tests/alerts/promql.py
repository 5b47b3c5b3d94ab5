"""Evaluate the subset of PromQL that the rules in `ops/prometheus` use, over scrapes held in a list.

Supports selectors with `=` and `=~`, `rate`, `delta`, `absent`, sums and extremes with `by`, arithmetic, filtering
comparisons and `and`. `rate` and `delta` don't extrapolate as Prometheus does; if promtool is installed, it decides.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

Labels: TypeAlias = frozenset[tuple[str, str]]
Series: TypeAlias = tuple[str, Labels]
Vector: TypeAlias = dict[Labels, float]
Value: TypeAlias = Vector | float

LOOKBACK_SECONDS: Final = 300
_TOKEN: Final = re.compile(r"\s*(>=|<=|==|!=|=~|[A-Za-z_:][A-Za-z0-9_:]*|[0-9.]+[smh]?|\"[^\"]*\"|\S)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_FOLD: Final[dict[str, Callable[[Iterable[float]], float]]] = {"sum": math.fsum, "max": max, "min": min}


@dataclass
class Scrapes:
    """Samples by scrape time, oldest first."""

    taken: list[tuple[float, dict[Series, float]]] = field(default_factory=list)
    _points: dict[str, dict[Labels, list[tuple[float, float]]]] = field(default_factory=dict)

    def add(self, at: float, samples: dict[Series, float]) -> None:
        """Add a scrape; if its time equals the last scrape's, merge the samples into it."""
        if self.taken and self.taken[-1][0] == at:
            self.taken[-1][1].update(samples)
        else:
            self.taken.append((at, samples))
        for (name, labels), value in samples.items():
            self._points.setdefault(name, {}).setdefault(labels, []).append((at, value))

    def within(self, name: str, since: float, until: float) -> dict[Labels, list[tuple[float, float]]]:
        """Return the points of every series of a metric in the interval (since, until]."""
        found = {
            labels: [point for point in points if since < point[0] <= until]
            for labels, points in self._points.get(name, {}).items()
        }
        return {labels: points for labels, points in found.items() if points}


def evaluate(expression: str, scrapes: Scrapes, at: float) -> Value:
    """Return the value of an expression at a time."""
    reader = _Reader(_TOKEN.findall(expression), scrapes, at)
    found = reader.joined()
    assert reader.at_end(), f"not understood: {expression}"
    return found


class _Reader:
    """Recursive-descent parser that evaluates while it reads."""

    def __init__(self, tokens: list[str], scrapes: Scrapes, at: float) -> None:
        self._tokens, self._place, self._scrapes, self._at = tokens, 0, scrapes, at

    def at_end(self) -> bool:
        return self._place == len(self._tokens)

    def joined(self) -> Value:
        left = self._compared()
        while self._takes("and"):
            right = self._compared()
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            left = {labels: value for labels, value in left.items() if labels in right}
        return left

    def _compared(self) -> Value:
        left = self._added()
        if self._peek() not in _COMPARE:
            return left
        holds = _COMPARE[self._next()]
        right = self._added()
        assert isinstance(left, dict)
        assert isinstance(right, float)
        return {labels: value for labels, value in left.items() if holds(value, right)}

    def _added(self) -> Value:
        left = self._multiplied()
        while self._takes("-"):
            left = _matched(operator.sub, left, self._multiplied())
        return left

    def _multiplied(self) -> Value:
        left = self._one()
        while self._peek() in {"*", "/"}:
            left = _matched(operator.mul if self._next() == "*" else _divided, left, self._one())
        return left

    def _one(self) -> Value:
        token = self._next()
        if token == "(":
            found = self.joined()
            self._expect(")")
            return found
        if token[0].isdigit():
            return float(token)
        if token == "time":
            self._expect("(", ")")
            return self._at
        if token in {"absent", "rate", "delta", *_FOLD}:
            return self._called(token)
        points = self._selected(token, self._at - LOOKBACK_SECONDS)
        return {labels: values[-1][1] for labels, values in points.items()}

    def _called(self, name: str) -> Vector:
        if name in _FOLD:
            return self._folded(_FOLD[name])
        self._expect("(")
        if name == "absent":
            found = self._selected(self._next(), self._at - LOOKBACK_SECONDS)
            result: Vector = {} if found else {frozenset(self._wanted_exactly): 1.0}
        else:
            result = self._changed(self._next(), is_rate=name == "rate")
        self._expect(")")
        return result

    def _folded(self, fold: Callable[[Iterable[float]], float]) -> Vector:
        by: set[str] = set()
        if self._takes("by"):
            self._expect("(")
            while not self._takes(")"):
                by.add(self._next())
                self._takes(",")
        self._expect("(")
        found = self.joined()
        self._expect(")")
        assert isinstance(found, dict)
        groups: dict[Labels, list[float]] = {}
        for labels, value in found.items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
        return {labels: fold(values) for labels, values in groups.items()}

    def _changed(self, name: str, *, is_rate: bool) -> Vector:
        matches = self._matchers()
        self._expect("[")
        span = self._next()
        seconds = float(span[:-1]) * _SECONDS[span[-1]]
        self._expect("]")
        found = {}
        for labels, points in self._points(name, matches, self._at - seconds).items():
            (first_at, first), (last_at, last) = points[0], points[-1]
            if last_at > first_at:
                change = last - first
                if is_rate:
                    falls = (a[1] for a, b in pairwise(points) if b[1] < a[1])
                    found[labels] = (change + math.fsum(falls)) / (last_at - first_at)
                else:
                    found[labels] = change / (last_at - first_at) * seconds
        return found

    def _selected(self, name: str, since: float) -> dict[Labels, list[tuple[float, float]]]:
        return self._points(name, self._matchers(), since)

    def _points(
        self, name: str, matches: Callable[[Labels], bool], since: float
    ) -> dict[Labels, list[tuple[float, float]]]:
        found = self._scrapes.within(name, since, self._at)
        return {labels: points for labels, points in found.items() if matches(labels)}

    def _matchers(self) -> Callable[[Labels], bool]:
        wanted: list[tuple[str, re.Pattern[str]]] = []
        self._wanted_exactly: list[tuple[str, str]] = []
        if self._takes("{"):
            while not self._takes("}"):
                label, sign, value = self._next(), self._next(), self._next().strip('"')
                assert sign in {"=", "=~"}, sign
                if sign == "=":
                    self._wanted_exactly.append((label, value))
                wanted.append((label, re.compile(value if sign == "=~" else re.escape(value))))
                self._takes(",")

        def matches(labels: Labels) -> bool:
            held = dict(labels)
            return all(pattern.fullmatch(held.get(label, "")) for label, pattern in wanted)

        return matches

    def _peek(self) -> str:
        return self._tokens[self._place] if not self.at_end() else ""

    def _next(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1]

    def _takes(self, token: str) -> bool:
        taken = self._peek() == token
        self._place += taken
        return taken

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            assert self._takes(token), f"{token} is missing before {self._peek()}"


def _divided(left: float, right: float) -> float:
    return left / right if right else math.nan


def _matched(work: Callable[[float, float], float], left: Value, right: Value) -> Value:
    """Apply an operation to two numbers, or to the series whose labels match."""
    if isinstance(left, float) and isinstance(right, float):
        return work(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return {labels: work(value, right[labels]) for labels, value in left.items() if labels in right}
    if isinstance(left, dict):
        assert isinstance(right, float)
        return {labels: work(value, right) for labels, value in left.items()}
    assert isinstance(right, dict)
    return {labels: work(left, value) for labels, value in right.items()}
