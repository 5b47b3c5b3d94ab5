"""`/v1/memories/{id}` and the list over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from app.services.tenants import tenants
from tests.api.caller import Api, fields

SHAPE = {
    *("id", "text", "subject", "thread", "speaker", "external_id", "kind", "tags", "categories", "entities"),
    *("metadata", "occurred_at", "created_at", "updated_at", "accessed_at", "access_count", "tier", "strength"),
    *("importance", "multiplier", "salience", "inferred", "next_due_at", "next_review_at", "status"),
    *("score", "decay_tier", "cross_domain_count", "promoted", "made_by", "review", "summary"),
    *("valid_from", "valid_to", "supersedes", "superseded_by", "role", "expires_at", "links_missing"),
    "source",
}


def lasting(memory: dict[str, Any]) -> dict[str, Any]:
    """Return a memory without the fields that change with time alone."""
    fading = {"strength", "score", "importance", "next_due_at", "review"}
    return {name: value for name, value in memory.items() if name not in fading}


def test_a_memory_has_the_promised_shape(api: Api) -> None:
    [memory_id] = api.remember({"text": "x", "occurred_at": "2026-03-07T12:00:00+02:00"})
    memory = api.get(f"/v1/memories/{memory_id}").json()
    assert memory.keys() == SHAPE
    assert memory["salience"].keys() == {"value", "source", "criteria"}
    assert memory["occurred_at"] == "2026-03-07T10:00:00Z"
    assert (memory["metadata"], memory["tags"], memory["tier"], memory["multiplier"]) == ({}, [], "active", 1.0)


@pytest.mark.parametrize(
    "memory_id", ["x", "0", "%00", "..", "0198a7c2-5e4b-7d31-9c06-3f2b8e1a4d57", "00000000-0000-0000-0000-000000000000"]
)
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_what_names_no_memory_is_404(api: Api, method: str, memory_id: str) -> None:
    answer = api.request(method, f"/v1/memories/{memory_id}", content=b'{"text":"x"}')
    assert answer.status_code in ({404, 405} if memory_id == ".." else {404})
    fields(answer)


def test_an_edit_answers_with_the_memory_as_it_is_then(api: Api) -> None:
    [memory_id] = api.remember({"text": "cat", "subject": "ann", "salience": 0.5})
    answer = api.patch(f"/v1/memories/{memory_id}", json={"text": "dog", "subject": None, "tags": ["a"]})
    assert answer.status_code == 200
    memory = answer.json()
    assert (memory["text"], memory["subject"], memory["tags"], memory["status"]) == ("dog", None, ["a"], "indexed")
    assert memory["salience"] == {"value": 0.5, "source": "caller", "criteria": None}
    assert lasting(memory) == lasting(api.get(f"/v1/memories/{memory_id}").json())


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, None),
        (b"[1]", 422, "body"),
        (b'{"text":""}', 422, "text"),
        (b'{"text":null}', 422, "text"),
        (b'{"kind":"x"}', 422, "kind"),
        (b'{"nickname":1}', 422, "nickname"),
        (b'{"external_id":"k"}', 422, "external_id"),
        (rb'{"metadata":{"a":[1.5,"\u0000"]}}', 422, "metadata"),
        (b'{"occurred_at":"0001-01-01T00:00:00+14:00"}', 422, "occurred_at"),
        (b'{"salience":1e999}', 422, "salience"),
    ],
)
def test_a_bad_edit_changes_nothing(api: Api, body: bytes, status: int, field: str | None) -> None:
    [memory_id] = api.remember({"text": "x", "metadata": {"a": 1}})
    before = lasting(api.get(f"/v1/memories/{memory_id}").json())
    answer = api.patch(f"/v1/memories/{memory_id}", content=body)
    assert answer.status_code == status
    assert fields(answer) == ([field] if field else [])
    assert lasting(api.get(f"/v1/memories/{memory_id}").json()) == before


def test_a_delete_is_final(api: Api) -> None:
    [gone, kept] = api.remember("unicorn", "zebra")
    answer = api.delete(f"/v1/memories/{gone}")
    assert answer.status_code == 202
    assert answer.json().keys() == {"id", "erasure_id", "erase_after", "status"}
    for method in ("GET", "PATCH"):
        assert api.request(method, f"/v1/memories/{gone}", content=b'{"text":"x"}').status_code == 404
    assert [memory["id"] for memory in api.get("/v1/memories").json()["memories"]] == [kept]
    found = api.post("/v1/search", json={"query": "unicorn"}).json()["results"]
    assert gone not in [result["id"] for result in found]


def test_a_delete_names_the_erasure_with_which_it_can_be_cancelled(api: Api) -> None:
    [first] = api.remember({"text": "unicorn", "external_id": "k"})
    [alias] = api.remember({"text": "unicorn again", "external_id": "k"})
    deleted = api.delete(f"/v1/memories/{alias}").json()
    assert deleted["id"] == first
    guardian = tenants.issue_key(api.tenant.tenant_id, "guardian", ["privacy"])
    path = f"/v1/privacy/erasures/{deleted['erasure_id']}"
    assert api.get(path, key=guardian).json()["erase_after"] == deleted["erase_after"]
    assert api.post(f"{path}/cancel", key=guardian).json()["status"] == "cancelled"
    assert api.get(f"/v1/memories/{first}").json()["text"] == "unicorn again"


def test_an_alias_works_wherever_an_id_does(api: Api) -> None:
    [first] = api.remember({"text": "one", "external_id": "k"})
    [alias] = api.remember({"text": "two", "external_id": "k"})
    assert api.get(f"/v1/memories/{alias}").json()["id"] == first
    assert api.patch(f"/v1/memories/{alias}", json={"text": "three"}).json()["id"] == first
    assert api.get(f"/v1/memories/{first}").json()["text"] == "three"
    assert api.delete(f"/v1/memories/{alias}").status_code == 202
    assert api.get(f"/v1/memories/{first}").status_code == 404


def listed(api: Api, **query: Any) -> list[str]:
    """Return the texts of all pages."""
    texts, cursor = [], None
    while True:
        answer = api.get("/v1/memories", params=query | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        texts += [memory["text"] for memory in answer.json()["memories"]]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return texts


def test_lists_are_filtered_and_paged(api: Api) -> None:
    rows = [
        {"text": f"{n}", "subject": "ann" if n % 2 else "bob", "thread": "t" if n < 3 else None, "tags": [f"tag{n}"]}
        for n in range(7)
    ]
    api.remember(*rows)
    newest_first = ["6", "5", "4", "3", "2", "1", "0"]
    for limit in (1, 2, 3, 7, 500):
        assert listed(api, limit=limit) == newest_first
    assert listed(api, subject="ann") == ["5", "3", "1"]
    assert listed(api, thread="t", limit=1) == ["2", "1", "0"]
    assert listed(api, tag="tag4") == ["4"]
    assert listed(api, tier="cold") == []
    assert listed(api, before="2020-01-01T00:00:00Z") == []
    assert len(listed(api, after="2020-01-01T00:00:00+05:00")) == 7
    assert listed(api, kind="episodic") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "é"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "A" * 5000}, "cursor"),
        ({"kind": "x"}, "kind"),
        ({"kind": "\0"}, "kind"),
        ({"tier": "x"}, "tier"),
        ({"subject": "a\0b"}, "subject"),
        ({"subject": ""}, "subject"),
        ({"thread": "x" * 513}, "thread"),
        ({"tag": "\0"}, "tag"),
        ({"after": "yesterday"}, "after"),
        ({"after": "2026-03-07T12:00:00"}, "after"),
        ({"before": "\0"}, "before"),
        ({"before": "0"}, "before"),
        ({"after": "1795175304.5"}, "after"),
        ({"strength_above": "1.5"}, "strength_above"),
        ({"strength_below": "nan"}, "strength_below"),
    ],
)
def test_a_bad_query_is_422_with_its_parameter(api: Api, query: dict[str, Any], field: str) -> None:
    answer = api.get("/v1/memories", params=query)
    assert answer.status_code == 422
    assert fields(answer) == [field]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0", "99999999999999"])
def test_moments_at_the_ends_of_the_calendar_are_no_failure(api: Api, moment: str) -> None:
    api.remember("x")
    for name in ("after", "before"):
        assert api.get("/v1/memories", params={name: moment}).status_code in {200, 422}
        answer = api.post("/v1/search", json={"query": "x", name: moment})
        assert answer.status_code in {200, 422}


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, None),
        (b'{"query":"\xff"}', 400, None),
        (rb'{"query":"\ud800"}', 400, None),
        (b'{"query":"x","tags":' + b"[" * 10**6, 422, "tags[0]"),
        (b'{"query":5}', 422, "query"),
        (rb'{"query":"a\u0000b"}', 422, "query"),
        (b'{"query":"x","limit":0}', 422, "limit"),
        (b'{"query":"x","limit":101}', 422, "limit"),
        (b'{"query":"x","limit":0', 422, "limit"),
        (b'{"query":"x","kinds":["y"]}', 422, "kinds[0]"),
        (b'{"query":"x","subject":""}', 422, "subject"),
        (b'{"query":"x","after":"2026-03-07T12:00:00"}', 422, "after"),
        (b'{"query":"x","extra":1}', 422, "extra"),
        (b'{"query":"x","turn":1}', 422, "turn"),
        (b'{"query":"x","session":"s","turn":-1}', 422, "turn"),
        (b'{"query":"x","session":"","turn":1}', 422, "session"),
        (b'{"vector":[]}', 422, "vector"),
        (b'{"vector":[0,0]}', 422, "vector"),
        (b'{"vector":[1e999]}', 422, "vector[0]"),
    ],
)
def test_a_bad_search_is_refused_with_its_field(api: Api, body: bytes, status: int, field: str | None) -> None:
    answer = api.post("/v1/search", content=body)
    assert answer.status_code == status
    assert fields(answer) == ([field] if field else [])


QUERIES = ["'", "\\", "a & b | !c:*", "((", "%", "😀", "é" * 32_768, "NULL", "<->", "ab\\'cd"]


@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": " "}, {"query": "\u2028"}, {"limit": 3}], ids=str)
def test_a_search_needs_a_query_or_a_vector(api: Api, body: dict[str, Any]) -> None:
    answer = api.post("/v1/search", json=body)
    assert (answer.status_code, fields(answer)) == (422, ["query"])
    assert answer.json()["detail"] == "query must be given, or `vector`"


@pytest.mark.parametrize("query", QUERIES)
def test_any_text_may_be_searched_for(api: Api, query: str) -> None:
    api.remember("x is a letter")
    answer = api.post("/v1/search", json={"query": query})
    assert answer.status_code == 200
    assert answer.json().keys() == {"results", "reranked", "took_ms"}


@pytest.mark.parametrize(
    ("wanted", "field", "value", "limit"),
    [({"query": "x" * 32_769}, "query", 32_769, 32_768), ({"vector": [1.0, 2.0]}, "vector", 2, 256)],
)
def test_what_is_too_long_or_of_another_size_is_refused_with_both_numbers(
    api: Api, wanted: dict[str, Any], field: str, value: int, limit: int
) -> None:
    answer = api.post("/v1/search", json=wanted)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert (error["field"], error["value"], error["limit"]) == (field, value, limit)


def test_search_finds_by_words_and_filters(api: Api) -> None:
    cat, _ = api.remember({"text": "The cat sleeps", "subject": "ann"}, {"text": "The cat eats", "subject": "bob"})
    answer = api.post("/v1/search", json={"query": "cat", "subject": "ann", "explain": True})
    [found] = answer.json()["results"]
    assert (found["id"], found["text"]) == (cat, "The cat sleeps")
    assert found["score"] > 0
    assert found["explain"]["words"] == 0.2, "maximum word score times its weight"
    assert found["explain"]["ranks"]["words"] == 1
    assert found["explain"]["matched"].keys() == {"cat"}
