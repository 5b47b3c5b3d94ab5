"""The service under load, while its processes are killed at random moments.

`--rounds` sets the number of rounds; `make test-faults` runs 60. The seed is printed and can be set with
EBBING_TEST_SEED.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
import redis

from tests.faults.conservation import Figures
from tests.faults.load import Caller, load
from tests.faults.supervised_home import TARGETS, Household
from tests.installation import make_tenant
from tests.waiting import until

SEED = "EBBING_TEST_SEED"
TENANTS = 3
# Pause between a tenant's batches: the load stays below capacity, so that recovery times don't measure congestion.
PAUSE_SECONDS = 0.05
SECOND_KILL_CHANCE = 0.25
SAMPLE = 20
SETTINGS = {
    "EBBING_CLAIM_IDLE_SECONDS": "2",
    "EBBING_LEASE_SECONDS": "3",
    "EBBING_SHUTDOWN_SECONDS": "3",
    "EBBING_DELIVERIES_MAX": "1000",  # random kills and expired leases must not create dead letters
}
AWAY = (psycopg.OperationalError, redis.RedisError)


class Killing:
    """Rounds of kills and the recovery times for each kind of victim."""

    def __init__(self, household: Household, probe: Caller, seed: int) -> None:
        """Take a running household, and a caller used only to detect recovery."""
        self.household = household
        self.probe = probe
        self.random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.recoveries: dict[str, list[float]] = {target: [] for target in TARGETS}

    def round(self, number: int) -> None:
        """Kill one process, sometimes another one right after, and wait for recovery."""
        # Every kind of victim is killed once before any is killed again.
        if number % len(TARGETS) == 0:
            self.order = self.random.sample(TARGETS, len(TARGETS))
        victim = self.order[number % len(TARGETS)]
        time.sleep(self.random.uniform(0, 1))
        began = time.monotonic()
        self._kill(victim)
        if self.random.random() < SECOND_KILL_CHANCE:
            time.sleep(self.random.uniform(0, 1))
            self._kill(self.random.choice(TARGETS))
        self._wait_until_well()
        self.recoveries[victim].append(time.monotonic() - began)

    def _kill(self, victim: str) -> None:
        if self.household.kill(victim, self.random.randrange(100)):
            self.killed[victim] += 1
        if victim == "supervisor":
            self.household.start()

    def _wait_until_well(self) -> None:
        """Wait until a new memory has been accepted, stored, indexed and embedded."""
        ids = self.probe.send()
        books = self.household.books()

        def is_done() -> bool:
            with suppress(*AWAY):
                return books.stored(self.probe).issuperset(ids) and not any(
                    books.waiting(self.probe, scored=False).values()
                )
            return False

        until(is_done, "a new memory can be found")
        until(self.household.is_well, "the service is ready")

    def table(self) -> list[str]:
        lines = [f"  {'killed':<14}{'times':>6}{'longest recovery':>20}"]
        for target in TARGETS:
            longest = max(self.recoveries[target], default=0)
            lines.append(f"  {target:<14}{self.killed[target]:>6}{longest:>18.1f} s")
        return lines

    def longest(self) -> float:
        return max(max(seconds, default=0) for seconds in self.recoveries.values())


def test_whatever_is_killed_and_however_often_nothing_is_lost_or_doubled(
    folder: Path, rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(1 << 32))
    folder.chmod(0o711)
    household = Household(folder, SETTINGS)
    everyone: list[Caller] = []
    began = time.monotonic()
    try:
        household.start()
        everyone = [_caller(household, seed) for _ in range(TENANTS + 1)]
        killing = Killing(household, everyone[0], seed)
        try:
            with load(everyone[1:], PAUSE_SECONDS):
                for number in range(rounds):
                    killing.round(number)
        finally:
            _say(capsys, f"seed {seed}", *killing.table())
        books = household.books()
        books.wait_until_settled(everyone)
        figures = books.check(everyone)
        books.check_backlog_is_nought()
        _say(capsys, *_report(figures, killing, everyone, time.monotonic() - began))
        for caller in everyone:
            sample = killing.random.sample(sorted(caller.accepted), min(SAMPLE, len(caller.accepted)))
            assert [memory_id for memory_id in sample if not caller.finds(memory_id)] == []
    finally:
        household.stop()
        for caller in everyone:
            caller.close()


def _caller(household: Household, seed: int) -> Caller:
    tenant_id, key = make_tenant(household.books().database_url, f"tenant {token_hex(6)}")
    return Caller(household.url, tenant_id, key, seed)


def _report(figures: Figures, killing: Killing, everyone: Sequence[Caller], seconds: float) -> list[str]:
    answers = sum((caller.answers for caller in everyone), Counter[str]())
    shown = ", ".join(f"{name} {count}" for name, count in answers.most_common())
    return [
        *(f"  {name.replace('_', ' '):<14}{value:>10,}" for name, value in figures._asdict().items()),
        f"  longest recovery {killing.longest():.1f} s, {seconds:.0f} s in all, {killing.household.starts} starts",
        f"  answers: {shown}",
    ]


def _say(capsys: pytest.CaptureFixture[str], *lines: str) -> None:
    with capsys.disabled():
        sys.stdout.write("\n".join(("", *lines, "")))
        sys.stdout.flush()
