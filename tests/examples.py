"""Number of random examples that a property test draws; `make test-long` repeats these tests with more."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

TIMES = int(os.environ.get("EBBING_TEST_EXAMPLES", "1"))


def draw(count: int) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that draws this many examples, times `EBBING_TEST_EXAMPLES`, and marks the test `drawn`."""

    def decorate(test: Callable[..., Any]) -> Any:
        return pytest.mark.drawn(settings(deadline=None, max_examples=count * TIMES)(test))

    return decorate
