"""Reading a policy that was stored by this version or an earlier one."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationInfo

STORED: Final = {"is_stored": True}
"""The validation context of a stored policy: it was checked when it was written."""


def is_stored(info: ValidationInfo) -> bool:
    """Return whether a stored policy is read, rather than one from a request."""
    return info.context is STORED
