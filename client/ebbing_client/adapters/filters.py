"""Compare values with filters of the form that LangGraph's stores share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ebbing_client.call import encode

PUSHED_MAX_BYTES: Final = 4 * 1024
"""Maximum size of a filter by metadata that the service accepts."""


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison that is false for values without an order, such as a text and a number."""

    def compare_ordered(value: object, limit: object) -> bool:
        numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (value, limit))
        return (numbers or (isinstance(value, str) and isinstance(limit, str))) and compare(value, limit)

    return compare_ordered


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": lambda value, given: bool(value == given),
    "$ne": lambda value, given: bool(value != given),
    "$gt": _ordered(lambda value, limit: bool(value > limit)),
    "$gte": _ordered(lambda value, limit: bool(value >= limit)),
    "$lt": _ordered(lambda value, limit: bool(value < limit)),
    "$lte": _ordered(lambda value, limit: bool(value <= limit)),
}


def check_filter(given: Mapping[str, Any]) -> None:
    """Refuse operators that don't exist.

    Raises:
        ValueError: The filter has an unknown operator, or mixes operators and fields in one object.
    """
    for condition in given.values():
        if not isinstance(condition, Mapping):
            continue
        operators = [name for name in condition if isinstance(name, str) and name.startswith("$")]
        if unknown := sorted(set(operators) - _OPERATORS.keys()):
            raise ValueError(f"unknown operator {unknown[0]!r} in filter: use one of {', '.join(_OPERATORS)}")
        if operators and len(operators) < len(condition):
            raise ValueError("a filter's object has either operators or fields, not both")
        check_filter({} if operators else condition)


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return true if each field of the filter matches; a missing field is None."""
    return all(_is_match(value.get(name), condition) for name, condition in wanted.items())


def _is_match(value: Any, condition: Any) -> bool:
    if isinstance(condition, Mapping) and condition:
        if all(isinstance(name, str) and name.startswith("$") for name in condition):
            return all(_OPERATORS[name](value, given) for name, given in condition.items())
        return isinstance(value, Mapping) and matches(value, condition)
    if isinstance(condition, (list, tuple)):
        return (
            isinstance(value, list)
            and len(value) == len(condition)
            and all(_is_match(one, other) for one, other in zip(value, condition, strict=True))
        )
    return bool(value == condition)


def exact_part(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that must equal a text, number or boolean: the service can filter by them.

    `matches` is still needed for other conditions, and if the service would refuse the filter: then no fields are
    returned.
    """
    given: dict[str, Any] = {}
    for name, condition in wanted.items():
        equal = condition.get("$eq") if isinstance(condition, Mapping) else condition
        if isinstance(equal, (str, int, float)):
            given[name] = equal
    content = encode(given)
    return {} if b"\\u0000" in content or len(content) > PUSHED_MAX_BYTES - 64 else given
