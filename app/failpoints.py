"""Named places at which tests can simulate a crash of the process.

`EBBING_FAILPOINTS=drain.before_settle` kills the process there with SIGKILL. Modifiers, in this order: `name@this`
counts only visits about `this`, such as an entry; `name*3` kills on the third visit; `name~0.5` sleeps half a second on
each visit instead; `name!file` kills only if the file doesn't exist, and creates it first, so that only one process
dies until the file is removed. Without the setting, a failpoint costs one dictionary lookup.
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


def trigger(name: str, about: str = "") -> None:
    """Trigger the failpoint `name` if it is configured.

    Args:
        about: Subject of this visit, matched by `name@about`.
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
            raise ValueError(f"EBBING_FAILPOINTS: {text!r} isn't a valid failpoint")
        name, about, visit, sleep_seconds, once = found.groups()
        mark = Path(once) if once else None
        planned[name] = _Plan(about or "", int(visit or 1), float(sleep_seconds or 0), mark)
    return planned
