"""Named places where a test can make the process die, as a crash at that moment would.

`EBBING_FAILPOINTS=drain.before_settle` kills the process there with SIGKILL. More can be said, in this order:
`name@this` only when it comes there about this, such as an entry; `name*3` only the third time; `name~0.5`
sleeps half a second instead; `name!file` only while the file isn't there, which is made first, so that of all
processes one dies, and one more each time the file is removed. Without the setting, reaching a place costs a
look-up.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.settings import settings

_SYNTAX = re.compile(r"(?P<name>[a-z._]+)(?:@(?P<about>[^*~!]+))?(?:\*(\d+))?(?:~([\d.]+))?(?:!(?P<once>.+))?")

_reached: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class _Plan:
    about: str
    on_visit: int
    sleep_seconds: float
    once: Path | None


def reach(name: str, about: str = "") -> None:
    """Say that the process has come to this place.

    Args:
        about: What it is there for, where that tells one visit from another.
    """
    plan = _planned().get(name)
    if plan is None or (plan.about and plan.about != about):
        return
    _reached[name] += 1
    if plan.sleep_seconds:
        time.sleep(plan.sleep_seconds)
    elif _is_due(plan, _reached[name]):
        os.kill(os.getpid(), signal.SIGKILL)


def _is_due(plan: _Plan, visit: int) -> bool:
    if plan.once is None:
        return visit == plan.on_visit
    return visit >= plan.on_visit and _is_first(plan.once)


def _is_first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@cache
def _planned() -> dict[str, _Plan]:
    planned = {}
    for text in settings().failpoints:
        found = _SYNTAX.fullmatch(text)
        if found is None:
            raise ValueError(f"EBBING_FAILPOINTS: {text!r} isn't a failpoint")
        name, about, visit, sleep_seconds, once = found.groups()
        mark = Path(once) if once else None
        planned[name] = _Plan(about or "", int(visit or 1), float(sleep_seconds or 0), mark)
    return planned
