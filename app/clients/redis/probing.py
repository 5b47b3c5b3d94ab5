"""A Redis client with a short timeout, for health probes and for checks that a page can omit."""

from __future__ import annotations

from functools import cache
from typing import Final

import redis

from app.clients.redis.connection import connect

TIMEOUT_SECONDS: Final = 3.0
"""Timeout of a reply: far longer than a busy Redis needs, and short enough for a person who waits for the answer."""


@cache
def probe_client() -> redis.Redis:
    """Return the process's client for probes, which repeats a command only if its connection was closed."""
    return connect(TIMEOUT_SECONDS, repeats_after_timeout=False)
