"""Items under namespaces and keys, which the adapters of stores share, without a framework."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.ingest import memory
from app.domain.ingest.deletion import DELETED_MAX
from app.domain.search.content_filters import EXTERNAL_IDS_MAX, METADATA_FILTER_MAX_BYTES
from app.store.files.file_memories import PROTECTED_TAG
from ebbing_client import DeadlinePassed, Invalid
from ebbing_client.adapters import items, steps
from ebbing_client.adapters.filters import PUSHED_MAX_BYTES, check_filter, exact_part, matches
from ebbing_client.adapters.items import Items, NewItem
from ebbing_client.adapters.steps import DELETE_LIMIT, NAMES_LIMIT
from tests.adapters.in_process import InProcess
from tests.api.caller import Api
from tests.api.conftest import api

__all__ = ["api"]

STORE = Items("s")


@pytest.fixture
def client(api: Api) -> InProcess:
    return InProcess(api)


def put(client: InProcess, *new: tuple[tuple[str, ...], str, dict[str, Any]], ttl: float | None = None) -> None:
    client.run(STORE.put([NewItem(*each, items.read_words(each[2]), ttl) for each in new]))


def test_limits_are_those_of_the_service() -> None:
    assert (items.METADATA_MAX_BYTES, items.TEXT_MAX_BYTES) == (memory.METADATA_MAX_BYTES, memory.TEXT_MAX_BYTES)
    assert items.EXTERNAL_ID_MAX_CHARACTERS == memory.NAME_MAX_CHARACTERS
    assert items.TAG_MAX_CHARACTERS == memory.LABEL_MAX_CHARACTERS
    assert memory.LABELS_MAX - items.LABELS_MAX >= 2, "room for the tags of the store and of protection"
    assert (NAMES_LIMIT, DELETE_LIMIT) == (EXTERNAL_IDS_MAX, DELETED_MAX)
    assert (PUSHED_MAX_BYTES, steps.KEPT_TAG) == (METADATA_FILTER_MAX_BYTES, PROTECTED_TAG)


def test_items_are_put_read_listed_and_deleted(client: InProcess) -> None:
    put(client, (("a", "b"), "k", {"n": 1}), (("a",), "k", {"n": 2, "text": "rooibos tea"}), (("ab",), "k", {"n": 3}))
    names = [(("a", "b"), "k"), (("a",), "k"), (("a",), "other")]
    found = client.run(STORE.get(names))
    assert {name: item.value["n"] for name, item in found.items()} == {names[0]: 1, names[1]: 2}
    assert [item.value["n"] for item in client.run(STORE.search(("a",)))] == [2, 1]
    [ranked, *_] = client.run(STORE.search(("a",), query="tea"))
    assert (ranked.value["n"], ranked.score is not None) == (2, True)
    assert client.run(STORE.list_namespaces(("a",))) == [("a",), ("a", "b")]
    put(client, (("a",), "k", {"n": 4}))
    assert client.run(STORE.get(names[1:2]))[names[1]].value == {"n": 4}
    assert client.run(STORE.delete(names)) == 2
    assert client.run(STORE.list_namespaces()) == [("ab",)]


def test_an_item_outlives_an_earlier_time_to_live(client: InProcess) -> None:
    put(client, (("a",), "k", {"n": 1}), ttl=60)
    [item] = client.run(STORE.search(("a",)))
    assert item.ttl_minutes == 60
    put(client, (("a",), "k", {"n": 1}))
    [stored] = client.api.get("/v1/memories").json()["memories"]
    assert (stored["expires_at"], stored["id"]) == (None, item.memory_id)


def test_a_write_waits_for_a_slow_worker(client: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_POLL_SECONDS", 0)
    client.is_slow = True
    put(client, (("a",), "k", {"n": 1}))
    assert len(client.run(STORE.get([(("a",), "k")]))) == 1
    client.is_slow = False
    monkeypatch.setattr(steps, "_POLLS", 0)
    monkeypatch.setattr(client, "is_slow", True)
    with pytest.raises(DeadlinePassed):
        put(client, (("a",), "k", {"n": 2}))


def test_what_the_service_would_refuse_is_refused_before(client: InProcess) -> None:
    for new, field in (
        (NewItem(("a",), "k", {"text": "ä" * 8_200}, "x"), "value"),
        (NewItem(("a",), "k" * 512, {}, "x"), "key"),
        (NewItem(("a" * 256,), "k", {}, "x"), "namespace"),
        (NewItem(("a",) * 61, "k", {}, "x"), "namespace"),
        (NewItem(("a",), "k", {"x": float("nan")}, "x"), "body"),
    ):
        with pytest.raises(Invalid) as refused:
            client.run(STORE.put([new]))
        assert refused.value.fields[0].field == field
    assert client.sent == []
    largest = NewItem(("a",) * 60, "k", {"text": "ä" * 7_900}, "\0")
    client.run(STORE.put([largest]))
    assert client.run(STORE.search(("a",)))[0].value == largest.value


def test_a_store_ignores_other_memories(client: InProcess) -> None:
    client.api.remember({"text": "tea", "tags": ["s"]}, {"text": "tea", "tags": ["s"], "metadata": {"value": 1}})
    assert (client.run(STORE.search(())), client.run(STORE.search((), query="tea"))) == ([], [])
    assert client.run(STORE.list_namespaces()) == []


def test_words_of_a_value() -> None:
    value = {"a": "one", "b": [2, {"c": "three"}, None, True, ""], "d": {}, "e": 4.5}
    assert items.read_words(value) == "one\n2\nthree\n4.5"
    assert items.cut_text(" a\0b ") == "a b"
    assert len(items.cut_text("ä" * 20_000).encode()) == items.TEXT_MAX_BYTES


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"a": 1}, True),
        ({"a": 1.0}, True),
        ({"a": "1"}, False),
        ({"missing": None}, True),
        ({"b": [1, {"c": 2}]}, True),
        ({"b": [1]}, False),
        ({"b": [1, {"c": {"$gt": 1}}]}, True),
        ({"d": {"e": "x"}}, True),
        ({"d": {"f": "x"}}, False),
        ({"d": {}}, False),
        ({"a": {"$gt": "0"}}, False),
        ({"d": {"$gt": 0}}, False),
        ({"a": {"$gt": True}}, False),
        ({"a": {"$gte": 1, "$lte": 1}}, True),
        ({"a": {"$ne": 1}}, False),
    ],
)
def test_filters(wanted: dict[str, Any], expected: bool) -> None:
    check_filter(wanted)
    assert matches({"a": 1, "b": [1, {"c": 2}], "d": {"e": "x", "g": None}}, wanted) is expected


def test_the_service_filters_by_equal_values() -> None:
    wanted = {"a": 1, "b": {"$eq": "x"}, "c": {"$gt": 1}, "d": None, "e": [1], "f": {"g": 1}, "h": True}
    assert exact_part(wanted) == {"a": 1, "b": "x", "h": True}
    assert exact_part({"a": "x\0"}) == exact_part({"a": "x" * PUSHED_MAX_BYTES}) == {}
