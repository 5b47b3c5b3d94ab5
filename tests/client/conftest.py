"""Fixtures: a gate in front of nothing, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ebbing_client import Ebbing
from tests.client.gate import Gate, gate
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def door() -> Iterator[Gate]:
    """A gate that answers by `answers`, or like a service that is away."""
    with gate() as opened:
        opened.mode = "away"
        yield opened


@pytest.fixture
def client(door: Gate) -> Iterator[Ebbing]:
    with Ebbing(door.url, "eb_key", timeout=PATIENCE_SECONDS) as opened:
        yield opened
