"""The ordered history that sessions share, without a framework."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.ingest.memory import METADATA_MAX_BYTES
from ebbing_client import Invalid
from ebbing_client.adapters.log import PART_CHARACTERS, Log, NewEntry
from ebbing_client.call import encode
from tests.adapters.in_process import InProcess
from tests.api.caller import Api
from tests.api.conftest import api

__all__ = ["api"]

LOG = Log("t")


@pytest.fixture
def client(api: Api) -> InProcess:
    return InProcess(api)


def append(client: InProcess, *values: Any) -> None:
    client.run(LOG.append([NewEntry(value, f"entry {value}", "user") for value in values]))


def read(client: InProcess, limit: int | None = None) -> list[Any]:
    return [entry.value for entry in client.run(LOG.read(limit))]


def test_every_part_fits_into_metadata() -> None:
    for value in ("\\" * 3 * PART_CHARACTERS, "ü" * PART_CHARACTERS, '"\0😀' * PART_CHARACTERS):
        for body in LOG.bodies(NewEntry(value, value, "user")):
            assert len(encode(body["metadata"])) <= METADATA_MAX_BYTES


def test_entries_are_read_in_order_from_the_end(client: InProcess) -> None:
    large = ["x" * PART_CHARACTERS * 3]
    append(client, 1, {"b": 1, "a": [None, 2.5]}, large)
    append(client, "last")
    values = [1, {"b": 1, "a": [None, 2.5]}, large, "last"]
    for limit in range(6):
        assert read(client, limit) == (values[-limit:] if limit else [])
    assert read(client) == values
    assert read(client, -1) == []
    popped = [client.run(LOG.pop()) for _ in range(5)]
    assert [entry and entry.value for entry in popped] == [*reversed(values), None]
    assert client.api.get("/v1/memories").json()["memories"] == []


def test_an_entry_that_lacks_a_part_is_left_out(client: InProcess) -> None:
    append(client, 1, "x" * PART_CHARACTERS * 2, 2)
    memories = client.api.get("/v1/memories", params={"thread": "t", "order": "thread"}).json()["memories"]
    assert len(memories) == 5
    client.api.delete(f"/v1/memories/{memories[2]['id']}")
    assert (read(client), read(client, 2)) == ([1, 2], [1, 2])


def test_other_memories_of_the_thread_are_no_entries(client: InProcess) -> None:
    client.api.remember({"text": "tea", "thread": "t", "metadata": {"entry": 1}}, {"text": "tea", "thread": "u"})
    append(client, 1)
    assert read(client) == [1]
    assert client.run(LOG.clear()) == 2
    assert (read(client), len(client.api.get("/v1/memories").json()["memories"])) == ([], 1)


def test_invalid_names_and_values_are_refused(client: InProcess) -> None:
    for thread in ("", "x" * 513):
        with pytest.raises(Invalid):
            Log(thread)
    for value in (object(), float("nan")):
        with pytest.raises(Invalid) as refused:
            append(client, value)
        assert refused.value.fields[0].field == "items"
    assert client.sent == []
