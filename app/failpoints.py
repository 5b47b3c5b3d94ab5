"""Named places where a test can make the process die, as a crash at that moment would.

`EBBING_FAILPOINTS=drain.before_settle` kills the process there with SIGKILL; `name*3` only the third time;
`name~0.5` sleeps half a second instead. Without the setting, reaching a place costs a set look-up.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from functools import cache

from app.settings import settings

_reached: Counter[str] = Counter()


def reach(name: str) -> None:
    """Say that the process has come to this place."""
    planned = _planned()
    if name not in planned:
        return
    _reached[name] += 1
    on_visit, sleep_seconds = planned[name]
    if sleep_seconds:
        time.sleep(sleep_seconds)
    elif _reached[name] == on_visit:
        os.kill(os.getpid(), signal.SIGKILL)


@cache
def _planned() -> dict[str, tuple[int, float]]:
    planned = {}
    for text in settings().failpoints:
        name, _, sleep_seconds = text.partition("~")
        name, _, visit = name.partition("*")
        planned[name] = (int(visit or 1), float(sleep_seconds or 0))
    return planned
