"""Verify on every new connection that this installation has written to this Redis before.

Redis holds a mark: the installation's epoch, and a time (`beat`) that accepted requests and idle API processes
advance. A Redis that was emptied has no mark, the Redis of another installation has another epoch, and an older copy
has an older beat. The rules are in `app.domain.ingest.redis_identity`. The process registers the check with
`verify_connections`, because the expected mark is in PostgreSQL. Without a registered check, connections aren't
verified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import redis

from app.domain.ingest.redis_identity import Mark

QUEUE_FIELDS: Final = ("epoch", "beat")

Check = Callable[[Mark], str | None]
"""Return the epoch to write to a new installation's Redis, otherwise None; raise `QueueReplaced` to refuse it."""

_check: Check | None = None


class QueueReplaced(redis.RedisError):
    """This installation hasn't written to this Redis, or it is an older copy. The message says what to do."""


def verify_connections(check: Check | None) -> None:
    """Register the check for all connections that this process opens from now on; None disables checks."""
    global _check  # noqa: PLW0603 - state of the process
    _check = check


def registered_check() -> Check | None:
    """Return the registered check; None if connections aren't verified."""
    return _check
