"""Chapter 10: the Python client `ebbing_client`, against the running service."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebbing_client import AsyncEbbing, Ebbing, Invalid, NotAuthenticated, NotFound, WritesRejected
from tests.client.gate import Gate, Mode, gate
from tests.fundamentals.client import Client
from tests.fundamentals.service import BACKLOG_ENTRIES, Service, Tenant
from tests.waiting import PATIENCE_SECONDS, until

WAIT = int(PATIENCE_SECONDS)


@pytest.fixture
def client(service: Service, tenant: Tenant) -> Iterator[Ebbing]:
    with Ebbing(service.url, tenant.api_key, timeout=PATIENCE_SECONDS) as opened:
        yield opened


@pytest.fixture
def door(service: Service) -> Iterator[Gate]:
    """A gate in front of the service."""
    with gate(service.url) as opened:
        yield opened


@pytest.fixture
def stored(ebbing: Client) -> Callable[[], list[str]]:
    """Function that waits until everything that was accepted is stored, and returns the sorted texts."""

    def texts() -> list[str]:
        until(lambda: not any(ebbing.stats().pending.values()), "an empty backlog")
        found, cursor = [], None
        while True:
            page = ebbing.page(limit=100) if cursor is None else ebbing.page(limit=100, cursor=cursor)
            found += [memory.text for memory in page.memories]
            cursor = page.next_cursor
            if cursor is None:
                return sorted(found)

    return texts


def test_a_memory_is_added_found_explained_changed_and_deleted(client: Ebbing) -> None:
    added = client.add("Ann drinks rooibos", subject="ann", role="user", metadata={"no": 7}, wait=WAIT)
    assert (added.is_searchable, added.is_buffered, len(added.ids)) == (True, False, 1)
    [memory_id] = added.ids
    results = client.search("What does Ann drink?", subject="ann", reinforce=False)
    assert [(hit.id, hit.text, dict(hit.metadata)) for hit in results] == [(memory_id, "Ann drinks rooibos", {"no": 7})]
    recalled = client.recall("Which rooibos does Ann drink?", subject="ann", least=0)
    assert (recalled.ids, "Ann drinks rooibos" in recalled.text) == ((memory_id,), True)
    client.observe(recalled.ids, session="tuesday")
    until(lambda: any(event.kind != "accepted" for event in client.history(memory_id)), "the reported use")
    memory = client.get(memory_id)
    assert (memory.subject, memory.role, memory.tier, memory.created_at is not None) == ("ann", "user", "active", True)
    assert "access_count" in memory.raw
    why = client.why(memory_id)
    assert (why.tier, why.wanted, bool(why.why)) == ("active", "active", True)
    assert client.update(memory_id, text="Ann drinks mint tea").text == "Ann drinks mint tea"
    deletion = client.delete(memory_id)
    with pytest.raises(NotFound):
        client.get(memory_id)
    assert client.cancel_erasure(deletion.erasure_id).status == "cancelled"
    assert client.get(memory_id).text == "Ann drinks mint tea"


def test_pages_are_read_as_needed(client: Ebbing, stored: Callable[[], list[str]]) -> None:
    texts = [f"note {number:03}" for number in range(150)]
    assert len(client.add(texts, thread="notes").ids) == 150
    assert stored() == texts
    assert sorted(memory.text for memory in client.memories(thread="notes")) == texts
    first = next(client.memories(thread="notes"))
    assert first.text in texts


def test_the_client_converts_messages_as_the_service_does(
    client: Ebbing, service: Service, tenant: Tenant, door: Gate
) -> None:
    messages: list[dict[str, object]] = [
        {"role": "human", "content": "My son is six", "name": "Ann"},
        {"role": "ai", "content": [{"type": "text", "text": "Good"}, {"type": "image", "url": "x"}]},
        {"role": "user", "content": ""},
    ]
    direct = client.add_messages(messages, subject="ann", thread="direct", wait=WAIT)
    assert ([*direct.skipped], [*direct.left_out]) == (
        [{"message": 2, "reason": "no text"}],
        [{"message": 1, "parts": {"image": 1}}],
    )
    with Ebbing(door.url, tenant.api_key, timeout=PATIENCE_SECONDS, batch_seconds=0) as batching:
        queued = batching.add_messages(messages, subject="ann", thread="queued")
        batching.flush()
    assert queued.is_buffered
    assert (queued.skipped, queued.left_out) == (direct.skipped, direct.left_out)
    until(lambda: len(list(client.memories(thread="queued"))) == 2, "both messages")

    def shown(thread: str) -> list[tuple[str, str | None, str | None]]:
        return [(each.text, each.role, each.speaker) for each in client.memories(thread=thread, order="thread")]

    assert shown("queued") == shown("direct") == [("My son is six", "user", "Ann"), ("Good", "assistant", None)]


def test_errors_name_the_field_the_limit_and_the_value(client: Ebbing, service: Service) -> None:
    with pytest.raises(Invalid) as refused:
        client.add("secret words", subject="x" * 600)
    [problem] = refused.value.fields
    assert (problem.field, problem.limit, refused.value.status, refused.value.type) == (
        "[0].subject",
        512,
        422,
        "invalid",
    )
    assert refused.value.request_id
    assert "secret words" not in str(refused.value)
    with Ebbing(service.url, "eb_wrong") as stranger, pytest.raises(NotAuthenticated):
        stranger.get("01a2027d-4c8a-7d0e-8f4b-0a4f3f1d0000")


def test_the_asynchronous_client_has_the_same_methods_and_results(
    client: Ebbing, service: Service, tenant: Tenant
) -> None:
    names = {name for name in vars(Ebbing) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncEbbing) if not name.startswith("_")}

    async def use() -> None:
        async with AsyncEbbing(service.url, tenant.api_key, timeout=PATIENCE_SECONDS) as asynchronous:
            added = await asynchronous.add("Bob plays chess", subject="bob", wait=WAIT)
            found = await asynchronous.search("Who plays chess?", reinforce=False)
            assert found.ids == client.search("Who plays chess?", reinforce=False).ids == added.ids
            assert [memory.id async for memory in asynchronous.memories(subject="bob")] == list(added.ids)
            assert [event.kind async for event in asynchronous.history(added.ids[0])] == ["accepted"]
            assert (await asynchronous.forget("bob", dry_run=True)).memories == 1
            assert (await asynchronous.forget("bob")).hidden == 1
            assert not await asynchronous.search("Who plays chess?")

    asyncio.run(use())


def test_a_repeated_request_is_stored_once(door: Gate, tenant: Tenant, stored: Callable[[], list[str]]) -> None:
    """The answers of the first attempts are lost, refused, or never come."""
    door.script = ["mute", "away", "busy", "broken", "open"]
    with Ebbing(door.url, tenant.api_key, timeout=PATIENCE_SECONDS) as client:
        client.add(["one", "two"])
    keys = {request.headers["Idempotency-Key"] for request in door.seen}
    assert (len(door.seen), len(keys)) == (5, 1)
    assert stored() == ["one", "two"]


def test_batches_arrive_once_and_in_order_through_a_full_backlog(
    service: Service, door: Gate, tenant: Tenant, stored: Callable[[], list[str]]
) -> None:
    """The tenant's backlog takes few requests: the service answers 429 until a worker runs."""
    texts = [f"line {number:04}" for number in range(400)]
    with (
        service.paused("ingest"),
        Ebbing(
            door.url, tenant.api_key, timeout=PATIENCE_SECONDS, batch_size=20, batch_seconds=0, queue_size=500
        ) as client,
    ):
        for text in texts:
            assert client.add(text).is_buffered
        until(lambda: client.pending < 400, "the first batches")
        assert client.pending >= 400 - 20 * (BACKLOG_ENTRIES + 1)
        service.processes.signal_all_of("worker-ingest", signal.SIGCONT)
        client.flush()
        assert client.pending == 0
    assert stored() == texts


def test_a_write_whose_answer_was_lost_is_stored_once_even_after_the_idempotency_key_expired(
    door: Gate, tenant: Tenant, stored: Callable[[], list[str]], tmp_path: Path
) -> None:
    """Batches of another size have other keys, as all have after a day: the external ids prevent a second copy."""
    door.mode = "mute"
    client = Ebbing(door.url, tenant.api_key, spool=tmp_path / "spool", batch_size=3, batch_seconds=3600)
    added = client.add(["one", "two", "three"])
    until(lambda: door.seen, "the batch")
    client.close(0)
    keys = {request.headers["Idempotency-Key"] for request in door.seen}
    assert stored() == ["one", "three", "two"]
    door.seen.clear()
    with Ebbing(door.url, tenant.api_key, spool=tmp_path / "spool", batch_size=2, timeout=PATIENCE_SECONDS) as client:
        assert client.pending == 3  # even if it has sent some already
        door.mode = "open"
        client.flush()
        assert keys.isdisjoint(request.headers["Idempotency-Key"] for request in door.seen)
        assert stored() == ["one", "three", "two"]
        assert {memory.external_id for memory in client.memories()} == set(added.external_ids)


def test_forget_covers_what_waits_and_what_arrived_unacknowledged(
    door: Gate, tenant: Tenant, client: Ebbing, stored: Callable[[], list[str]], tmp_path: Path
) -> None:
    door.mode = "mute"
    with Ebbing(
        door.url, tenant.api_key, spool=tmp_path / "spool", batch_size=2, batch_seconds=3600, timeout=PATIENCE_SECONDS
    ) as spooling:
        spooling.add([{"text": "ann arrived", "subject": "ann"}, {"text": "bob arrived", "subject": "bob"}])
        until(lambda: door.seen, "the batch whose answer is lost")
        spooling.add([{"text": "ann waits", "subject": "ann"}, {"text": "bob waits", "subject": "bob"}])
        until(lambda: len(stored()) == 2, "the batch is stored, although its answer is lost")
        door.mode = "open"
        assert spooling.forget("ann").hidden == 1
        spooling.flush()
    assert stored() == ["bob arrived", "bob waits"]
    assert [memory.text for memory in client.memories(subject="ann")] == []


YESTERDAY = """
import datetime, sys, time
from ebbing_client import Ebbing, records

class Yesterday(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) - datetime.timedelta(days=1)

records.datetime = Yesterday
client = Ebbing(*sys.argv[1:3], spool=sys.argv[3])
for person in ("ann", "bob"):
    client.add(f"{person} yesterday", subject=person)
print("written", flush=True)
time.sleep(3600)
"""


def test_an_erasure_covers_what_another_process_has_written_but_not_sent(
    door: Gate, tenant: Tenant, client: Ebbing, stored: Callable[[], list[str]], tmp_path: Path
) -> None:
    """The process wrote while the service was away, and was killed; the person's later writes are new data."""
    door.mode = "away"
    program = [sys.executable, "-c", YESTERDAY, door.url, tenant.api_key, str(tmp_path / "spool")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writer.kill()
    client.add("ann before", subject="ann", wait=WAIT)
    erasure = client.forget("ann", grace_days=0)
    until(lambda: client.call("GET", f"/v1/privacy/erasures/{erasure.id}")["status"] == "verified", "the erasure")
    with Ebbing(door.url, tenant.api_key, spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as spooling:
        spooling.add("ann is new", subject="ann")
        assert spooling.pending == 3
        door.mode = "open"
        spooling.flush()
        assert spooling.dropped == 1
    assert stored() == ["ann is new", "bob yesterday"]


def test_only_invalid_memories_of_a_batch_are_refused(
    service: Service, tenant: Tenant, stored: Callable[[], list[str]]
) -> None:
    with Ebbing(service.url, tenant.api_key, timeout=PATIENCE_SECONDS, batch_size=100, batch_seconds=60) as client:
        for number in range(9):
            client.add(f"text {number}", salience=9 if number in {3, 7} else 0.5)
        with pytest.raises(WritesRejected, match="refused 2 memories") as refused:
            client.flush()
        assert isinstance(refused.value.__cause__, Invalid)
        assert [each.record.body["text"] for each in client.rejected()] == ["text 3", "text 7"]
        assert "salience" in client.rejected()[0].reason
        client.discard_rejected()
        assert client.rejected() == []
        client.flush()
    assert stored() == [f"text {number}" for number in range(9) if number not in {3, 7}]


ROUNDS: tuple[Mode, ...] = ("away", "open", "mute", "busy", "broken", "open")
WRITER = """
import sys
from ebbing_client import Ebbing
url, key, path, first, mode = sys.argv[1:]
options = {"batch_size": 10, "batch_seconds": 0} if mode == "batches" else {}
client = Ebbing(url, key, spool=path, timeout=10, **options)
for number in range(int(first), 1_000_000):
    client.add(f"word{number:06}", thread="chaos")
    print(number, flush=True)
"""


@pytest.mark.essential
@pytest.mark.parametrize("mode", ["batches", "direct"])
def test_every_acknowledged_write_of_killed_writers_is_stored_once(
    mode: str, door: Gate, tenant: Tenant, stored: Callable[[], list[str]], tmp_path: Path
) -> None:
    """Writers are killed while the service is away, busy, or accepts requests whose answers are lost."""
    acknowledged: set[int] = set()
    first = 0
    for door.mode in ROUNDS:
        program = [sys.executable, "-c", WRITER, door.url, tenant.api_key, str(tmp_path / "spool"), str(first), mode]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                acknowledged.add(int(line))
                if len(acknowledged) % 37 == 0:
                    writer.kill()
        first = max(acknowledged) + 2  # nobody knows whether the killed writer's last write succeeded
    door.mode = "open"
    with Ebbing(door.url, tenant.api_key, spool=tmp_path / "spool", timeout=PATIENCE_SECONDS) as client:
        client.flush()
        assert client.pending == 0
    found = stored()
    assert len(found) == len(set(found)), "something is stored twice"
    numbers = {int(text.removeprefix("word")) for text in found}
    assert acknowledged - numbers == set(), "an acknowledged write is lost"
    assert len(numbers - acknowledged) <= len(ROUNDS)
    assert len(acknowledged) >= len(ROUNDS) * 37
