"""Wait for a condition, with a timeout that only a fault reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02
PATIENCE_SECONDS = 300.0  # many times what a busy machine needs; a failing test waits this long


def until(condition: Callable[[], T | None], what: str | Callable[[], object], seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true value of `condition`; on timeout fail with `what`, or with its result if it is callable."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_SECONDS)
    return value


def until_gone(*pids: int) -> None:
    """Wait until processes have ended; zombies count as ended."""
    until(
        lambda: not any(map(_lives, pids)),
        lambda: f"the end of processes {[(pid, _command(pid)) for pid in pids if _lives(pid)]}",
    )


def _command(pid: int) -> str:
    """Return a process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
