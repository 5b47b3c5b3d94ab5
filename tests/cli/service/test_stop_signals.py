"""Stop signals of a worker that is writing a task to a pool process."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery.concurrency.asynpool import AsynPool

from workers import stop_signals


class Loop:
    """Celery's loop and the signals that its handlers got."""

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.scheduled: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def call_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.scheduled.append((function, arguments))

    def run(self) -> None:
        for function, arguments in self.scheduled:
            function(*arguments)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    before = {number: signal.getsignal(number) for number in stop_signals.SIGNALS}
    for number in before:
        signal.signal(number, lambda number, _: loop.handled.append(number))
    stop_signals.defer_while_writing(loop.call_soon)
    yield loop
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", stop_signals.SIGNALS)
def test_a_stop_signal_amid_a_write_waits_for_the_next_round_of_the_loop(loop: Loop, number: signal.Signals) -> None:
    def _write_job() -> list[int]:
        os.kill(os.getpid(), number)
        return list(loop.handled)

    assert _write_job() == []
    loop.run()
    assert loop.handled == [number]


@pytest.mark.parametrize("number", stop_signals.SIGNALS)
def test_any_other_stop_signal_is_handled_at_once(loop: Loop, number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    assert loop.handled == [number]
    assert loop.scheduled == []


def test_celery_writes_tasks_in_the_function_that_is_looked_for() -> None:
    assert "def _write_job(" in inspect.getsource(AsynPool._create_write_handlers)
