"""Turn the functions of `operations`, which build the requests, into methods of both clients.

A method has the signature and docstring of its function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ebbing_client.call import Call

P = ParamSpec("P")
T = TypeVar("T")


class Sends(Protocol):
    """A client that sends calls and waits for the results."""

    def send(self, call: Call[T]) -> T:
        """Send a call and return its result."""


class SendsAsync(Protocol):
    """A client that sends calls without blocking."""

    async def send(self, call: Call[T]) -> T:
        """Send a call and return its result."""


def blocking(build: Callable[P, Call[T]]) -> Callable[Concatenate[Sends, P], T]:
    """Return a method that sends the call which the function builds."""

    def method(client: Sends, /, *args: P.args, **given: P.kwargs) -> T:
        return client.send(build(*args, **given))

    _document(method, build)
    return method


def awaiting(build: Callable[P, Call[T]]) -> Callable[Concatenate[SendsAsync, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that sends the call which the function builds."""

    async def method(client: SendsAsync, /, *args: P.args, **given: P.kwargs) -> T:
        return await client.send(build(*args, **given))

    _document(method, build)
    return method


def _document(method: Any, build: Callable[..., Any]) -> None:
    method.__name__ = method.__qualname__ = build.__name__
    method.__doc__ = build.__doc__
    own = inspect.signature(build)
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([client, *own.parameters.values()])
