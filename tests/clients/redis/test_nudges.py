"""Nudges are sent once while one is pending, and again after Redis's clock was set back."""

from __future__ import annotations

import pytest

from app import queues
from app.clients.redis.connection import NUDGE_PREFIX
from app.clients.redis.stream import NUDGE_MILLISECONDS
from tests.service import Service

FLAG = f"{NUDGE_PREFIX}{queues.INDEX}"
TWO_HOURS_MS = 7_200_000


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that nudges send."""
    sent: list[str] = []
    monkeypatch.setattr(queues, "enqueue", sent.append)
    return sent


def test_a_pending_nudge_is_not_repeated_until_it_is_claimed(service: Service, sent: list[str]) -> None:
    service.redis.set(FLAG, "1", px=NUDGE_MILLISECONDS)
    queues.nudge(queues.INDEX)
    assert sent == []
    queues.clear_nudge(queues.INDEX)
    queues.nudge(queues.INDEX)
    assert sent == [queues.INDEX]


def test_a_nudge_from_before_the_clock_was_set_back_holds_up_no_other(service: Service, sent: list[str]) -> None:
    """A flag of Redis lasts until a time of its clock, which was two hours ahead."""
    service.redis.set(FLAG, "1", px=TWO_HOURS_MS)
    queues.nudge(queues.INDEX)
    assert sent == [queues.INDEX]
    assert 0 < service.redis.pttl(FLAG) <= NUDGE_MILLISECONDS
