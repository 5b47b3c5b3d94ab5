"""Name that the tests import; the tests that use it are left out, because they need the original's own objects."""

from __future__ import annotations

__all__ = ["DecayEngine"]


class DecayEngine:
    """Stand-in for the original's class."""
