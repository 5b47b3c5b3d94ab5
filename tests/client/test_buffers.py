"""Buffered writes of the Python client: the queue, the spool, and what interrupts them."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ebbing_client import (
    AsyncEbbing,
    ClientClosed,
    Ebbing,
    Invalid,
    Misconfigured,
    NotAuthenticated,
    NotSent,
    QueueFull,
    Spool,
    SpoolCorrupt,
    SpoolFull,
    SpoolInUse,
    SpoolKeyWrong,
    Unavailable,
)
from ebbing_client.records import make_records
from tests import small_disk
from tests.client.gate import ACCEPTED, Gate, refusal
from tests.waiting import PATIENCE_SECONDS, until

KEY = secrets.token_bytes(32)


def texts(spool: Spool) -> list[str]:
    return [record.body["text"] for record in spool.first(1000, 2**30)]


def write(spool: Spool, *memories: dict[str, Any] | str) -> None:
    bodies = [{"text": memory} if isinstance(memory, str) else memory for memory in memories]
    spool.append(make_records(bodies, is_durable=True))


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_spool_keeps_the_order_over_restarts(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "spool"
    for start in (0, 3):
        spool = Spool(path, key=key)
        write(spool, *(f"text {number}" for number in range(start, start + 3)))
        spool.close()
    spool = Spool(path, key=key)
    assert (len(spool), texts(spool)) == (6, [f"text {number}" for number in range(6)])
    spool.remove(spool.first(2, 2**30))
    spool.reject(spool.first(1, 2**30)[0], "too long")
    spool.close()
    spool = Spool(path, key=key)
    assert texts(spool) == ["text 3", "text 4", "text 5"]
    assert [(each.record.body["text"], each.reason) for each in spool.rejected()] == [("text 2", "too long")]
    assert (b"text 4" in path.read_bytes()) == (key is None)
    assert b"text 0" not in path.read_bytes(), "what was sent is overwritten"
    assert path.stat().st_mode & 0o077 == 0
    spool.close()


def test_a_wrong_key_is_an_error(tmp_path: Path) -> None:
    Spool(tmp_path / "plain").close()
    Spool(tmp_path / "encrypted", key=KEY.hex()).close()
    for name, key in (("plain", KEY), ("encrypted", None), ("encrypted", bytes(32))):
        with pytest.raises(SpoolKeyWrong, match=name):
            Spool(tmp_path / name, key=key)
    Spool(tmp_path / "encrypted", key=KEY).close()
    with pytest.raises(Misconfigured, match="32 bytes"):
        Spool(tmp_path / "new", key="short")
    assert not (tmp_path / "new").exists()
    with pytest.raises(Misconfigured, match="folder"):
        Spool(tmp_path / "missing" / "spool")


def cut(content: bytes) -> bytes:
    return content[: len(content) - 3000]


def garble(content: bytes) -> bytes:
    assert b"text 7" in content
    return content.replace(b"text 7", b"text 8")


@pytest.mark.parametrize("damage", [cut, garble, lambda _: b"not a database" * 100])
def test_damage_is_an_error_at_the_start(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "spool"
    spool = Spool(path)
    write(spool, *(f"text {number} {'x' * 2000}" for number in range(20)))
    spool.close()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SpoolCorrupt, match="damaged"):
        Spool(path)


def test_a_flipped_bit_of_an_encrypted_spool_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    spool = Spool(path, key=KEY)
    write(spool, "x" * 1000)
    spool.close()
    with closing(sqlite3.connect(path)) as database:
        [(stored,)] = database.execute("SELECT content FROM records")
    content = bytearray(path.read_bytes())
    content[content.index(stored) + 500] ^= 1
    path.write_bytes(content)
    with pytest.raises(SpoolCorrupt):
        Spool(path, key=KEY)


OPEN = "import sys, ebbing_client as e\ntry: e.Spool(sys.argv[1])\nexcept e.SpoolInUse as error: print(error)"


@pytest.mark.slow
def test_a_second_client_or_process_is_refused(tmp_path: Path, door: Gate) -> None:
    path = tmp_path / "spool"
    spool = Spool(path)
    write(spool, "tea")
    with pytest.raises(SpoolInUse, match=str(path)):
        Ebbing(door.url, "k", spool=path)
    done = subprocess.run([sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=True)
    assert "open in another client or process" in done.stdout
    spool.close()
    done = subprocess.run([sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.slow
def test_a_forked_process_needs_a_client_of_its_own(tmp_path: Path, door: Gate) -> None:
    with Ebbing(door.url, "k", spool=tmp_path / "spool") as client:
        client.add("tea")
        child = os.fork()
        if child == 0:
            try:
                client.add("milk")
            except SpoolInUse:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert client.pending == 1
        client.close(0)


def test_a_full_spool_is_an_error_at_once_and_takes_writes_again_later(tmp_path: Path, door: Gate) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=1000)
    with Ebbing(door.url, "k", spool=spool, timeout=PATIENCE_SECONDS) as client:
        client.add("x" * 600)
        with pytest.raises(SpoolFull, match="limit 1000"):
            client.add("y" * 600)
        assert client.pending == 1
        door.answers = [ACCEPTED] * 3
        client.flush()
        assert client.add("z" * 600).ids == ("1",)


@pytest.mark.slow
def test_a_full_disk_refuses_the_write_and_keeps_the_others(door: Gate) -> None:
    with small_disk.mounted(1) as disk:
        with Ebbing(door.url, "k", spool=disk / "spool", timeout=PATIENCE_SECONDS) as client:
            client.add("first")
            filler = small_disk.fill(disk)
            with pytest.raises(SpoolFull, match="disk"):
                client.add("x" * 30_000)
            assert client.pending == 1
            filler.unlink()
            client.add("second")
            client.close(0)
        spool = Spool(disk / "spool")
        assert texts(spool) == ["first", "second"]
        spool.close()


def test_forget_deletes_the_persons_unsent_writes_from_the_disk(tmp_path: Path, door: Gate) -> None:
    path = tmp_path / "spool"
    with Ebbing(door.url, "k", spool=path, timeout=PATIENCE_SECONDS) as client:
        client.add("anns secret", subject="ann")
        client.add("bobs note", subject="bob", thread="t")
        client.add("anns other secret", subject="ann", thread="t")
        door.answers = [refusal(403, {"type": "urn:ebbing:problem:not-allowed"})] * 1000
        with pytest.raises(Invalid):
            client.forget("ann", ids=[object()])  # type: ignore[list-item]  # refused before anything happens
        assert client.pending == 3
        with pytest.raises(Exception, match="403"):
            client.forget("ann")
        assert client.pending == 1
        content = path.read_bytes()
        assert (b"secret" in content, b"bobs note" in content) == (False, True)
        with pytest.raises(Exception, match="403"):
            client.forget(thread="t")
        assert client.pending == 0
        assert b"bobs" not in path.read_bytes()


def test_the_queue_pushes_back_until_the_deadline(door: Gate) -> None:
    client = Ebbing(door.url, "k", batch_size=2, batch_seconds=0, queue_size=3)
    for number in range(3):
        client.add(f"text {number}")
    with pytest.raises(QueueFull, match=r"3 wait .*limit 3"):
        client.add("text 3", timeout=0.1)
    with pytest.raises(NotSent, match="3 memories wait") as unsent:
        client.flush(0.5)
    assert isinstance(unsent.value.__cause__, Unavailable)
    with pytest.raises(NotSent, match="3 memories were not sent"):
        client.close(0.1)
    with pytest.raises(ClientClosed):
        client.add("text 4")


def test_a_batch_waits_for_its_size_or_its_age(door: Gate) -> None:
    door.answers = [ACCEPTED] * 10
    with Ebbing(door.url, "k", batch_size=3, batch_seconds=3600, timeout=PATIENCE_SECONDS) as client:
        for number in range(7):
            client.add(f"text {number}")
        until(lambda: client.pending == 1, "two full batches")
        assert [len(request.memories) for request in door.seen] == [3, 3]
        with pytest.raises(Invalid, match=r"call flush\(\)"):
            client.add("text 7", wait=5)
    assert [len(request.memories) for request in door.seen] == [3, 3, 1]
    with Ebbing(door.url, "k", batch_seconds=0.01, timeout=PATIENCE_SECONDS) as client:
        client.add("text 8")
        until(lambda: client.pending == 0, "the age of the batch")


def test_a_refused_key_ends_a_flush_at_once_and_keeps_the_writes(tmp_path: Path, door: Gate) -> None:
    door.answers = [refusal(503)] + [refusal(401, {"type": "urn:ebbing:problem:not-authenticated"})] * 10_000
    with Ebbing(door.url, "k", spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as client:
        client.add("tea")
        with pytest.raises(NotSent) as unsent:
            client.flush()
        assert isinstance(unsent.value.__cause__, NotAuthenticated)
        client.close(0)
    with Ebbing(door.url, "k", spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as client:
        assert client.pending == 1
        client.close(0)


def test_buffered_writes_are_checked_when_they_are_added(door: Gate) -> None:
    with Ebbing(door.url, "k", batch_size=10, batch_seconds=3600) as client:
        for wrong, field in (
            ([], "memories"),
            ("  ", "text"),
            (["tea", "x" * 40_000], "[1].text"),
            ({"text": "tea", "colour": "green"}, "colour"),
        ):
            with pytest.raises(Invalid) as refused:
                client.add(wrong)
            assert refused.value.fields[0].field == field
        with pytest.raises(Invalid, match="role"):
            client.add_messages([{"role": "king", "content": "tea"}])
        assert client.pending == 0


def test_options_out_of_range_are_errors(door: Gate) -> None:
    wrong: list[dict[str, Any]] = [
        {"batch_size": 0},
        {"batch_size": 1001},
        {"batch_seconds": -1},
        {"batch_size": 1, "queue_size": 0},
    ]
    for options in wrong:
        with pytest.raises(Misconfigured, match=next(reversed(options))):
            Ebbing(door.url, "k", **options)


def test_a_cancelled_forget_lets_the_writes_go_on(tmp_path: Path, door: Gate) -> None:
    async def use() -> None:
        async with AsyncEbbing(door.url, "k", spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as client:
            await client.add("tea", subject="ann")
            forgetting = asyncio.create_task(client.forget("bob"))
            await asyncio.sleep(0)
            forgetting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await forgetting
            door.answers = [ACCEPTED] * 100
            await client.flush()
            assert client.pending == 0

    asyncio.run(use())


EXIT = """
import sys
from ebbing_client import Ebbing
client = Ebbing(sys.argv[1], "k", batch_size=100, batch_seconds=3600)
client.add(["one", "two"])
"""


@pytest.mark.slow
def test_a_program_that_ends_without_close_still_sends(door: Gate) -> None:
    door.answers = [ACCEPTED]
    subprocess.run([sys.executable, "-c", EXIT, door.url], check=True, timeout=PATIENCE_SECONDS)
    assert [memory["text"] for memory in door.seen[0].memories] == ["one", "two"]


def test_spooled_writes_carry_their_time_and_the_last_position(tmp_path: Path, door: Gate) -> None:
    """Only those that waited: a write that is sent at once is an ordinary one."""
    position = "1790000000000-4"
    dropped = b'{"ids": ["1", "2"], "request_id": "r", "dropped": [{"id": "1", "erased": "subject"}]}'
    door.answers = [(202, {"Ebbing-Position": position}, ACCEPTED[2])]
    with Ebbing(door.url, "k", spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as client:
        assert client.add("at once").position == position
        client.add("later")
        client.add("even later")
        assert client.pending == 2
        client.close(0)
    at_once, *_ = door.seen
    assert ("written" in at_once.memories[0], "Ebbing-Sent-At" in at_once.headers) == (False, False)
    door.seen.clear()
    door.answers = [(202, {}, dropped)]
    with Ebbing(door.url, "k", spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as client:
        client.flush()
        assert (client.dropped, client.pending) == (1, 0)
    [sent] = door.seen
    assert int(sent.headers["Ebbing-Sent-At"]) > 1_700_000_000_000
    assert [each["text"] for each in sent.memories] == ["later", "even later"]
    for each in sent.memories:
        assert each["written"] == {"at": each["occurred_at"], "after": position}


def test_a_queued_write_that_waits_for_long_carries_its_time(door: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    door.answers = [ACCEPTED, ACCEPTED]
    with Ebbing(door.url, "k", batch_seconds=0, timeout=PATIENCE_SECONDS) as client:
        client.add("soon")
        client.flush()
        monkeypatch.setattr("ebbing_client.records.DELAY_SECONDS", 0.0)
        client.add("late")
        client.flush()
    assert ["written" in request.memories[0] for request in door.seen] == [False, True]
    assert ["Ebbing-Sent-At" in request.headers for request in door.seen] == [False, True]
