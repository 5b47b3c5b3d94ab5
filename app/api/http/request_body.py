"""Read request bodies within size and time limits, and decode them into typed structs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from fastapi import Request
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.types import Receive, Scope

from app.domain.ingest import json_input
from app.errors import EbbingError, FieldError, Invalid, TooLarge, Unreadable
from app.settings import settings

T = TypeVar("T")
_DIGITS = 20  # maximum digits of a 64-bit length


class TooSlow(EbbingError):
    """Body that wasn't received within the timeout."""

    status, type, title = 408, "too-slow", "The request body took too long to arrive"


class InvalidHeader(EbbingError):
    """Request header that can't be parsed."""

    status, type, title = 400, "invalid-header", "A request header is invalid"


class Incomplete(EbbingError):
    """Body that ended early: the connection was closed, or a chunk is malformed."""

    status, type, title = 400, "incomplete", "The request body is incomplete"


def _dated(given: str) -> str:
    if given[4:5] != "-":
        raise PydanticCustomError("date", "must be a date or time such as 2026-11-20 or 2026-11-20T18:00:00Z")
    return given


class RouteBody(NamedTuple):
    """Body of a route: the type it is decoded into, and whether it may be empty."""

    shape: Any
    is_optional: bool


DATED = BeforeValidator(_dated)
"""Validator for dates in query parameters; rejects bare numbers, which pydantic would take for Unix times."""


def header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header, decoded as Latin-1; None if it is missing."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


async def read(scope: Scope, receive: Receive) -> bytes:
    """Read the complete body.

    Raises:
        TooLarge: The body or its declared length is over the limit; reading stops.
        Incomplete: The body ended early.
        TooSlow: The body didn't arrive within the timeout.
        Unreadable: The body is compressed, or its declared length isn't a number.
    """
    config = settings()
    limit = config.request_body_max_bytes
    encoding = header(scope, b"content-encoding")
    if encoding not in (None, "", "identity"):
        raise Unreadable("compressed bodies are not supported: send the body uncompressed")
    declared = header(scope, b"content-length")
    if declared is not None:
        if not (declared.isascii() and declared.isdigit() and len(declared) < _DIGITS):
            raise Unreadable("content-length must be a number")
        if int(declared) > limit:
            raise _too_large(int(declared), limit)
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(config.request_body_timeout_seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Incomplete("the connection was closed before the end of the body, or a chunk is malformed")
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise _too_large(size, limit)
                parts.append(part)
                more = message.get("more_body", False)
    except TimeoutError:
        raise TooSlow from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(errors=[FieldError("body", "is too large in bytes", size, limit)])


def decode(body: bytes, shape: type[T]) -> T:
    """Decode a JSON body into a type, and call its method `check_request`, if it has one.

    Raises:
        Unreadable: The body is empty, or isn't JSON in UTF-8.
        Invalid: A field is invalid; the error names the field, the limit and the value.
    """
    if not body:
        raise Unreadable("the body is empty")
    given = json_input.read(body, _decoder(shape))
    check = getattr(given, "check_request", None)
    if check is not None:
        check()
    return given


def check_storable(**names: str | None) -> None:
    """Reject names that can't be stored.

    Raises:
        Invalid: A name contains a NUL character.
    """
    for field, value in names.items():
        if value is not None and "\0" in value:
            raise Invalid(errors=[FieldError(field, "contains a NUL character, which can't be stored")])


BODIES: Final[dict[Callable[..., object], RouteBody]] = {}
"""Types of the bodies that dependencies read, for the OpenAPI description."""


def json_body(shape: type[T], *, is_optional: bool = False) -> Callable[[Request], Awaitable[T]]:
    """Return a FastAPI dependency that reads the body into a type; an empty optional body counts as `{}`."""

    async def read_json(request: Request) -> T:
        body = await read(request.scope, request.receive)
        return decode(body or b"{}" if is_optional else body, shape)

    BODIES[read_json] = RouteBody(shape, is_optional)
    return read_json


def raw_body(shape: object, *, is_optional: bool = False) -> Callable[[Request], Awaitable[bytes]]:
    """Return a FastAPI dependency that reads the body as bytes, for routes that decode it themselves."""

    async def read_bytes(request: Request) -> bytes:
        return await read(request.scope, request.receive)

    BODIES[read_bytes] = RouteBody(shape, is_optional)
    return read_bytes


_looking = Lock()


def _decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Create a decoder, one thread at a time: see `json_input.precompile`."""
    with _looking:
        return msgspec.json.Decoder(shape)
