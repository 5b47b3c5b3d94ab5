"""Waiting for a condition, with a bound that only a fault reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02
PATIENCE_SECONDS = 300.0  # many times what a busy machine takes; a test that fails waits as long


def until(condition: Callable[[], T | None], what: str | Callable[[], object], seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true value of `condition`; fail after so many seconds with `what` didn't come, or its result."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_SECONDS)
    return value


def until_gone(*pids: int) -> None:
    """Wait until processes have ended; one that nobody has reaped yet counts as ended."""
    until(lambda: not any(map(_lives, pids)), lambda: f"the end of processes {[pid for pid in pids if _lives(pid)]}")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
