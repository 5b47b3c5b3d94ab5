"""Other values of a setting: what a test changes to see whether the setting has an effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel


def leaves(settings: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, the value and the declared type of every setting that isn't itself a group of settings."""
    hints = get_type_hints(type(settings))
    names = type(settings).model_fields if isinstance(settings, BaseModel) else [each.name for each in fields(settings)]
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, BaseModel) or is_dataclass(value):
            yield from leaves(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value, hints[name]


def others(value: Any, hint: Any) -> list[Any]:
    """Return values to try in place of one, of which the setting's own check may refuse some."""
    if isinstance(value, bool):
        return [not value]
    if get_origin(hint) is Literal:
        return [other for other in get_args(hint) if other != value]
    if isinstance(value, int):
        return [other for other in (value * 2, value // 2, value + 1, 1, 0) if other != value]
    if isinstance(value, float):
        return [other for other in (value * 2, value / 2, value + 0.1, value - 0.1, 1.0, 0.5, 0.0) if other != value]
    if value is None:
        return [1, 10, 0.5]
    choices = get_args(get_args(hint)[0]) if get_origin(hint) is tuple else ()
    return [[], ["episodic"], *([choice] for choice in choices)]


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the value at its path, as a request has it."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of both, the change's where both have one."""
    joined = dict(base)
    for name, value in change.items():
        former = joined.get(name)
        both = isinstance(value, Mapping) and isinstance(former, Mapping)
        joined[name] = merged(former, value) if both else value  # type: ignore[arg-type]  # `both` says so
    return joined
