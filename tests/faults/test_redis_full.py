"""Redis runs out of memory: clients are told to come again, nothing is dropped for it, and it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from tests.faults.load import Caller, load
from tests.faults.plant import DRAIN_BYTES, Plant
from tests.faults.test_servers_killed import more_is_accepted

# Like the default of 512 MiB to the default of a drain.
ROOM_BYTES = 32 * DRAIN_BYTES
BULK = {"bulk": "x" * 15_000}  # kept as it is: neither indexed nor embedded


@contextmanager
def little_memory(plant: Plant) -> Iterator[None]:
    """Meanwhile, Redis may use little more than it does now."""
    with redis.Redis.from_url(plant.redis.url) as server:
        before = server.config_get("maxmemory")["maxmemory"]
        server.config_set("maxmemory", int(server.info("memory")["used_memory"]) + ROOM_BYTES)
        try:
            yield
        finally:
            server.config_set("maxmemory", before or 0)


def fill(caller: Caller) -> None:
    """Send large memories until the door is shut."""
    for _ in range(1000):
        memories = [memory | {"metadata": BULK} for memory in caller.batch(size=10)]
        if caller.try_once(memories, key=memories[0]["text"].split()[3]) is None:
            return


def test_a_full_redis_refuses_evicts_nothing_and_is_drained_by_itself(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    greedy, *others = callers(3)
    with little_memory(plant):
        with plant.paused("worker-ingest"):
            fill(greedy)
            assert greedy.answers["503"] == 1
        with load(others):
            more_is_accepted(others)
        plant.books.wait_until_settled([greedy, *others])

    plant.books.check([greedy, *others])
    plant.books.check_backlog_is_nought()
