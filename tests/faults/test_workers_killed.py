"""Workers are killed where a crash does the most harm, and by the work they receive."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import pytest

from app.queues import DRAIN, EMBED_MEMORIES, INDEX, SCORE_MEMORIES
from app.services.enrichment import stage_runner
from app.services.ingest.drain import KILLED
from tests.faults.fault_cluster import CLAIM_IDLE_SECONDS, LEASE_SECONDS, WORKERS, Plant
from tests.faults.load import Caller, load
from tests.waiting import until
from workers.schedule import SAFETY_NETS

TRIES: Final = 3
# Tasks that beat sends to the lanes; they replace a nudge lost with its worker.
NUDGES: Final = {DRAIN, INDEX, EMBED_MEMORIES, SCORE_MEMORIES}

# Failpoint → the stage it is in, and the lease that a dead worker holds there.
PLACES: Final = {
    "drain.before_store": ("drain", CLAIM_IDLE_SECONDS),
    "drain.before_commit": ("drain", CLAIM_IDLE_SECONDS),
    "drain.before_settle": ("drain", CLAIM_IDLE_SECONDS),
    "index.before": ("index", LEASE_SECONDS),
    "index.before_finish": ("index", LEASE_SECONDS),
    "embed.before": ("embed", LEASE_SECONDS),
    "embed.before_finish": ("embed", LEASE_SECONDS),
    "score.before": ("score", LEASE_SECONDS),
    "score.before_finish": ("score", LEASE_SECONDS),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_a_killed_worker_had_in_hand_is_done_once_and_soon(
    plant: Plant, callers: Callable[[int], list[Caller]], rounds: int, place: str
) -> None:
    stage, held_seconds = PLACES[place]
    for _ in range(max(1, rounds // 10)):
        [caller] = callers(1)
        with load([caller]):
            goal = random.randint(1, 100)
            until(lambda caller=caller, goal=goal: len(caller.accepted) > goal, "some are accepted")  # type: ignore[misc]
            plant.arm(place)
            until(lambda: plant.died_at(place), f"a worker dies at {place}")
            assert plant.books.lease_seconds(caller, stage) <= held_seconds, "the dead worker's lease is too long"
        until(lambda caller=caller: not plant.books.waiting(caller).get(stage), f"{stage} is done")  # type: ignore[misc]
        plant.books.wait_until_settled([caller])
        plant.books.check([caller])
    plant.books.check_backlog_is_nought()


def test_each_lane_is_nudged_before_the_lease_of_a_dead_worker_ends() -> None:
    every = {net.task: net.every_seconds for net in SAFETY_NETS if net.task in NUDGES}
    assert every.keys() == NUDGES
    assert max(every.values()) <= min(CLAIM_IDLE_SECONDS, LEASE_SECONDS)


def test_an_entry_that_kills_whoever_reads_it_is_set_aside_after_three_tries(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    sick, well = callers(2)
    with plant.paused("worker-ingest"):
        sick.send()
        poison = sick.send()
        sick.send()
        entry_id = plant.books.entries(sick)[1]
        with plant.replaced("worker-ingest", f"drain.read@{entry_id}"):
            for _ in range(TRIES):
                assert not plant.books.dead_letters(sick)
                ids = well.send()  # other tenants don't wait for a dead worker's claim
                until(lambda ids=ids: plant.books.stored(well).issuperset(ids), "others are stored")  # type: ignore[misc]
                plant.books.end_leases([sick])

            def is_set_aside() -> list[tuple[str, str, int]]:
                plant.books.end_leases([sick])
                return plant.books.dead_letters(sick)

            assert until(is_set_aside, "it is set aside") == [("drain", KILLED, TRIES)]
            for memory_id in poison:
                del sick.accepted[memory_id]
            plant.books.wait_until_settled([sick, well])
    plant.books.check([sick], dead_letters=1)  # all of its neighbours are stored
    plant.books.check([well])


def test_a_memory_that_kills_whoever_enriches_it_is_set_aside_after_three_tries(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    lanes = {"index": "worker-ingest", "embed": "worker-embed", "score": "worker-score"}
    well, *others = callers(1 + len(lanes))
    sick = dict(zip(lanes, others, strict=True))
    with ExitStack() as frail:
        for stage, caller in sick.items():
            frail.enter_context(plant.replaced(lanes[stage], f"{stage}.before@{caller.tenant_id}"))
            caller.send(caller.batch(size=1))
            # At its first try, threads of the same process may work for others, whose claims die with it.
            until(partial(plant.books.is_claimed, caller, stage), f"{stage} claims the memory")
        for _ in range(TRIES):
            assert not any(map(plant.books.dead_letters, others))
            well.send()  # other tenants don't wait for a dead worker's claim
            plant.books.wait_until_settled([well])
            plant.books.end_leases(others)

        def are_set_aside() -> bool:
            plant.books.end_leases(others)
            return all(map(plant.books.dead_letters, others))

        until(are_set_aside, "all are set aside")
        for stage, caller in sick.items():
            assert plant.books.dead_letters(caller) == [(stage, stage_runner.KILLED, TRIES)]
        plant.books.wait_until_settled([well, *others])
    plant.books.check(others, dead_letters=1)  # stored nonetheless
    plant.books.check([well])


def test_a_worker_killed_whole_loses_nothing(plant: Plant, callers: Callable[[int], list[Caller]]) -> None:
    tenants = callers(2)
    earlier = {name: len(plant.processes.log(name).read_text()) for name in WORKERS}  # of other tests' workers
    with load(tenants):
        for name in WORKERS:
            count = len(tenants[0].accepted)
            until(lambda count=count: len(tenants[0].accepted) > count + 100, "more is accepted")  # type: ignore[misc]
            plant.processes.kill(name)
            plant.start_worker(name)

    plant.books.wait_until_settled(tenants)
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()
    for name in WORKERS:
        lines = plant.processes.log(name).read_text()[earlier[name] :].splitlines()
        assert [line for line in lines if not line.startswith("{")] == [], name
        assert all(json.loads(line)["process"] == "worker" for line in lines), name
