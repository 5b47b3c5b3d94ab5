"""Process trees, read from /proc."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the living direct children of a process, oldest first."""
    return sorted(child for child, (parent, state) in _all().items() if parent == pid and state != "Z")


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process."""
    found = children(pid)
    return found + [further for child in found for further in descendants(child)]


def kill(pid: int, forebear: int) -> bool:
    """Kill a process if it still descends from our process `forebear`; return false if it has ended."""
    if pid != forebear and pid not in descendants(forebear):
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _all() -> dict[int, tuple[int, str]]:
    """Return parent and state of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The process name is in parentheses and may contain any character, so split after the last parenthesis.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                found[int(entry.name)] = (int(parent), state)
    return found
