"""Each queue has one lane, each task one queue, and the schedule names only existing tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from celery import Celery
from celery.beat import ScheduleEntry

from app.queues import LANES, TASKS
from workers.schedule import SAFETY_NETS, beat_entries

ROOT = Path(__file__).resolve().parents[2]

# in a separate process: the application reads its broker's address at import time
REGISTERED = """
import json
from workers.celery_app import celery
celery.loader.import_default_modules()
tasks = {name: task.queue for name, task in celery.tasks.items() if not name.startswith("celery.")}
limit, visibility = celery.conf.task_time_limit, celery.conf.broker_transport_options["visibility_timeout"]
print(json.dumps({"tasks": tasks, "queues": [q.name for q in celery.conf.task_queues],
                  "limit": limit, "visibility": visibility, "accepts": celery.conf.accept_content}))
"""


class Application(msgspec.Struct):
    """Queues, tasks and schedule of the workers' Celery application."""

    tasks: dict[str, str]
    queues: list[str]
    limit: int
    visibility: int
    accepts: list[str]


@pytest.fixture(scope="module")
def celery() -> Application:
    environment = os.environ | {
        "EBBING_REDIS_URL": "redis://127.0.0.1:1/0",
        "EBBING_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    }
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Application)


@pytest.mark.slow
def test_every_queue_has_exactly_one_lane(celery: Application) -> None:
    lanes = Counter(queue for lane in LANES.values() for queue in lane)
    assert set(TASKS.values()) == set(lanes), "a queue without a worker, or a worker without work"
    assert set(lanes.values()) == {1}
    assert Counter(celery.queues) == lanes


@pytest.mark.slow
def test_every_task_is_registered_on_its_queue(celery: Application) -> None:
    assert celery.tasks == TASKS


def test_the_schedule_names_only_tasks() -> None:
    assert {net.task for net in SAFETY_NETS} <= set(TASKS)
    assert len(SAFETY_NETS) == len({net.task for net in SAFETY_NETS})


def test_a_safety_net_expires_before_the_next() -> None:
    entries = beat_entries()
    assert set(entries) == {net.task for net in SAFETY_NETS}
    for net in SAFETY_NETS:
        options = entries[net.task]["options"]
        assert options == {"queue": TASKS[net.task], "expires": net.every_seconds}


def test_a_wall_clock_that_is_set_back_holds_up_no_safety_net(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    monkeypatch.setattr("workers.schedule.time.monotonic", lambda: passed)
    app = Celery("another", set_as_current=False)  # the service's own app needs the address of its broker
    entries = [ScheduleEntry(name, app=app, **entry) for name, entry in beat_entries().items()]
    assert not any(entry.is_due().is_due for entry in entries)
    passed = max(net.every_seconds for net in SAFETY_NETS)  # the wall clock hasn't moved
    assert all(entry.is_due().is_due for entry in entries)
    assert not any(next(entry).is_due().is_due for entry in entries)


@pytest.mark.slow
def test_no_task_can_outlive_the_visibility_timeout(celery: Application) -> None:
    assert 0 < celery.limit < celery.visibility, "a task that runs longer would be delivered again"


@pytest.mark.slow
def test_workers_read_json_alone(celery: Application) -> None:
    assert celery.accepts == ["json"]
