"""F7 and F8: Redis's disk is full, and its append-only file ends in the middle of a command or is damaged inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from app.clients.redis.connection import stream_key
from app.embedded import EmbeddedError, Redis, free_ports
from tests.small_disk import fill, mounted
from tests.waiting import until

STREAM = stream_key("00000000-0000-0000-0000-000000000001")
ENTRY = {"e": "x" * 1024}


@pytest.fixture
def server(folder: Path) -> Redis:
    """A Redis that flushes its writes, not started."""
    home = folder / "home"
    home.mkdir()
    home.chmod(0o711)
    return Redis(home, free_ports(1)[0])


@pytest.fixture
def written(server: Redis) -> Path:
    """The append-only file of the stopped server, with 100 entries in a stream."""
    process = server.start()
    with redis.Redis.from_url(server.url) as client:
        for _ in range(100):
            client.xadd(STREAM, ENTRY)
    assert server.stop(process) == 0
    [found] = server.folder.resolve().rglob("appendonly.aof*")
    return found


def count(server: Redis) -> int:
    with redis.Redis.from_url(server.url) as client:
        return int(client.xlen(STREAM))


def test_a_file_that_ends_within_a_command_costs_that_command_alone(server: Redis, written: Path) -> None:
    with written.open("r+b") as file:
        file.truncate(written.stat().st_size - 100)
    process = server.start()
    assert count(server) == 99
    assert server.stop(process) == 0
    assert "truncated" in server.log.read_text().lower()


def test_a_file_that_is_damaged_inside_stops_redis_instead_of_being_emptied(server: Redis, written: Path) -> None:
    before = bytearray(written.read_bytes())
    middle = before.index(b"*", len(before) // 2)
    before[middle : middle + 4] = b"\xff\xfe\xfd\xfc"
    written.write_bytes(before)
    with pytest.raises(EmbeddedError, match="Bad file format"):
        server.start()
    assert written.read_bytes() == bytes(before), "the file is left to the operator"


@pytest.fixture
def cramped() -> Iterator[tuple[Redis, Path]]:
    """A Redis whose files are on a small disk, and the disk."""
    with mounted(16) as disk:
        home = disk / "home"
        home.mkdir()
        home.chmod(0o711)
        yield Redis(home, free_ports(1)[0]), disk


def test_a_full_disk_refuses_writes_and_loses_nothing_that_was_confirmed(cramped: tuple[Redis, Path]) -> None:
    server, disk = cramped
    process = server.start()
    confirmed = 0
    with redis.Redis.from_url(server.url) as client:
        for _ in range(100):
            client.xadd(STREAM, ENTRY)
            confirmed += 1
        filler = fill(disk, rest_bytes=64 * 1024)

        def is_refused() -> bool:
            nonlocal confirmed
            try:
                client.xadd(STREAM, ENTRY)
            except redis.ResponseError as error:
                return "MISCONF" in str(error)
            confirmed += 1
            return False

        until(is_refused, "Redis refuses writes")
        assert client.xlen(STREAM) == confirmed, "reads go on, and nothing was evicted"
        filler.unlink()
        until(lambda: not is_refused(), "writes go on by themselves")
    process.kill()
    process.wait()
    process = server.start()
    assert count(server) == confirmed
    assert server.stop(process) == 0
