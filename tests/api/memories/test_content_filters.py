"""Filters that lists and searches share: seed 003, "category … returned in search results", and fields beside it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from app.domain.ingest.memory import LABELS_MAX
from app.domain.search.content_filters import FILTERS, IDS_MAX, METADATA_FILTER_MAX_BYTES
from app.domain.search.request import SearchRequest
from app.services.embedding import tenant_indexes
from app.services.search.search import search
from app.store.core import database
from app.store.memories import content_filters
from app.store.search import indexed_candidates
from tests.api.caller import Api

PATH = "/v1/memories"
MEMORIES: list[dict[str, Any]] = [
    {
        "text": "tea one",
        "categories": ["health", "work"],
        "entities": ["Ann", "Bo"],
        "speaker": "Ann",
        "external_id": "k1",
        "metadata": {"source": "crm", "rank": 1, "labels": ["a", "b"], "deep": {"x": [1, {"y": None}], "z": True}},
    },
    {
        "text": "tea two",
        "categories": ["work"],
        "entities": ["Ann"],
        "speaker": "ann",
        "external_id": "k2",
        "metadata": {"source": "crm", "rank": 2, "labels": "a", "deep": {"x": [], "z": False}},
    },
    {"text": "tea three", "metadata": {"source": "mail", "rank": "1", "labels": ["b"]}},
    {"text": "tea four"},
]


@pytest.fixture
def ids(api: Api) -> list[str]:
    api.remember({"text": "tea zero", "external_id": "k2"})  # its id becomes an alias
    return [api.remember(memory)[0] for memory in MEMORIES]


def listed(api: Api, **filters: Any) -> set[str]:
    """Return the texts that a list returns; the filters are those of a search."""
    if "metadata" in filters:
        filters["metadata"] = json.dumps(filters["metadata"])
    found = api.get(PATH, params=filters).json()["memories"]
    return {memory["text"].split()[1] for memory in found}


def searched(api: Api, **filters: Any) -> set[str]:
    answer = api.post("/v1/search", json={"query": "tea", "reinforce": False, "limit": 50, **filters})
    return {result["text"].split()[1] for result in answer.json()["results"]}


ALL = {"one", "two", "three", "four"}
CASES: list[tuple[dict[str, Any], set[str]]] = [
    ({"categories": ["health"]}, {"one"}),
    ({"categories": ["health", "work"]}, {"one", "two"}),
    ({"categories": ["Health"]}, set()),
    ({"entities": ["Ann"]}, {"one", "two"}),
    ({"entities": ["Ann", "Bo"]}, {"one"}),
    ({"speaker": "Ann"}, {"one"}),
    ({"external_id": "k2"}, {"two"}),
    ({"external_id": "k"}, set()),
    ({"external_ids": ["k1", "k2", "k3"]}, {"one", "two"}),
    ({"external_ids": ["K1"]}, set()),
    ({"metadata": {"source": "crm"}}, {"one", "two"}),
    ({"metadata": {"source": "crm", "rank": 1}}, {"one"}),
    ({"metadata": {"rank": "1"}}, {"three"}),
    ({"metadata": {"rank": 1.0}}, {"one"}),
    ({"metadata": {"labels": ["b"]}}, {"one", "three"}),
    ({"metadata": {"labels": ["b", "a"]}}, {"one"}),
    ({"metadata": {"labels": "a"}}, {"two"}),
    ({"metadata": {"deep": {"z": True}}}, {"one"}),
    ({"metadata": {"deep": {"x": [{"y": None}]}}}, {"one"}),
    ({"metadata": {"deep": {"x": []}}}, {"one", "two"}),
    ({"metadata": {"nothing": None}}, set()),
    ({"metadata": {"source": "crm"}, "categories": ["health"], "speaker": "Ann"}, {"one"}),
    ({"metadata": {"source": "crm"}, "entities": ["Cy"]}, set()),
    ({"metadata": {"source": "mail"}, "kinds": ["system"]}, set()),
]


def test_lists_and_searches_filter_alike(api: Api, ids: list[str]) -> None:
    assert listed(api) == searched(api) == ALL
    for filters, expected in CASES:
        as_list = {"kind" if name == "kinds" else name: value for name, value in filters.items()}
        assert (listed(api, **as_list), searched(api, **filters)) == (expected, expected), filters


def test_ids_may_be_aliases_and_unknown(api: Api, ids: list[str]) -> None:
    for wanted, expected in (
        ([ids[0], ids[3]], {"one", "four"}),
        ([ids[1], str(uuid4())], {"two"}),  # the id of the repeat, an alias of the memory
        ([str(uuid4())], set()),
    ):
        assert (listed(api, ids=wanted), searched(api, ids=wanted)) == (expected, expected)


def test_pages_keep_the_filters(api: Api, ids: list[str]) -> None:
    params: dict[str, Any] = {"metadata": '{"source": "crm"}', "limit": 1}
    texts: list[str] = []
    cursor = None
    for _ in range(3):
        body = api.get(PATH, params=params | ({"cursor": cursor} if cursor else {})).json()
        texts += [memory["text"] for memory in body["memories"]]
        cursor = body["next_cursor"]
    assert (sorted(texts), cursor) == (["tea one", "tea two"], None)


def test_results_have_what_they_are_filtered_by(api: Api, ids: list[str]) -> None:
    found = api.post("/v1/search", json={"query": "tea", "reinforce": False}).json()["results"]
    by_text = {result["text"]: result for result in found}
    for memory in MEMORIES:
        result = by_text[memory["text"]]
        for name, default in (("categories", []), ("entities", []), ("metadata", {}), ("speaker", None)):
            assert result[name] == memory.get(name, default)


def test_a_list_takes_every_filter_of_a_search(api: Api) -> None:
    operation = api.get("/openapi.json").json()["paths"][PATH]["get"]
    assert set(FILTERS) <= {parameter["name"] for parameter in operation["parameters"]}
    assert set(FILTERS) <= set(SearchRequest.__struct_fields__)


REFUSED: list[tuple[dict[str, Any], str, int | None]] = [
    ({"categories": [""]}, "categories[0]", 1),
    ({"categories": ["x"] * (LABELS_MAX + 1)}, "categories", LABELS_MAX),
    ({"entities": ["x" * 257]}, "entities[0]", 256),
    ({"entities": ["a\0"]}, "entities[0]", None),
    ({"speaker": ""}, "speaker", 1),
    ({"speaker": "a\0"}, "speaker", None),
    ({"external_id": "x" * 513}, "external_id", 512),
    ({"ids": ["x"]}, "ids[0]", None),
    ({"ids": [str(uuid4())] * (IDS_MAX + 1)}, "ids", IDS_MAX),
    ({"metadata": {}}, "metadata", 1),
    ({"metadata": [1]}, "metadata", None),
    ({"metadata": {"x": "y" * METADATA_FILTER_MAX_BYTES}}, "metadata", METADATA_FILTER_MAX_BYTES),
    ({"metadata": {"a": [[[[[[[[1]]]]]]]]}}, "metadata", 8),
    ({"metadata": {"a": "\0"}}, "metadata", None),
]


def test_a_filter_beyond_its_limit_is_refused_alike(api: Api) -> None:
    for filters, field, limit in REFUSED:
        as_list = {name: json.dumps(value) if name == "metadata" else value for name, value in filters.items()}
        for answer in (api.get(PATH, params=as_list), api.post("/v1/search", json={"query": "tea", **filters})):
            [error] = answer.json()["errors"]
            assert (answer.status_code, error["field"], error.get("limit")) == (422, field, limit), error


def test_metadata_of_a_list_must_be_json(api: Api) -> None:
    for given in ("source=crm", "{", '"x"', ""):
        answer = api.get(PATH, params={"metadata": given})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "metadata"), given


@pytest.mark.parametrize("few", [5000, 1, 0])
def test_the_dedicated_indexes_filter_alike(
    api: Api, ids: list[str], monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """The filter by metadata uses its index for few matches, and checks candidates one by one for many."""
    tenant_id = api.tenant.tenant_id
    api.service.configure(search_exact_rows=2)
    while not tenant_indexes.run_slice(tenant_id, None, {}, float("inf")).finished:
        pass
    assert tenant_indexes.needs_maintenance(tenant_id) is False
    monkeypatch.setattr(indexed_candidates, "FEW", few)
    for filters, expected in CASES:
        request = msgspec.convert({"query": "tea", **filters}, SearchRequest)
        found = {result.text.split()[1] for result in search(tenant_id, request)}
        assert found == expected, filters


def test_the_index_on_metadata_sees_the_transactions_tenant_alone(api: Api, ids: list[str]) -> None:
    service = api.service
    other = service.tenant()
    service.send(other.tenant_id, {"text": "theirs", "metadata": {"source": "crm"}})
    service.work()
    for tenant_id, count in ((api.tenant.tenant_id, 2), (other.tenant_id, 1), (uuid4(), 0)):
        request = SearchRequest("tea", metadata={"source": "crm"})
        with database.tenant(tenant_id) as tx:
            assert len(content_filters.list_by_metadata(tx, request, 10)) == count
            assert len(content_filters.list_by_metadata(tx, request, 1)) == min(count, 1)
