"""What is broken is on the first page within ten seconds, and gone from it after."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults import family
from tests.ui.look import Look

SECONDS = 10


def test_a_stopped_worker_or_beat_is_said(household: Any, look: Callable[..., Look]) -> None:
    eye = look()
    assert eye.page.get_by_text("no worker of").count() == 0
    with held_still(household, "celery main"):
        eye.says("no heartbeat from the ingest worker for", SECONDS)
        eye.picture("worker-stopped")
    eye.page.get_by_text("no heartbeat from the ingest worker").wait_for(state="detached", timeout=30_000)
    with held_still(household, "beat"):
        eye.says("no heartbeat from beat for", SECONDS)
    eye.page.get_by_text("no heartbeat from beat").wait_for(state="detached", timeout=30_000)


def test_a_store_that_is_away_is_said(household: Any, look: Callable[..., Look]) -> None:
    for target, words in (("redis", "redis: can't be reached"), ("postgres", "postgresql: can't be reached")):
        eye = look()
        with gone(household, target):
            eye.says(words, SECONDS)
            eye.picture(f"{target}-away")
        eye.page.get_by_text(words).wait_for(state="detached", timeout=60_000)
        eye.complaints.clear()  # answers of 503 while it was away


@contextmanager
def held_still(household: Any, target: str) -> Iterator[None]:
    """Processes that run, but do nothing."""
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
    """A process that is dead, while nobody starts it again."""
    supervisor = household.supervisor.pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        family.kill(household.pid(target), supervisor)
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
