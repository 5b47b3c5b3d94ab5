"""Redis runs out of memory: clients are asked to retry, nothing is dropped, and the service recovers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import redis

from app.embedded import free_ports, has_ended
from app.queues import EMBED, SCORE, broker_options
from tests.faults.fault_cluster import DRAIN_BYTES, WORKERS, Plant
from tests.faults.load import Caller, load
from tests.faults.test_servers_killed import more_is_accepted
from tests.waiting import until

# Same ratio to the drain size as the default limit of 512 MiB has.
ROOM_BYTES = 32 * DRAIN_BYTES
BULK = {"bulk": "x" * 15_000}  # stored verbatim: neither indexed nor embedded


@contextmanager
def little_memory(plant: Plant, room_bytes: int = ROOM_BYTES) -> Iterator[redis.Redis]:
    """Limit Redis's memory during the block to its current use plus `room_bytes`; yield a client of it."""
    with redis.Redis.from_url(plant.redis.admin_url) as server:
        before = server.config_get("maxmemory")["maxmemory"]
        server.config_set("maxmemory", int(server.info("memory")["used_memory"]) + room_bytes)
        try:
            yield server
        finally:
            server.config_set("maxmemory", before or 0)


def fill(caller: Caller) -> None:
    """Send large memories until the API refuses them."""
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


def test_an_api_that_starts_while_redis_is_full_serves_and_goes_on_afterwards(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    [port] = free_ports(1)
    [caller] = callers(1)
    with little_memory(plant, -ROOM_BYTES // 64):
        plant.processes.kill("api")
        plant.processes.start("api", "api", EBBING_HEALTH_PORT=str(port))
        plant.processes.wait_until_answers("api", f"http://127.0.0.1:{port}/startz")
        until(lambda: not plant.readiness().get("redis", True), "Redis is full")
        assert caller.try_once(caller.batch(), "a key") is None
    caller.send()
    plant.books.wait_until_settled([caller])
    plant.books.check([caller])
    assert caller.answers["503"]


def test_workers_that_take_a_nudge_while_redis_is_full_go_on_afterwards(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    [caller] = callers(1)
    queues = [f"{broker_options()['global_keyprefix']}{name}" for name in (EMBED, SCORE)]
    with ExitStack() as full:
        with (
            plant.paused("worker-embed"),
            plant.paused("worker-score"),
            redis.Redis.from_url(plant.redis.url) as server,
        ):
            until(lambda: all(map(server.llen, queues)), "nudges wait for both lanes")
            full.enter_context(little_memory(plant, -ROOM_BYTES // 64))
            logs = [plant.processes.folder / "logs" / f"{name}.log" for name in ("worker-embed", "worker-score")]
            said = [log.stat().st_size for log in logs]
        with suppress(AssertionError):  # a healthy lane may log nothing for that long
            until(
                lambda: all("OutOfMemoryError" in log.read_text()[at:] for log, at in zip(logs, said, strict=True)),
                "each lane has met it",
                5,
            )
        until(lambda: not caller.try_once(caller.batch(), "a key"), "Redis is full")

    caller.send()
    plant.books.wait_until_settled([caller])
    plant.books.check([caller])
    assert not any(has_ended(plant.processes.running[name]) for name in WORKERS)
