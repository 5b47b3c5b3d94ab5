"""Send calls over HTTP: the only part in which the blocking and the asynchronous client differ."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import httpx2

from ebbing_client import tracing
from ebbing_client.call import Answer, Attempts, Call, read_refusal
from ebbing_client.connection import Connection
from ebbing_client.errors import ApiError, EbbingError, ServiceUnreachable

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
# The service closes connections that are idle for 5 seconds: stop using them earlier.
LIMITS: Final = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)
NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Transport:
    """Send calls and wait between attempts; safe to use from several threads."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._http = httpx2.Client(**_options(connection))

    def send(self, call: Call[T], *, is_retried: bool = True) -> T:
        """Send a call, with the retries that `Attempts` describes, and return its result.

        Raises:
            ApiError: The service refused the call.
            ServiceUnreachable: No connection, or no response before the deadline.
        """
        attempts = Attempts(call, self._timeout, is_retried=is_retried)
        while True:
            failure, was_sent = self._try(call, attempts)
            if isinstance(failure, Answer):
                return call.read(failure)
            time.sleep(attempts.wait_after(failure, was_sent=was_sent))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _try(self, call: Call[Any], attempts: Attempts) -> tuple[Answer | EbbingError, bool]:
        try:
            response = self._http.request(**_request(call, attempts.remaining()))
        except httpx2.TransportError as error:
            return describe(error, self._connection, attempts), not isinstance(error, NEVER_SENT)
        return read_response(response), True


class AsyncTransport:
    """Send calls without blocking the event loop."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._http = httpx2.AsyncClient(**_options(connection))

    async def send(self, call: Call[T], *, is_retried: bool = True) -> T:
        """Send a call and return its result, as `Transport.send` does."""
        attempts = Attempts(call, self._timeout, is_retried=is_retried)
        while True:
            failure, was_sent = await self._try(call, attempts)
            if isinstance(failure, Answer):
                return call.read(failure)
            await asyncio.sleep(attempts.wait_after(failure, was_sent=was_sent))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _try(self, call: Call[Any], attempts: Attempts) -> tuple[Answer | EbbingError, bool]:
        try:
            response = await self._http.request(**_request(call, attempts.remaining()))
        except httpx2.TransportError as error:
            return describe(error, self._connection, attempts), not isinstance(error, NEVER_SENT)
        return read_response(response), True


def _options(connection: Connection) -> dict[str, Any]:
    return {
        "base_url": connection.url,
        "headers": {"Authorization": f"Bearer {connection.key}", "User-Agent": "ebbing-client"},
        "limits": LIMITS,
        # Proxy variables of the environment don't apply to a service on this machine.
        "trust_env": not connection.is_local,
        # Loading certificates takes 30 ms; a plain connection needs none.
        "verify": connection.url.startswith("https:"),
    }


def _request(call: Call[Any], seconds: float) -> dict[str, Any]:
    headers = dict(call.headers)
    tracing.add_context(headers)
    return {
        "method": call.method,
        "url": call.path,
        "content": call.content,
        "headers": headers,
        "params": _query(call.params),
        "timeout": httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
    }


def _query(params: Mapping[str, Any]) -> dict[str, Any] | None:
    given = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in params.items()
        if value is not None
    }
    return given or None


def read_response(response: httpx2.Response) -> Answer | ApiError:
    """Return the answer of a successful response, or the service's error."""
    if response.is_success:
        headers = response.headers
        given = headers.get("x-request-id", ""), headers.get("ebbing-position", "")
        return Answer(response.status_code, response.content, *given)
    return read_refusal(response.status_code, response.content, response.headers.get("retry-after"))


def describe(error: httpx2.TransportError, connection: Connection, attempts: Attempts) -> ServiceUnreachable:
    """Return the client's error for a failed connection."""
    if isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout):
        return attempts.passed()
    reason = re.sub(r"^\[Errno \S+\] ", "", str(error)) or type(error).__name__
    return ServiceUnreachable(f"the service at {connection.url} can't be reached ({reason})")
