"""Find every fault of a refused request body; only the slow path of refusals does this work.

The decoder stops at the first fault. This module compares the parsed JSON with the declared type instead, and lists
unknown, missing and invalid fields with their limits and values. Values are lengths or numbers, never text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

import msgspec

from app.domain.ingest.near_names import suggest_field
from app.errors import EMPTY, UNKNOWN_FIELD, FieldError, Invalid

LISTED_MAX: Final = 20
"""Maximum number of faults that an error lists."""
COUNTED_MAX: Final = 1_000
"""The search for faults stops at this number, so that a large body of faults costs little."""

ITEMS_MAX: Final = 5_000
"""Maximum number of items of a list that are searched for faults."""

_NAME_MAX_CHARACTERS: Final = 512  # maximum length of an unknown field's name in errors
_UNNAMED: Final = re.compile(
    r"^Object (?P<what>contains unknown|missing required) field `(?P<name>.*?)`( - at |$)", re.DOTALL
)
_PATH: Final = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_LIMIT: Final = re.compile(r"(?P<length>length )?(?P<bound><=|>=|<|>) (?P<limit>[-\d.]+)$")
_OUT_OF_BOUNDS: Final = {
    (True, "<"): "is too long",
    (True, ">"): "is too short",
    (False, "<"): "is too large",
    (False, ">"): "is too small",
}
_WRONG_TYPE: Final = ("Expected", "Invalid UUID", "Invalid RFC3339")
_NUL: Final = "contains a NUL character, which can't be stored"
_NOUNS: Final = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    datetime: ("a time such as 2026-11-20T18:00:00Z", "times such as 2026-11-20T18:00:00Z"),
    UUID: ("an id (a UUID)", "ids (UUIDs)"),
    dict: ("an object", "objects"),
}


class BodyFaults:
    """Collector of the faults of one body."""

    def __init__(self) -> None:
        """Start without faults."""
        self._listed: list[FieldError] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Return whether so many faults were counted that the search stops."""
        return self._count >= COUNTED_MAX

    def add(self, errors: Iterable[FieldError], path: str = "") -> None:
        """Add faults found under a path."""
        for error in errors:
            self._count += 1
            if len(self._listed) < LISTED_MAX:
                field = _join(path, error.field)
                given = (error.message, error.value, error.limit, error.suggestion)
                self._listed.append(FieldError(field or "body", *given))

    def refusal(self) -> Invalid | None:
        """Return the error for the faults, or None if there are none."""
        return Invalid(errors=self._listed, omitted=self._count - len(self._listed)) if self._count else None

    def compare(self, value: object, kind: Any, path: str = "") -> bool:
        """Compare a parsed value with a type and add its faults. Returns True if it has none."""
        if self.is_full:
            return False
        try:
            msgspec.convert(value, kind)
        except Invalid as refused:  # raised by a struct's own checks, which run once all its fields are valid
            self.add(refused.errors, path)
        except msgspec.ValidationError as error:
            before = self._count
            self._descend(value, kind, path)
            if self._count == before:
                message = str(error)
                self.add([describe_fault(message) if _UNNAMED.match(message) else _leaf(message, value, kind)], path)
        else:
            return True
        return False

    def _descend(self, value: object, kind: Any, path: str) -> None:
        """Add the faults of a value's fields or items, if it has the form of its type."""
        for member in _members(kind):
            base = _bare(member)
            if isinstance(value, dict) and _is_struct(base):
                self._compare_fields(value, base, path)
                return
            if isinstance(value, list) and get_origin(base) in (list, tuple) and _has_length(value, member):
                [item_kind, *_] = get_args(base)
                for place, item in enumerate(value[:ITEMS_MAX]):
                    self.compare(item, item_kind, f"{path}[{place}]")
                return

    def _compare_fields(self, given: dict[str, object], struct: type[msgspec.Struct], path: str) -> None:
        known = {field.encode_name: field for field in msgspec.structs.fields(struct)}
        missing = [name for name in known if name not in given]
        suggested = set()
        if struct.__struct_config__.forbid_unknown_fields:
            for name in [name for name in given if name not in known]:
                near = suggest_field(name, missing)
                suggested.add(near)
                shown = name[:_NAME_MAX_CHARACTERS]
                self.add([FieldError(f"{path}.{shown}" if path else shown, UNKNOWN_FIELD, suggestion=near)])
        for name, field in known.items():
            if name in given:
                self.compare(given[name], _settable(field.type), _join(path, name))
            elif field.required and name not in suggested:
                self.add([FieldError(name, "is missing")], path)


def describe_fault(message: str) -> FieldError:
    """Return the fault in a decoder's message, without a value, for a body that can't be parsed as a whole."""
    if named := _UNNAMED.search(message):
        path = _PATH.search(message)
        name = _join(path["path"] if path else "", named["name"][:_NAME_MAX_CHARACTERS])
        return FieldError(name.lstrip("."), UNKNOWN_FIELD if named["what"].startswith("contains") else "is missing")
    found = _leaf(message, None, None)
    return FieldError(found.field or "body", found.message, found.value, found.limit)


def _leaf(message: str, value: object, kind: Any) -> FieldError:
    """Convert msgspec's message about a value to an error; its text is never quoted."""
    inside = _PATH.search(message)
    path = inside["path"].lstrip(".") if inside else ""
    reason = message[: inside.start()] if inside else message
    if bound := _LIMIT.search(reason):
        return _out_of_bounds(path, bound, value)
    if reason.startswith("Invalid enum value"):  # msgspec quotes the value, which may be anything
        reason = f"isn't one of {', '.join(_words(kind)) or 'the values allowed here'}"
    elif "matching regex" in reason:
        reason = _NUL if isinstance(value, str) and "\0" in value else "must not be blank"
    elif "timezone component" in reason:
        reason = "needs an offset, such as Z"
    elif kind is not None and not path and reason.startswith(_WRONG_TYPE):
        reason = f"must be {_noun(kind)}"
    else:
        reason = reason[:1].lower() + reason[1:].replace("`", "")
    return FieldError(path, reason)


def _out_of_bounds(path: str, bound: re.Match[str], value: object) -> FieldError:
    number = float(bound["limit"])
    limit = int(number) if number.is_integer() else number
    length = len(value) if isinstance(value, str | list | dict) else None
    if length == 0 and limit == 1:
        return FieldError(path, EMPTY, 0, 1)
    measured = value if isinstance(value, int | float) and not bound["length"] else length
    return FieldError(path, _OUT_OF_BOUNDS[bool(bound["length"]), bound["bound"][0]], measured, limit)


def _noun(kind: Any, *, plural: bool = False) -> str:
    """Return a type in words."""
    names = []
    for member in _members(kind):
        base = _bare(member)
        origin = get_origin(base)
        if origin in (list, tuple):
            [item, *_] = get_args(base)
            names.append(f"{'lists' if plural else 'a list'} of {_noun(item, plural=True)}")
        elif origin is Literal:
            names.append(f"one of {', '.join(map(str, get_args(base)))}")
        elif base is NoneType:
            continue
        else:
            known = _NOUNS.get(dict if origin is dict or _is_struct(base) else base, ("another value", "other values"))
            names.append(known[plural])
    return " or ".join(dict.fromkeys(names)) or "null"


def _words(kind: Any) -> list[str]:
    """Return the words that a type allows."""
    words: list[str] = []
    for member in _members(kind):
        base = _bare(member)
        if get_origin(base) is Literal:
            words += map(str, get_args(base))
    return words


def _members(kind: Any) -> list[Any]:
    """Return the members of a union, or the type itself."""
    base = _bare(kind)
    if get_origin(base) in (Union, UnionType):
        return [inner for member in get_args(base) for inner in _members(member)]
    return [kind]


def _bare(kind: Any) -> Any:
    """Return a type without its annotations."""
    return _bare(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


def _settable(kind: Any) -> Any:
    """Return a field's type without the mark of an omitted field, which a body can't contain."""
    members = [member for member in _members(kind) if _bare(member) is not msgspec.UnsetType]
    return kind if len(members) == len(_members(kind)) else Union[tuple(members)]  # noqa: UP007 - built at run time


def _is_struct(base: Any) -> bool:
    return isinstance(base, type) and issubclass(base, msgspec.Struct)


def _has_length(value: list[object], kind: Any) -> bool:
    """Return whether a list has an allowed number of items."""
    metas = [meta for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta)]
    return all(
        (meta.min_length is None or len(value) >= meta.min_length)
        and (meta.max_length is None or len(value) <= meta.max_length)
        for meta in metas
    )


def _join(path: str, field: str) -> str:
    return f"{path}.{field}" if path and field and not field.startswith("[") else path + field
