"""Processor time of tests: which are `slow` or `long` is measured, and no quick test starts a process.

`make test-costs` runs the tests with `--costs FOLDER` and lists in `slow_tests.txt` those that aren't quick.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from math import log2
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("slow_tests.txt")
# Means over a test's parameters, of the processor time of the test's process and of the servers that work for it.
COSTLY_SECONDS = 0.08
LONG_SECONDS = 0.75
QUICK_PROGRAMS = frozenset({"git", "uname"})  # `platform` runs uname for the first request of the openai client
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def listed() -> dict[str, float]:
    """Return the test functions that were measured as slow, as `file::function`, with their mean seconds."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {name: float(seconds) for name, seconds in map(str.split, lines)}


def mark_measured(items: Iterable[pytest.Item], *, long: bool) -> None:
    """Mark the listed tests `slow`, and those that take longest `long`, unless they are `essential`.

    Args:
        long: False if the run measures the tests again, because one may have become quicker.
    """
    seconds = listed()
    for item in items:
        taken = seconds.get(function_of(item.nodeid))
        if taken is None:
            continue
        item.add_marker("slow")
        if long and taken > LONG_SECONDS and item.get_closest_marker("essential") is None:
            item.add_marker("long")


def sort(items: list[pytest.Item]) -> None:
    """Put what takes longest first, so that no worker is left with it at the end.

    First the groups of pytest-xdist, each of which runs on one worker, by the sum of their measured seconds; then the
    `long` and the `slow` tests. Tests of about the same cost keep their random order.
    """
    seconds = listed()
    by_group: dict[str, float] = defaultdict(float)
    groups = {}
    for item in items:
        if (group := item.get_closest_marker("xdist_group")) is not None:
            groups[item] = group.args[0]
            by_group[group.args[0]] += seconds.get(function_of(item.nodeid), 0)

    def order(item: pytest.Item) -> tuple[float, bool, bool, int]:
        group = -by_group[groups[item]] if item in groups else 1
        own = 0 if item in groups else round(log2(seconds.get(function_of(item.nodeid), COSTLY_SECONDS)))
        return group, item.get_closest_marker("long") is None, item.get_closest_marker("slow") is None, -own

    items.sort(key=order)


def function_of(nodeid: str) -> str:
    """Return a test's id without its parameters and its group of pytest-xdist."""
    return nodeid.partition("[")[0].partition("@")[0]


def costly(seconds: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the functions whose tests take more than `COSTLY_SECONDS` on average, with that average."""
    by_function = defaultdict(list)
    for nodeid, taken in seconds:
        by_function[function_of(nodeid)].append(taken)
    return {name: mean(taken) for name, taken in by_function.items() if mean(taken) > COSTLY_SECONDS}


def used_seconds() -> float:
    """Return the processor time of this process and of all its descendants, ended ones included."""
    ended = os.times()
    ticks = 0
    found = _children("self")
    while found:
        pid = found.pop()
        with suppress(OSError):  # it has just ended
            # utime, stime, cutime and cstime of proc(5), counted after the program's name, which may contain spaces
            ticks += sum(
                map(int, Path("/proc", pid, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15])
            )
            found += _children(pid)
    return time.process_time() + ended.children_user + ended.children_system + ticks / TICKS_A_SECOND


def _children(pid: str) -> list[str]:
    found: list[str] = []
    with suppress(OSError):
        for thread in Path("/proc", pid, "task").iterdir():
            found += (thread / "children").read_text(encoding="utf-8").split()
    return found


@dataclass(eq=False)
class ProcessorTimes:
    """Plugin of pytest that writes the processor time of each test, without that of session fixtures."""

    folder: Path
    _used: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Count the function's fixtures."""
        before = used_seconds()
        try:
            return (yield)
        finally:
            self._used[item.nodeid] += used_seconds() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Count the test, and write down both."""
        before = used_seconds()
        try:
            return (yield)
        finally:
            seconds = self._used.pop(item.nodeid) + used_seconds() - before
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps([item.nodeid, round(seconds, 3)]) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Leave out fixtures of the session, which are set up for the first test that needs them."""
        if fixturedef.scope != "session":
            return (yield)
        before = used_seconds()
        try:
            return (yield)
        finally:
            self._used[request._pyfuncitem.nodeid] -= used_seconds() - before


@dataclass(eq=False)
class NoProcesses:
    """Plugin of pytest that fails a test without the marker `slow` if it starts a process."""

    started: list[str] = field(default_factory=list)

    def pytest_configure(self) -> None:
        """Note the programs that this process starts, and its forks, which `multiprocessing` makes."""
        start, fork = subprocess.Popen.__init__, os.fork

        @wraps(start)
        def noted_start(popen: subprocess.Popen[Any], args: Any, *more: Any, **named: Any) -> None:
            program = Path(os.fsdecode(args if isinstance(args, (str, bytes, os.PathLike)) else args[0])).name
            if program not in QUICK_PROGRAMS:
                self.started.append(program)
            start(popen, args, *more, **named)

        @wraps(fork)
        def noted_fork() -> int:
            self.started.append("a fork")
            return fork()

        subprocess.Popen.__init__ = noted_start  # type: ignore[method-assign,assignment]
        os.fork = noted_fork

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail the test if it has started something."""
        self.started.clear()
        result = yield
        if item.get_closest_marker("slow") is None:
            self.refuse(item.nodeid)
        return result

    def refuse(self, test: str) -> None:
        """Fail if processes have been started since the last look."""
        started, self.started = self.started, []
        if started:
            pytest.fail(f"{test} starts {', '.join(started)}: a test that starts processes must be marked slow")


def write_list(folder: Path) -> None:
    """Write the list from what a run with `--costs FOLDER` has measured; functions that it didn't run stay."""
    seconds = [
        tuple(json.loads(line)) for file in folder.glob("*.jsonl") for line in file.read_text("utf-8").splitlines()
    ]
    measured = {function_of(nodeid) for nodeid, _ in seconds}
    stay = {name: taken for name, taken in listed().items() if name not in measured}
    _write(costly(seconds) | stay)


def drop_removed() -> None:
    """Remove from the list the functions that are no longer there."""
    _write({name: taken for name, taken in listed().items() if is_defined(name)})


def is_defined(name: str) -> bool:
    """Return true if the file of `file::function` has the function."""
    path, _, function = name.partition("::")
    file = ROOT / path
    return file.is_file() and f"\ndef {function}(" in file.read_text(encoding="utf-8")


def _write(seconds: dict[str, float]) -> None:
    LIST.write_text("".join(f"{name} {taken:.2f}\n" for name, taken in sorted(seconds.items())), encoding="utf-8")


if __name__ == "__main__":
    write_list(Path(sys.argv[1]))
    drop_removed()
