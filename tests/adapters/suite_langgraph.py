"""`EbbingStore` against a running service: the interface of LangGraph's `BaseStore`, and LangMem's tools on it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langmem import create_manage_memory_tool, create_search_memory_tool

from ebbing_client import AsyncEbbing, Ebbing, Invalid
from ebbing_client.adapters.langgraph import EbbingStore
from tests.adapters import pages
from tests.adapters.ageing import list_leaving
from tests.waiting import until

NAMESPACE = ("memories", "ann")


@pytest.fixture
def store(client: Ebbing, name: str) -> EbbingStore:
    return EbbingStore(client, name=name)


def values(found: Any) -> list[Any]:
    """Return what tests look at in search results: the values' `n`, in order."""
    return [item.value["n"] for item in found]


def test_an_item_is_read_as_it_was_put(store: EbbingStore) -> None:
    value = {"text": "Größe ✓ 'quoted' \"x\"", "n": 1.5, "list": [1, {"a": None}, True], "none": None, "": {"": {}}}
    before = datetime.now(UTC) - timedelta(minutes=1)
    store.put(NAMESPACE, "first", value)
    item = store.get(NAMESPACE, "first")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "first", NAMESPACE)
    assert before < item.created_at <= item.updated_at
    assert store.get(NAMESPACE, "second") is None
    assert store.get(("memories",), "first") is None
    store.put(NAMESPACE, "empty", {})
    empty = store.get(NAMESPACE, "empty")
    assert empty is not None
    assert empty.value == {}


def test_a_second_put_replaces_the_value_and_keeps_the_creation_time(store: EbbingStore) -> None:
    store.put(NAMESPACE, "k", {"n": 1, "old": True})
    first = store.get(NAMESPACE, "k")
    store.put(NAMESPACE, "k", {"n": 2})
    second = store.get(NAMESPACE, "k")
    assert first is not None
    assert second is not None
    assert (second.value, second.created_at) == ({"n": 2}, first.created_at)
    assert second.updated_at > first.updated_at
    assert values(store.search(NAMESPACE)) == [2]


def test_a_deleted_item_is_gone_and_can_be_put_again(store: EbbingStore) -> None:
    store.put(NAMESPACE, "k", {"n": 1})
    store.delete(NAMESPACE, "k")
    store.delete(NAMESPACE, "unknown")
    assert store.get(NAMESPACE, "k") is None
    assert (store.search(NAMESPACE), store.search(NAMESPACE, query="1")) == ([], [])
    store.put(NAMESPACE, "k", {"n": 2})
    assert values(store.search(NAMESPACE)) == [2]


def test_a_batch_reads_what_was_before_it_and_its_last_put_wins(store: EbbingStore) -> None:
    store.put(NAMESPACE, "a", {"n": 1})
    results = store.batch(
        [
            PutOp(NAMESPACE, "a", {"n": 2}),
            GetOp(NAMESPACE, "a"),
            PutOp(NAMESPACE, "b", {"n": 3}),
            SearchOp(NAMESPACE),
            PutOp(NAMESPACE, "b", {"n": 4}),
            PutOp(NAMESPACE, "c", {"n": 5}),
            PutOp(NAMESPACE, "c", None),
            ListNamespacesOp(),
            GetOp(NAMESPACE, "b"),
        ]
    )
    assert [results[place] for place in (0, 2, 4, 5, 6, 8)] == [None] * 6
    assert results[1].value == {"n": 1}
    assert values(results[3]) == [1]
    assert results[7] == [NAMESPACE]
    assert sorted(values(store.search(NAMESPACE))) == [2, 4]
    assert store.batch([]) == []


def test_many_items_are_put_and_read_in_one_batch(store: EbbingStore) -> None:
    store.batch([PutOp(NAMESPACE, f"k{n}", {"n": n}) for n in range(230)])
    found = store.batch([GetOp(NAMESPACE, f"k{n}") for n in range(230)])
    assert [item.value["n"] for item in found] == list(range(230))
    assert values(store.search(NAMESPACE, limit=1000)) == list(reversed(range(230)))
    assert values(store.search(NAMESPACE, limit=5, offset=120)) == [109, 108, 107, 106, 105]
    assert store.search(NAMESPACE, limit=5, offset=230) == []
    ranked = store.search(NAMESPACE, query="42", limit=150)
    assert len({item.key for item in ranked}) == 150
    assert ranked[0].value == {"n": 42}


def test_a_prefix_ends_at_a_label(store: EbbingStore) -> None:
    names = [("a",), ("a", "b"), ("ab",), ("A",), ("a%",), ("a_",), ("a", "b/c"), ("ä", " b ")]
    for namespace in names:
        store.put(namespace, "k", {"n": str(namespace)})
    for namespace in names:
        wanted = {str(each) for each in names if each[: len(namespace)] == namespace}
        assert set(values(store.search(namespace))) == wanted
    assert len(store.search((), limit=100)) == len(names)


def test_names_that_look_alike_are_different_items(store: EbbingStore) -> None:
    names = [(("a", "b"), "c"), (("a",), 'b","c'), (("a",), "b/c"), (('a","b',), "c"), (("a",), "B/c")]
    store.batch([PutOp(namespace, key, {"n": place}) for place, (namespace, key) in enumerate(names)])
    found = store.batch([GetOp(namespace, key) for namespace, key in names])
    assert values(found) == list(range(len(names)))


def test_filters_compare_fields(store: EbbingStore) -> None:
    items: list[dict[str, Any]] = [
        {"n": 0, "kind": "a", "score": 1, "tags": ["x", "y"], "deep": {"p": 1, "q": 2}, "on": True},
        {"n": 1, "kind": "a", "score": 2.5, "tags": ["y", "x"], "deep": {"p": 1}, "none": None},
        {"n": 2, "kind": "b", "score": 10, "tags": ["x", "y", "z"], "deep": {"p": 3}, "on": False},
        {"n": 3, "kind": "B", "score": "10", "day": "2026-01-02"},
    ]
    store.batch([PutOp(NAMESPACE, str(item["n"]), item) for item in items])
    cases: list[tuple[dict[str, Any], set[int]]] = [
        ({"kind": "a"}, {0, 1}),
        ({"kind": "a", "score": 1}, {0}),
        ({"on": True}, {0}),
        ({"none": None}, {0, 1, 2, 3}),
        ({"tags": ["x", "y"]}, {0}),
        ({"deep": {"p": 1}}, {0, 1}),
        ({"deep": {"p": {"$gt": 1}}}, {2}),
        ({"kind": {"$eq": "a"}}, {0, 1}),
        ({"kind": {"$ne": "a"}}, {2, 3}),
        ({"score": {"$gt": 1}}, {1, 2}),
        ({"score": {"$gte": 1, "$lt": 10}}, {0, 1}),
        ({"score": {"$lte": 2.5}}, {0, 1}),
        ({"day": {"$gt": "2026-01-01"}}, {3}),
        ({"kind": "missing"}, set()),
        ({"missing": "x"}, set()),
        ({"kind": "a\0"}, set()),
    ]
    for wanted, expected in cases:
        assert set(values(store.search(NAMESPACE, filter=wanted))) == expected, wanted
        assert set(values(store.search(NAMESPACE, filter=wanted, query="a b"))) == expected, wanted
    for wrong in ({"score": {"$regex": "x"}}, {"score": {"$gt": 1, "p": 2}}):
        with pytest.raises(ValueError, match="operator"):
            store.search(NAMESPACE, filter=wrong)


def test_a_query_ranks_by_words_and_meaning(store: EbbingStore) -> None:
    texts = ["Ann drinks rooibos tea every morning", "The car needs new tyres", "Bo plays the violin in an orchestra"]
    store.batch([PutOp(NAMESPACE, str(n), {"n": n, "text": text}) for n, text in enumerate(texts)])
    for query, best in (("Which tea does Ann drink?", 0), ("tyres for the car", 1), ("Who plays the violin?", 2)):
        found = store.search(NAMESPACE, query=query)
        assert (found[0].value["n"], len(found)) == (best, 3), query
        scores = [item.score for item in found if item.score is not None]
        assert scores == sorted(scores, reverse=True)
        assert scores
    assert [item.score for item in store.search(NAMESPACE)] == [None] * 3
    assert values(store.search(NAMESPACE, query="tyres", limit=1)) == [1]


def test_the_index_decides_what_a_query_reads(client: Ebbing, name: str) -> None:
    store = EbbingStore(client, name=name, fields=["title", "parts[*].text"])
    value = {"title": "Rooibos", "parts": [{"text": "violin"}, {"text": "orchestra"}], "secret": "tyres"}
    store.put(NAMESPACE, "fields", value)
    store.put(NAMESPACE, "own", value, index=["secret"])
    store.put(NAMESPACE, "hidden", value, index=False)
    indexed = {memory.metadata["key"]: memory.text for memory in client.memories(tag=name)}
    assert indexed == {"fields": "Rooibos\nviolin\norchestra", "own": "tyres", "hidden": "hidden"}
    assert store.search(NAMESPACE, query="tyres")[0].key == "own"
    assert store.search(NAMESPACE, query="orchestra")[0].key == "fields"
    [unranked] = [item for item in store.search(NAMESPACE, query="hidden") if item.key == "hidden"]
    assert (unranked.score, unranked.value) == (None, value)


def test_namespaces_are_listed(store: EbbingStore) -> None:
    names = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("x",)]
    for namespace in names:
        store.batch([PutOp(namespace, key, {"n": 1}) for key in "kl"])
    assert store.list_namespaces() == names
    assert store.list_namespaces(prefix=("a", "b")) == names[:4]
    assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
    assert store.list_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert store.list_namespaces(prefix=("a",), suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
    assert store.list_namespaces(limit=2, offset=1) == names[1:3]
    assert store.list_namespaces(prefix=("nothing",)) == []
    store.batch([PutOp(("x",), key, None) for key in "kl"])
    assert ("x",) not in store.list_namespaces()
    with pytest.raises(ValueError, match="match type"):
        store.batch([ListNamespacesOp((MatchCondition("middle", ("a",)),))])


def expiry(client: Ebbing, store_name: str) -> dict[str, str | None]:
    return {memory.metadata["key"]: memory.raw["expires_at"] for memory in client.memories(tag=store_name)}


def test_items_expire_after_their_time_to_live(client: Ebbing, name: str) -> None:
    store = EbbingStore(client, name=name, ttl={"default_ttl": 60})
    store.put(NAMESPACE, "default", {"n": 0})
    store.put(NAMESPACE, "short", {"n": 1}, ttl=0.01)
    store.put(NAMESPACE, "never", {"n": 2}, ttl=None)
    expires_at = expiry(client, name)
    assert (expires_at["never"], expires_at["default"] is not None) == (None, True)
    until(lambda: store.get(NAMESPACE, "short", refresh_ttl=False) is None, "the expiry")
    assert sorted(values(store.search(NAMESPACE))) == [0, 2]
    assert sorted(values(store.search(NAMESPACE, query="1"))) == [0, 2]
    store.put(NAMESPACE, "short", {"n": 3})
    assert sorted(values(store.search(NAMESPACE))) == [0, 2, 3]
    store.put(NAMESPACE, "short", {"n": 4}, ttl=None)
    assert expiry(client, name)["short"] is None
    with pytest.raises(ValueError, match="ttl"):
        store.put(NAMESPACE, "k", {}, ttl=0)


def test_reads_start_the_time_to_live_again(client: Ebbing, name: str) -> None:
    store = EbbingStore(client, name=name)
    store.put(NAMESPACE, "k", {"n": 1}, ttl=60)
    [memory] = client.memories(tag=name)

    def is_refreshed(**read: Any) -> bool:
        """Return true if a read moves an expiry that is near; the item has less than 95 % of its time left."""
        near = client.update(memory.id, keep_days=0.02).raw["expires_at"]
        if "limit" in read:
            store.search(NAMESPACE, **read)
        else:
            store.get(NAMESPACE, "k", **read)
        return str(expiry(client, name)["k"]) > str(near)

    assert [is_refreshed(), is_refreshed(limit=1), is_refreshed(limit=1, query="1")] == [True] * 3
    assert not is_refreshed(refresh_ttl=False)
    assert not is_refreshed(limit=1, refresh_ttl=False)
    store = EbbingStore(client, name=name, ttl={"refresh_on_read": False})
    assert not is_refreshed()


def test_values_and_names_beyond_the_limits_are_refused(store: EbbingStore) -> None:
    store.put(NAMESPACE, "k", {"n": 1})
    with pytest.raises(Invalid) as large:
        store.batch([PutOp(NAMESPACE, "k", None), PutOp(NAMESPACE, "large", {"text": "x" * 20_000})])
    [field] = large.value.fields
    assert (field.field, field.limit, int(str(field.value)) > 20_000) == ("value", 16_384, True)
    assert store.get(NAMESPACE, "k") is not None, "nothing of a refused batch is written"
    for namespace, key, wrong in (
        (NAMESPACE, "k" * 600, "key"),
        (("x" * 300,), "k", "namespace"),
        (tuple("x" * 61), "k", "namespace"),
    ):
        with pytest.raises(Invalid) as refused:
            store.put(namespace, key, {})
        assert refused.value.fields[0].field == wrong
    for invalid in ((), ("a.b",), ("",), ("langgraph",), ("a\0",)):
        with pytest.raises(InvalidNamespaceError):
            store.put(invalid, "k", {"n": 1})
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("a.b",), "k")])
    with pytest.raises(Invalid):
        store.put(NAMESPACE, "k", {"day": object()})


def test_stores_of_different_names_are_separate(client: Ebbing, name: str) -> None:
    one, two = EbbingStore(client, name=name), EbbingStore(client, name=f"{name}2")
    one.put(NAMESPACE, "k", {"n": 1})
    assert (two.get(NAMESPACE, "k"), two.search(()), two.list_namespaces()) == (None, [], [])


def test_asyncio_calls_run_beside_each_other(client: Ebbing, name: str) -> None:
    async def work(store: EbbingStore) -> None:
        await asyncio.gather(*(store.aput(NAMESPACE, str(n), {"n": n}) for n in range(8)))
        found = await asyncio.gather(*(store.aget(NAMESPACE, str(n)) for n in range(8)))
        assert [item.value["n"] for item in found if item] == list(range(8))
        assert sorted(values(await store.asearch(NAMESPACE, filter={"n": {"$lt": 3}}))) == [0, 1, 2]
        assert await store.alist_namespaces() == [NAMESPACE]
        await store.adelete(NAMESPACE, "0")
        assert await store.aget(NAMESPACE, "0") is None

    async def run() -> None:
        async with AsyncEbbing(timeout=120) as own:
            store = EbbingStore(own, name=name)
            await work(store)
            with pytest.raises(TypeError, match="aget"):
                store.get(NAMESPACE, "1")
        await work(EbbingStore(client, name=f"{name}2"))

    asyncio.run(run())


def test_an_erasure_of_a_person_covers_the_persons_items(client: Ebbing, name: str) -> None:
    store = EbbingStore(client, name=name, subject=lambda namespace: f"{name}-{namespace[1]}")
    for person in ("ann", "bo"):
        store.put(("memories", person), "k", {"n": person})
    client.forget(f"{name}-ann")
    assert store.get(("memories", "ann"), "k") is None
    assert values(store.search(())) == ["bo"]


def test_items_are_kept_unless_the_store_says_otherwise(client: Ebbing, name: str) -> None:
    EbbingStore(client, name=name).put(NAMESPACE, "k", {"n": 1})
    EbbingStore(client, name=f"{name}2", is_kept=False).put(NAMESPACE, "k", {"n": 1})
    [kept], [fading] = client.memories(tag=name), client.memories(tag=f"{name}2")
    leaving = list_leaving(client)
    assert (kept.id in leaving, fading.id in leaving) == (False, True)


def test_langmem_manages_and_searches_memories(store: EbbingStore) -> None:
    manage = create_manage_memory_tool(namespace=("memories", "{user}"), store=store)
    search = create_search_memory_tool(namespace=("memories", "{user}"), store=store)
    ann, bo = ({"configurable": {"user": user}} for user in ("ann", "bo"))

    created = manage.invoke({"content": "Ann is allergic to peanuts", "action": "create"}, config=ann)
    manage.invoke({"content": "Ann plays the violin", "action": "create"}, config=ann)
    key = created.split()[-1]
    found = json.loads(search.invoke({"query": "What is Ann allergic to?"}, config=ann))
    assert (found[0]["key"], found[0]["value"]) == (key, {"content": "Ann is allergic to peanuts"})
    assert json.loads(search.invoke({"query": "peanuts"}, config=bo)) == []

    manage.invoke({"id": key, "content": "Ann is allergic to walnuts", "action": "update"}, config=ann)
    item = store.get(("memories", "ann"), key)
    assert item is not None
    assert item.value == {"content": "Ann is allergic to walnuts"}
    manage.invoke({"id": key, "action": "delete"}, config=ann)
    left = json.loads(search.invoke({"query": "allergic"}, config=ann))
    assert [item["value"]["content"] for item in left] == ["Ann plays the violin"]


def test_langmem_works_with_asyncio(name: str) -> None:
    async def run() -> None:
        async with AsyncEbbing(timeout=120) as client:
            store = EbbingStore(client, name=name)
            manage = create_manage_memory_tool(namespace=("memories",), store=store)
            search = create_search_memory_tool(namespace=("memories",), store=store)
            await manage.ainvoke({"content": "Bo prefers trains", "action": "create"})
            found = json.loads(await search.ainvoke({"query": "How does Bo travel?"}))
            assert [item["value"] for item in found] == [{"content": "Bo prefers trains"}]

    asyncio.run(run())


class State(TypedDict):
    text: str


def test_a_graph_uses_the_store(store: EbbingStore) -> None:
    def remember(state: State, *, store: BaseStore) -> State:
        store.put(NAMESPACE, "last", {"n": state["text"]})
        return state

    graph = StateGraph(State).add_node("remember", remember).add_edge(START, "remember").compile(store=store)
    graph.invoke({"text": "rooibos"})
    item = store.get(NAMESPACE, "last")
    assert item is not None
    assert item.value == {"n": "rooibos"}


def test_the_page_works(client: Ebbing) -> None:
    assert pages.run("langgraph") == pages.output("langgraph")
