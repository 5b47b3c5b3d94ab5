"""Ask Redis without waiting for long: for probes, and for what a page can do without."""

from __future__ import annotations

from functools import cache
from typing import Final

import redis

from app.clients.redis.connection import connect

TIMEOUT_SECONDS: Final = 3.0
"""Timeout of a reply: far longer than a busy Redis needs, and short for a reader of the answer."""


@cache
def probe_client() -> redis.Redis:
    """Return the process's client for probes, which repeats a command only if its connection was closed."""
    return connect(TIMEOUT_SECONDS, repeats_after_timeout=False)
