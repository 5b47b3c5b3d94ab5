"""Release to the operating system the memory that a finished task no longer needs."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def release_unused() -> None:
    """Collect reference cycles, which may hold large arrays, and return free memory if the C library can do so."""
    gc.collect()
    if _trim is not None:
        _trim(0)
