"""Decode incoming JSON into typed values. Errors name every invalid field, its limit and its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from app.domain.ingest.body_faults import BodyFaults, describe_fault
from app.errors import Invalid, Unreadable

T = TypeVar("T")
Format = Literal["json", "ndjson"]

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of the decoder."""

_TRUNCATED: Final = "Input data was truncated"
_PYDANTICS_BOUNDS: Final = ("ge", "gt", "le", "lt", "max_length", "min_length")


def precompile(shape: type[T]) -> type[T]:
    """Make msgspec compile a struct's type information at import; decorate structs without a module-level decoder.

    msgspec compiles a type when it first decodes it. If a second thread decodes the type at that moment, the process
    dies with a segmentation fault (as of 0.22). During a module's import only one thread runs its code.
    """
    msgspec.json.Decoder(shape)
    return shape


def read(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a JSON body.

    Raises:
        Unreadable: The body isn't JSON in UTF-8.
        Invalid: Fields are invalid; the error contains each field's name, limit and value; the value is never text.
    """
    return _attempt(decoder.decode, body, decoder.type, "json")


def read_lines(body: bytes, decoder: msgspec.json.Decoder[T]) -> list[T]:
    """Decode a body of JSON lines; errors as for `read`."""
    return _attempt(decoder.decode_lines, body, list[decoder.type], "ndjson")  # type: ignore[name-defined]  # a value


def parse(body: bytes, form: Format) -> Any:
    """Parse a body that was decoded before into plain values: lists, dicts, texts and numbers."""
    return msgspec.json.Decoder().decode_lines(body) if form == "ndjson" else msgspec.json.decode(body)


def reword_error(found: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error, reworded in this API's style."""
    message = str(found["msg"]).removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}".removeprefix("input ")


def violated_limit(found: Mapping[str, Any]) -> float | None:
    """Return the limit that a pydantic error reports as violated."""
    context = found.get("ctx", {})
    return next((context[name] for name in _PYDANTICS_BOUNDS if name in context), None)


def describe_undecodable(error: Exception, size: int) -> Invalid | Unreadable:
    """Return the error for a body of this size from the decoder's exception, which names at most one field."""
    if isinstance(error, msgspec.ValidationError):
        return Invalid(errors=[describe_fault(str(error))])
    if isinstance(error, UnicodeDecodeError):
        return Unreadable("the body isn't UTF-8")
    if isinstance(error, RecursionError):
        return Unreadable("the JSON is nested too deeply")
    if str(error) == _TRUNCATED:
        return Unreadable(f"Incomplete JSON (ended at byte {size})")
    return Unreadable(str(error).replace("JSON is malformed", "Malformed JSON"))


def _attempt(decode: Callable[[bytes], T], body: bytes, shape: Any, form: Format) -> T:
    try:
        return decode(body)
    except UNDECODABLE as error:
        first = describe_undecodable(error, len(body))
        raise (_find_faults(body, shape, form) or first if isinstance(first, Invalid) else first) from None


def _find_faults(body: bytes, shape: Any, form: Format) -> Invalid | None:
    """Return the error for all faults of a body; None if it can't be parsed as a whole, or no fault is found."""
    try:
        value = parse(body, form)
    except UNDECODABLE:
        return None
    faults = BodyFaults()
    faults.compare(value, shape)
    return faults.refusal()
