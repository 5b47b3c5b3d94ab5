"""Waiting for a condition, always with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


def until(condition: Callable[[], T], what: str, seconds: float = 15) -> T:
    """The first true value of `condition`; fails after so many seconds, saying what didn't come."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(POLL_SECONDS)
    return value
