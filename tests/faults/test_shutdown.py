"""Workers are stopped in the middle of their work, as in every deployment."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import pytest

from app.embedded import has_ended
from tests.faults.fault_cluster import WORKERS, Plant
from tests.faults.load import Caller, load
from tests.faults.test_servers_killed import more_is_accepted
from tests.waiting import until

SLICE_SECONDS = 3600  # far longer than any test waits: a worker that stopped hasn't slept through it
# Stage → the worker that processes it.
SLICES: Final = {"index": "worker-ingest", "embed": "worker-embed", "score": "worker-score"}


def test_workers_that_are_told_to_stop_finish_or_hand_back_and_lose_nothing(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(3)
    with load(tenants):
        more_is_accepted(tenants, 500)
        plant.processes.stop(*WORKERS)
        for name in WORKERS:
            plant.start_worker(name)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()


@pytest.mark.parametrize("stage", SLICES)
def test_a_worker_told_twice_to_stop_in_a_slice_that_takes_long_ends_in_time_and_another_does_it(
    plant: Plant, callers: Callable[[int], list[Caller]], stage: str
) -> None:
    [caller] = callers(1)
    sleep = f"{stage}.before@{caller.tenant_id}~{SLICE_SECONDS}"  # excludes work left by other tests
    with plant.replaced(SLICES[stage], sleep) as slow:
        caller.send()
        until(lambda: plant.books.is_claimed(caller, stage), "it is in the middle of its slice")
        worker = plant.processes.running[slow]
        worker.send_signal(signal.SIGTERM)
        until(lambda: "Soft Shutdown" in plant.processes.log(slow).read_text(), "it has heard of it")
        worker.send_signal(signal.SIGTERM)
        until(lambda: has_ended(worker), "it ends")

    plant.books.wait_until_settled([caller], scored=True)
    plant.books.check([caller])


def test_the_api_told_to_stop_answers_what_it_has_accepted(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(3)
    with load(tenants, pause_seconds=0.002):
        more_is_accepted(tenants)
        plant.processes.stop("api")
        plant.mend()
        more_is_accepted(tenants)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
