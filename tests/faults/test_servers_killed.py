"""Redis and PostgreSQL are killed under load: accepted memories survive, and the service recovers by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.embedded import has_ended
from tests.faults.fault_cluster import WORKERS, Plant
from tests.faults.load import Caller, load
from tests.waiting import until

MORE = 200


def more_is_accepted(tenants: list[Caller], count: int = MORE) -> None:
    """Wait until this many more memories have been accepted."""
    goal = sum(len(caller.accepted) for caller in tenants) + count
    until(lambda: sum(len(caller.accepted) for caller in tenants) >= goal, f"{count} more are accepted")


def answers(tenants: list[Caller], kind: str) -> int:
    return sum(caller.answers[kind] for caller in tenants)


@pytest.mark.parametrize("flushed", ["everysec", "always"])
def test_nothing_accepted_is_lost_when_redis_is_killed(
    plant: Plant, callers: Callable[[int], list[Caller]], flushed: str
) -> None:
    plant.flush_redis(flushed)
    tenants = callers(3)
    with load(tenants):
        for _ in range(2):
            more_is_accepted(tenants)
            refused = answers(tenants, "503")
            plant.kill_server(plant.redis)
            until(lambda: plant.readiness().get("redis") is False, "readiness names Redis")
            until(lambda refused=refused: answers(tenants, "503") > refused, "clients get 503")  # type: ignore[misc]
            plant.start_server(plant.redis)
            plant.flush_redis(flushed)
        more_is_accepted(tenants)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()
    assert not [name for name in WORKERS if has_ended(plant.processes.running[name])], (
        "workers reconnect instead of exiting"
    )


def test_memories_are_accepted_while_postgresql_is_away_and_stored_when_it_is_back(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(3)
    with load(tenants):
        more_is_accepted(tenants)
        plant.kill_server(plant.postgres)
        until(lambda: plant.readiness().get("postgresql") is False, "readiness names PostgreSQL")
        more_is_accepted(tenants)
        plant.start_server(plant.postgres)
        until(lambda: all(plant.readiness().values()), "the service is ready again")
        more_is_accepted(tenants)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()


def test_connections_that_are_cut_over_and_over_count_against_nobody(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(3)
    with load(tenants):
        for _ in range(10):
            more_is_accepted(tenants, count=20)
            plant.cut_connections()

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()
