"""Nudges are sent once while one is pending, and again after Redis's clock was set back."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from app import queues
from app.clients.redis.connection import NUDGE_PREFIX, PREFIX
from app.clients.redis.stream import NUDGE_SECONDS
from tests.service import Service
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]

FLAG = f"{NUDGE_PREFIX}{queues.INDEX}"
TWO_HOURS_MS = 7_200_000
SENT_BY_BEAT_ALONE = {queues.TICK, queues.FIGURES, queues.GROWTH}
WITH_A_JOB = {queues.JOB, queues.RIGHTS_JOB}
ROUNDED_MS = 2
# In a new process, as a worker does.
RUN = """
import sys
from workers.celery_app import celery
celery.loader.import_default_modules()
for name in sys.argv[1:]:
    celery.tasks[name].apply(throw=True)
"""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that nudges send."""
    sent: list[str] = []
    monkeypatch.setattr(queues, "enqueue", sent.append)
    return sent


def test_a_pending_nudge_is_not_repeated_until_it_is_claimed(service: Service, sent: list[str]) -> None:
    assert not queues.nudge(queues.INDEX)
    assert queues.nudge(queues.INDEX), "a nudge is pending"
    assert sent == [queues.INDEX]
    queues.clear_nudge(queues.INDEX)
    assert not queues.nudge(queues.INDEX)
    assert sent == [queues.INDEX, queues.INDEX]


def test_a_nudge_is_not_repeated_before_its_message_expires(service: Service) -> None:
    """A lane that is busy for a minute would otherwise hold many messages of a task, and those behind them expire."""
    before_ms = _now_ms(service)
    queues.nudge(queues.INDEX)
    with service.redis.pipeline() as pipe:  # one transaction, so that both are read at once
        pipe.pttl(FLAG)
        pipe.time()
        [flag_lasts_ms, (seconds, microseconds)] = pipe.execute()
    flag_ends_ms = flag_lasts_ms + seconds * 1000 + microseconds // 1000
    [message] = cast("list[bytes]", service.redis.lrange(f"{PREFIX}celery:{queues.INGEST}", 0, -1))
    headers: dict[str, Any] = json.loads(message)["headers"]
    assert headers["task"] == queues.INDEX
    message_ends_ms = datetime.fromisoformat(headers["expires"]).timestamp() * 1000
    assert min(flag_ends_ms, message_ends_ms) >= before_ms + NUDGE_SECONDS * 1000 - ROUNDED_MS


@pytest.mark.slow
def test_a_task_that_starts_lets_the_next_nudge_pass(service: Service, sent: list[str]) -> None:
    tasks = sorted(queues.TASKS.keys() - SENT_BY_BEAT_ALONE - WITH_A_JOB)
    for task in tasks:
        queues.nudge(task)
    subprocess.run([sys.executable, "-c", RUN, *tasks], cwd=ROOT, check=True, timeout=PATIENCE_SECONDS)
    sent.clear()
    assert [task for task in tasks if queues.nudge(task)] == [], "no earlier nudge is pending"
    assert sent == tasks


def _now_ms(service: Service) -> int:
    seconds, microseconds = service.redis.time()
    return seconds * 1000 + microseconds // 1000


def test_a_nudge_from_before_the_clock_was_set_back_holds_up_no_other(service: Service, sent: list[str]) -> None:
    """A flag of Redis lasts until a time of its clock, which was two hours ahead."""
    service.redis.set(FLAG, "1", px=TWO_HOURS_MS)
    queues.nudge(queues.INDEX)
    assert sent == [queues.INDEX]
    assert 0 < service.redis.pttl(FLAG) <= NUDGE_SECONDS * 1000
