"""Durations of tools in this process, by tenant; they contain no arguments and no results."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

TENANTS_MAX: Final = 1_000


@dataclass
class Timing:
    """Number, sum, minimum and maximum of the durations of a tool, in seconds."""

    count: int = 0
    total: float = 0.0
    shortest: float = math.inf
    longest: float = 0.0


_timings: OrderedDict[str, dict[str, Timing]] = OrderedDict()
_lock = threading.Lock()


def add(owner: str, tool: str, seconds: float) -> None:
    """Add the duration of a call; of more than 1,000 tenants, those that called last are retained."""
    with _lock:
        own = _timings.setdefault(owner, {})
        _timings.move_to_end(owner)
        while len(_timings) > TENANTS_MAX:
            _timings.popitem(last=False)
        timing = own.setdefault(tool, Timing())
        timing.count += 1
        timing.total += seconds
        timing.shortest = min(timing.shortest, seconds)
        timing.longest = max(timing.longest, seconds)


def read(owner: str) -> dict[str, Timing]:
    """Return the durations of a tenant's calls by tool, since the last reset."""
    with _lock:
        return {name: Timing(**vars(timing)) for name, timing in _timings.get(owner, {}).items()}


def reset(owner: str) -> int:
    """Forget the durations of a tenant's calls, and return their number."""
    with _lock:
        return sum(timing.count for timing in _timings.pop(owner, {}).values())
