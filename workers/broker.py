"""Celery's way to Redis, mended where kombu 5.7 ends a worker.

When Redis goes away, a worker gives back what it hasn't acknowledged yet, over a connection that is closed already.
kombu then fails with an `AttributeError`, which Celery takes for a fault of the worker's own. Said as the lost
connection that it is, Celery connects again.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):
    """A channel that knows when its connection is closed."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - kombu's own
        if self.connection is None or self.connection.client is None:
            raise ConnectionResetError("the connection to the broker is closed")
        found: dict[str, Any] = super()._connparams(asynchronous)
        return found


class Transport(redis.Transport):
    """`broker_transport` of the workers."""

    Channel = Channel
