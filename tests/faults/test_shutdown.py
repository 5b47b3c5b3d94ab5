"""Workers are told to stop in the middle of their work, as in every deployment."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.load import Caller, load
from tests.faults.plant import SHUTDOWN_SECONDS, WORKERS, Plant
from tests.faults.test_servers_killed import more_is_accepted

STOP_SECONDS = SHUTDOWN_SECONDS + 5


def test_workers_that_are_told_to_stop_finish_or_hand_back_and_lose_nothing(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(3)
    with load(tenants, pause_seconds=0.002):
        more_is_accepted(tenants, 500)
        plant.processes.stop(*WORKERS, seconds=STOP_SECONDS)
        for name in WORKERS:
            plant.start_worker(name)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()


def test_the_api_told_to_stop_answers_what_it_has_accepted(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(3)
    with load(tenants, pause_seconds=0.002):
        more_is_accepted(tenants)
        plant.processes.stop("api", seconds=15)
        plant.mend()
        more_is_accepted(tenants)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
