"""Reading a request's body within its limits of size and time, and decoding it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from fastapi import Request
from starlette.types import Message, Receive, Scope

from app.domain.memory import field_error
from app.errors import EbbingError, FieldError, Invalid, TooLarge, Unreadable
from app.settings import settings

T = TypeVar("T")


class TooSlow(EbbingError):
    """The body took too long to arrive."""

    status, type, title = 408, "too-slow", "The body took too long to arrive"


class Gone(Exception):
    """The client closed the connection before its body was complete."""


def header(scope: Scope, name: bytes) -> str | None:
    """A header's value, None where it is missing. Latin-1, as HTTP has it."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


async def read(scope: Scope, receive: Receive) -> bytes:
    """The whole body.

    Raises:
        TooLarge: It is, or says it is, over the limit; nothing more of it is read.
        TooSlow: It didn't arrive in time.
        Unreadable: It is compressed, or its length isn't a number.
    """
    config = settings()
    limit = config.request_body_max_bytes
    encoding = header(scope, b"content-encoding")
    if encoding not in (None, "", "identity"):
        raise Unreadable("compressed bodies aren't taken: send it as it is")
    declared = header(scope, b"content-length")
    if declared is not None:
        if not declared.isdigit():
            raise Unreadable("content-length isn't a number")
        if int(declared) > limit:
            raise _too_large(int(declared), limit)
    message = await _next(receive, config.request_body_timeout_seconds)
    if not message.get("more_body"):
        return _checked(message.get("body", b""), limit)
    parts, size = [message.get("body", b"")], len(message.get("body", b""))
    try:
        async with asyncio.timeout(config.request_body_timeout_seconds):
            while message.get("more_body"):
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit:
                    raise _too_large(size, limit)
    except TimeoutError:
        raise TooSlow from None
    return b"".join(parts)


async def _next(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise TooSlow from None
    if message["type"] == "http.disconnect":
        raise Gone
    return message


def _checked(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(len(body), limit)
    return body


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(errors=[FieldError("body", "is too large in bytes", size, limit)])


async def body_of(request: Request) -> bytes:
    """The body, for routes that FastAPI calls."""
    return await read(request.scope, request.receive)


def decode(body: bytes, shape: type[T]) -> T:
    """A JSON body as a value of the shape.

    Raises:
        Unreadable: It isn't JSON in UTF-8.
        Invalid: A field is wrong; names it, its limit and its value.
    """
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise Invalid(errors=[field_error(str(error), body, "json")]) from None
    except UnicodeDecodeError:
        raise Unreadable("the body isn't UTF-8") from None
    except RecursionError:
        raise Unreadable("the JSON is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from None
