"""Number of random examples that property tests draw; `make test-long` repeats all of them with more."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

TIMES = int(os.environ.get("EBBING_TEST_EXAMPLES", "1"))
USUAL = 35


def draw(count: int, **more: Any) -> settings:
    """Return hypothesis's settings for this many examples in `make test`, without a deadline."""
    return settings(deadline=None, max_examples=count * TIMES, **more)


def set_default() -> None:
    """Let tests without settings of their own draw the usual number."""
    settings.register_profile("usual", draw(USUAL))
    settings.load_profile("usual")
