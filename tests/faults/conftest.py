"""Fixtures: one plant shared by the folder and repaired before each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test, and put those that share the plant on one worker of pytest-xdist, so that it starts once."""
    item.add_marker(pytest.mark.kills)
    item.add_marker(pytest.mark.long)
    if isinstance(item, pytest.Function) and "standing_plant" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("plant"))


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    """Number of random rounds; `make test-faults` runs 60."""
    return int(pytestconfig.getoption("rounds"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on disk that the servers' users may enter."""
    path = Path(tempfile.mkdtemp(prefix="ebbing-faults-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def standing_plant() -> Iterator[Plant]:
    """Servers, API, workers and beat, shared by all tests that don't need their own."""
    path = Path(tempfile.mkdtemp(prefix="ebbing-faults-"))
    path.chmod(0o711)
    plant = Plant(path)
    try:
        plant.set_up()
        yield plant
    finally:
        plant.close()
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def plant(standing_plant: Plant) -> Plant:
    """The shared plant with everything running."""
    standing_plant.mend()
    return standing_plant


@pytest.fixture
def callers(plant: Plant) -> Iterator[Callable[[int], list[Caller]]]:
    """Factory for clients of this many new tenants."""
    made: list[Caller] = []

    def make(count: int) -> list[Caller]:
        fresh = [plant.caller() for _ in range(count)]
        made.extend(fresh)
        return fresh

    yield make
    for caller in made:
        caller.close()
