"""Number of random examples that property tests draw; `make test-long` repeats all of them with more."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hypothesis import HealthCheck, settings

SHARE = float(os.environ.get("EBBING_TEST_EXAMPLES", "0.3"))  # of the number that a test names; 0.6 in `make test-long`
USUAL = 35


def draw(count: int, suppress_health_check: Sequence[HealthCheck] = ()) -> settings:
    """Return hypothesis's settings for a share of this many examples, without limits of time."""
    return settings(
        deadline=None,
        max_examples=max(round(count * SHARE), 3),
        suppress_health_check=[HealthCheck.too_slow, *suppress_health_check],
    )


def set_default() -> None:
    """Let tests without settings of their own draw the usual number."""
    settings.register_profile("usual", draw(USUAL))
    settings.load_profile("usual")
