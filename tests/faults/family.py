"""Process trees, read from /proc."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the living direct children of a process, oldest first."""
    return sorted(child for child, (parent, state) in _all().items() if parent == pid and state != "Z")


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, from one look at /proc: a look for each of them takes seconds."""
    by_parent: dict[int, list[int]] = defaultdict(list)
    for child, (parent, state) in _all().items():
        if state != "Z":
            by_parent[parent].append(child)
    found = [pid]
    for each in found:
        found += by_parent[each]
    return found[1:]


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
