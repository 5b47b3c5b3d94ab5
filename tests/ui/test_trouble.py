"""The overview page names a failing component and removes the finding once it works again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from app.dashboard.pages.overview import EVERY_SECONDS
from app.domain.health_findings import SILENT_SECONDS
from tests.faults import family
from tests.ui.look import Look

LONGEST_SECONDS = 10


def test_silence_is_said_within_ten_seconds() -> None:
    """Add the age from which a process counts as silent and the page's refresh interval."""
    assert SILENT_SECONDS + EVERY_SECONDS <= LONGEST_SECONDS


def test_a_stopped_worker_or_beat_is_said(household: Any, look: Callable[..., Look]) -> None:
    eye = look()
    eye.says_no_more("hasn't sent a heartbeat")  # all heartbeats have arrived
    with held_still(household, "celery main"):
        eye.says("The ingest worker hasn't sent a heartbeat for")
        eye.picture("worker-stopped")
    eye.says_no_more("The ingest worker hasn't sent a heartbeat")
    with held_still(household, "beat"):
        eye.says("The scheduler (beat) hasn't sent a heartbeat for")
    eye.says_no_more("The scheduler (beat) hasn't sent a heartbeat")


def test_a_store_that_is_away_is_said(household: Any, look: Callable[..., Look]) -> None:
    for target, words in (("redis", "Redis can't be reached"), ("postgres", "PostgreSQL can't be reached")):
        eye = look()
        with gone(household, target):
            eye.says(words)
            eye.picture(f"{target}-away")
        eye.says_no_more(words)
        eye.complaints.clear()  # 503 responses during the outage


@contextmanager
def held_still(household: Any, target: str) -> Iterator[None]:
    """Suspend processes with SIGSTOP during the block."""
    main = household.pid(target)
    pids = [main, *family.descendants(main)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def gone(household: Any, target: str) -> Iterator[None]:
    """Kill a process and keep the supervisor from restarting it during the block."""
    supervisor = household.supervisor.pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        family.kill(household.pid(target), supervisor)
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
