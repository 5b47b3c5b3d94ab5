"""Processes and what they have started, read from /proc."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Direct children of a process that are alive, oldest first."""
    return sorted(child for child, (parent, state) in _all().items() if parent == pid and state != "Z")


def descendants(pid: int) -> list[int]:
    """Children, their children and so on."""
    found = children(pid)
    return found + [further for child in found for further in descendants(child)]


def kill(pid: int, forebear: int) -> bool:
    """Kill a process at once, if it still descends from `forebear`, which is ours. False where it is gone."""
    if pid != forebear and pid not in descendants(forebear):
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _all() -> dict[int, tuple[int, str]]:
    """Parent and state of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in brackets may hold anything; what follows the last bracket doesn't.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                found[int(entry.name)] = (int(parent), state)
    return found
