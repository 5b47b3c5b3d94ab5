"""Read the version of the installed software."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def software_version() -> str:
    """Return the version of the installed package, or `unknown` in a source tree that isn't installed."""
    try:
        return version("ebbing")
    except PackageNotFoundError:
        return "unknown"
