"""Types for model parameters: configuration of frozen dataclasses that refuse invalid values, and bounded numbers.

Tiny positive numbers are refused: products of a few of them would underflow, which raises an error in PostgreSQL.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field

STRICT: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True)
LEAST: Final = 1e-9
"""Smallest positive number allowed for a share or factor."""


def _not_tiny(number: float) -> float:
    if 0 < number < LEAST:
        raise ValueError(f"must be 0 or at least {LEAST}")
    return number


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), AfterValidator(_not_tiny)]
Factor = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), AfterValidator(_not_tiny)]
Days = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False), AfterValidator(_not_tiny)]
