"""Distinguish stored policies, of this version or an earlier one, from policies in requests."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationInfo

STORED: Final = {"is_stored": True}
"""Validation context of a stored policy, which was validated when it was written."""


def is_stored(info: ValidationInfo) -> bool:
    """Return whether a stored policy is being loaded, as opposed to one from a request."""
    return info.context is STORED
