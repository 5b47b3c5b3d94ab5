"""Pass the caller's OpenTelemetry context on, if the library is installed."""

from __future__ import annotations

from collections.abc import Callable

inject: Callable[[dict[str, str]], None] | None
try:
    from opentelemetry.propagate import inject
except ImportError:
    inject = None


def add_context(headers: dict[str, str]) -> None:
    """Add the `traceparent` of the current span, if there is one."""
    if inject is not None:
        inject(headers)
