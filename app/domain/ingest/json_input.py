"""Decode incoming JSON into typed values. Errors name the invalid field, its limit and its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import msgspec

from app.errors import FieldError, Invalid, Unreadable

T = TypeVar("T")
Format = Literal["json", "ndjson"]
Choices = Mapping[str, Sequence[str]]
NO_CHOICES: Final[Choices] = MappingProxyType({})

UNKNOWN_FIELD = "isn't a known field"
_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(?P<name>.*)`$")
_LIMIT = re.compile(r"(?P<length>length )?(?P<bound><=|>=|<|>) (?P<limit>[-\d.]+)$")
_OUT_OF_BOUNDS = {
    (True, "<"): "is too long",
    (True, ">"): "is too short",
    (False, "<"): "is too large",
    (False, ">"): "is too small",
}
_PYDANTICS_BOUNDS = ("ge", "gt", "le", "lt", "max_length", "min_length")
_STEP = re.compile(r"\[(\d+)\]|\.([^.\[]+)")
_SHOWN_CHARACTERS = 512  # maximum length of an unknown field's name in errors


def precompile(shape: type[T]) -> type[T]:
    """Make msgspec compile a struct's type information at import; decorate structs without a module-level decoder.

    msgspec compiles a type when it first decodes it. If a second thread decodes the type at that moment, the process
    dies with a segmentation fault (as of 0.22). During a module's import only one thread runs its code.
    """
    msgspec.json.Decoder(shape)
    return shape


def read(body: bytes, decoder: msgspec.json.Decoder[T], choices: Choices = NO_CHOICES) -> T:
    """Decode a JSON body.

    Args:
        body: The raw bytes.
        decoder: Decoder of the expected type.
        choices: Allowed words by field name, for fields with a fixed set of words.

    Raises:
        Unreadable: The body isn't JSON in UTF-8.
        Invalid: A field is invalid; the error contains the field's name, limit and value; the value is never text.
    """
    return _attempt(decoder.decode, body, "json", choices)


def read_lines(body: bytes, decoder: msgspec.json.Decoder[T], choices: Choices = NO_CHOICES) -> list[T]:
    """Decode a body of JSON lines; arguments and errors as for `read`."""
    return _attempt(decoder.decode_lines, body, "ndjson", choices)


def reword_error(found: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error, reworded in this API's style."""
    message = str(found["msg"]).removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}".removeprefix("input ")


def violated_limit(found: Mapping[str, Any]) -> float | None:
    """Return the limit that a pydantic error reports as violated."""
    context = found.get("ctx", {})
    return next((context[name] for name in _PYDANTICS_BOUNDS if name in context), None)


def _attempt(decode: Callable[[bytes], T], body: bytes, form: Format, choices: Choices) -> T:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise Invalid(errors=[_field_error(str(error), body, form, choices)]) from None
    except UnicodeDecodeError:
        raise Unreadable("the body isn't UTF-8") from None
    except RecursionError:
        raise Unreadable("the JSON is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from None


def _field_error(message: str, body: bytes, form: Format, choices: Choices) -> FieldError:
    """Convert msgspec's message to the error of one field.

    The value is a length or a number read from the body, never text.
    """
    path_match = _PATH.search(message)
    path = path_match["path"] if path_match else ""
    reason = message[: path_match.start()] if path_match else message
    if unknown := _UNKNOWN.search(reason):
        name = unknown["name"][:_SHOWN_CHARACTERS]
        return FieldError(f"{path}.{name}".lstrip("."), UNKNOWN_FIELD)
    if missing := _MISSING.search(reason):
        return FieldError(f"{path}.{missing['name']}".lstrip("."), "is missing")
    if reason.startswith("Invalid enum value"):  # msgspec quotes the value, which may be anything
        allowed = choices.get(path.rpartition(".")[2].partition("[")[0], ())
        allowed_names = ", ".join(allowed) or "the values allowed here"
        return FieldError(path.lstrip(".") or "body", f"isn't one of {allowed_names}")
    bound = _LIMIT.search(reason)
    if not bound:
        reason = "needs an offset, such as Z" if "timezone component" in reason else reason[0].lower() + reason[1:]
        return FieldError(path.lstrip(".") or "body", reason.replace("`", ""))
    number = float(bound["limit"])
    return FieldError(
        path.lstrip(".") or "body",
        _OUT_OF_BOUNDS[bool(bound["length"]), bound["bound"][0]],
        _measure(body, form, path),
        int(number) if number.is_integer() else number,
    )


def _measure(body: bytes, form: Format, path: str) -> int | float | None:
    """Return the length or the number at `path` in the body, or None if the body can't be decoded."""
    try:
        value: object = msgspec.json.Decoder().decode_lines(body) if form == "ndjson" else msgspec.json.decode(body)
        for index, name in _STEP.findall(path):
            if index and isinstance(value, list):
                value = value[int(index)]
            elif name and isinstance(value, dict):
                value = value.get(name)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IndexError):
        return None
    if isinstance(value, str | list | dict):
        return len(value)
    return value if isinstance(value, int | float) else None
