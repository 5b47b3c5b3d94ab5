"""Redis transport for Celery with a workaround for kombu 5.7, where a lost connection ends the worker.

When Redis becomes unavailable, a worker returns its unacknowledged messages over a connection that is already closed.
kombu then fails with an `AttributeError`, which Celery treats as a fatal error of the worker. Raising a connection
error instead makes Celery reconnect.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):
    """Channel that raises a connection error if its connection is closed."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - kombu's signature
        if self.connection is None or self.connection.client is None:
            raise ConnectionResetError("the connection to the broker is closed")
        found: dict[str, Any] = super()._connparams(asynchronous)
        return found


class Transport(redis.Transport):
    """`broker_transport` of the workers."""

    Channel = Channel
