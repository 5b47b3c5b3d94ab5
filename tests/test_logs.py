"""Every record of a process is one line of JSON, those of Celery and of its pool included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LINES = """
import os, sys
from billiard.util import get_logger
from app import logs
if sys.argv[1] == "before":
    get_logger()
logs.configure("worker")
get_logger().error("Process %r pid:%r exited with %r", "ForkPoolWorker-1", 7, "signal 9 (SIGKILL)", exc_info=0)
from celery.apps import worker
from workers import programs
programs.silence_celery()
worker.safe_say("worker: Cold shutdown (MainProcess)", sys.__stdout__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["before", "after"])
def test_the_end_of_a_pool_process_is_a_line_of_json_and_celery_prints_nothing_itself(order: str) -> None:
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-c", LINES, order], cwd=root, capture_output=True, text=True, check=True)
    [line] = done.stderr.splitlines()
    logged = json.loads(line)
    assert logged["event"] == "Process 'ForkPoolWorker-1' pid:7 exited with 'signal 9 (SIGKILL)'"
    assert (logged["level"], logged["process"]) == ("error", "worker")
    assert done.stdout == ""
