"""Read the wait that a server requests with its response."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_MAX_SECONDS: Final = 3600.0
"""Upper bound on the wait that a server requests with `Retry-After`."""


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Return the requested wait, 0 to `RETRY_AFTER_MAX_SECONDS`; None if the response requests none.

    Args:
        headers: Response headers, case-insensitive: `retry-after-ms`, or `retry-after` in seconds or as a date.
        now: Seconds since 1970.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), RETRY_AFTER_MAX_SECONDS)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return min(max(moment - now, 0.0), RETRY_AFTER_MAX_SECONDS)
