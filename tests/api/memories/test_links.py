"""`/v1/links`: create links, list them by cursor, and remove them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.domain.strength.links import LINKS_A_CALL, LINKS_AT_INGEST
from tests.api.caller import Api, fields
from tests.api.memories.test_ingest import worker

PATH = "/v1/links"


@pytest.fixture
def ids(api: Api) -> list[str]:
    return sorted(api.remember("a", "b", "c"))


def listed(api: Api, **params: object) -> list[tuple[str, str, str, float]]:
    """Return source, target, kind and weight of the links that a listing returns."""
    found = api.get(PATH, params=params).json()["links"]
    return [(link["from"], link["to"], link["kind"], link["weight"]) for link in found]


def test_a_link_is_made_and_listed(api: Api, ids: list[str]) -> None:
    a, b, _ = ids
    answer = api.post(PATH, json={"from": a, "to": b, "kind": "caused", "weight": 0.25})
    assert (answer.status_code, answer.json()) == (200, {"added": 1, "updated": 0})
    found = api.get(PATH).json()
    [link] = found["links"]
    assert found["next_cursor"] is None
    assert link.pop("created_at")
    assert link == {"from": a, "to": b, "kind": "caused", "weight": 0.25, "source": "caller"}


def test_the_same_again_changes_the_weight_alone(api: Api, ids: list[str]) -> None:
    a, b, _ = ids
    link = {"from": a, "to": b}
    assert api.post(PATH, json=link).json() == {"added": 1, "updated": 0}
    [made] = api.get(PATH).json()["links"]
    assert api.post(PATH, json=link).json() == {"added": 0, "updated": 0}
    assert api.post(PATH, json=link | {"weight": 0.5}).json() == {"added": 0, "updated": 1}
    assert api.get(PATH).json()["links"] == [made | {"weight": 0.5}]


def test_many_are_made_at_once_and_of_two_alike_the_last_counts(api: Api, ids: list[str]) -> None:
    a, b, c = ids
    given = [
        {"from": a, "to": b, "both_ways": True},
        {"from": a, "to": b, "weight": 0.5},
        {"from": b, "to": c, "kind": "x"},
        {"from": b, "to": c, "weight": 0},
    ]
    assert api.post(PATH, json=given).json() == {"added": 4, "updated": 0}
    assert listed(api) == [
        (a, b, "related", 0.5),
        (b, a, "related", 1),
        (b, c, "related", 0),
        (b, c, "x", 1),
    ]


def test_a_list_is_of_a_memory_of_a_direction_and_of_a_kind(api: Api, ids: list[str]) -> None:
    a, b, c = ids
    ab, bc, ca = ({"from": x, "to": y, "kind": kind} for x, y, kind in ((a, b, "x"), (b, c, "x"), (c, a, "y")))
    api.post(PATH, json=[ab, bc, ca])

    def ends(**params: object) -> list[tuple[str, str]]:
        return [(link[0], link[1]) for link in listed(api, **params)]

    assert ends(memory=a) == [(a, b), (c, a)]
    assert ends(**{"from": a}) == [(a, b)]
    assert ends(to=a) == [(c, a)]
    assert ends(memory=a, kind="y") == [(c, a)]
    assert ends(**{"from": b, "to": c}) == [(b, c)]
    assert ends(kind="x") == [(a, b), (b, c)]
    assert ends(memory=a, to=c) == []


def test_pages_hold_every_link_once(api: Api, ids: list[str]) -> None:
    a, *others = ids
    api.post(PATH, json=[{"from": a, "to": to, "kind": f"k{n}\u00e9"} for n in range(4) for to in others])
    whole = api.get(PATH).json()["links"]
    assert len(whole) == 8
    for params in ({}, {"memory": a}, {"from": a}):
        pages, cursor = [], None
        while True:
            page = api.get(PATH, params={**params, "limit": 3} | ({"cursor": cursor} if cursor else {})).json()
            pages += page["links"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert pages == whole


def test_links_are_removed_by_their_ends_their_kind_or_their_memory(api: Api, ids: list[str]) -> None:
    a, b, c = ids
    every = [{"from": a, "to": b, "both_ways": True}, {"from": a, "to": b, "kind": "x"}, {"from": c, "to": a}]

    def removed(**params: object) -> Any:
        api.post(PATH, json=every)
        answer = api.delete(PATH, params=params)
        return answer.json()["removed"], len(listed(api))

    assert removed(**{"from": a, "to": b, "kind": "related"}) == (1, 3)
    assert removed(**{"from": a, "to": b}) == (2, 2)
    assert removed(**{"from": a, "to": b, "both_ways": True}) == (3, 1)
    assert removed(**{"from": a}) == (2, 2)
    assert removed(to=a) == (2, 2)
    assert removed(memory=a, kind="x") == (1, 3)
    assert removed(memory=a) == (4, 0)


def test_removing_needs_a_memory_to_be_named(api: Api, ids: list[str]) -> None:
    api.post(PATH, json={"from": ids[0], "to": ids[1]})
    for params in ({}, {"kind": "related"}):
        answer = api.delete(PATH, params=params)
        assert (answer.status_code, fields(answer)) == (422, ["memory"])
    assert len(listed(api)) == 1


def test_what_names_no_memory_is_404_and_nothing_is_made(api: Api, ids: list[str]) -> None:
    [foreign] = api.remember("foreign", key=api.service.tenant().key)
    a, b, gone = ids
    assert api.delete(f"/v1/memories/{gone}").status_code == 202
    for unknown in (str(uuid4()), foreign, gone):
        answer = api.post(PATH, json=[{"from": a, "to": b}, {"from": a, "to": unknown}])
        assert (answer.status_code, fields(answer)) == (404, ["[1].to"])
        assert answer.json()["errors"][0]["value"] == unknown
        answer = api.post(PATH, json={"from": unknown, "to": a})
        assert (answer.status_code, fields(answer)) == (404, ["from"])
        for name in ("memory", "from", "to"):
            assert api.get(PATH, params={name: unknown}).status_code == 404
            assert api.delete(PATH, params={name: unknown}).status_code == 404
    assert listed(api) == []


def test_a_memory_that_waits_can_be_linked_soon(api: Api, ids: list[str]) -> None:
    [waiting] = api.remember("waits", work=False)
    link = {"from": waiting, "to": ids[0]}
    answer = api.post(PATH, json=link)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert listed(api, memory=waiting) == []
    assert api.delete(PATH, params={"memory": waiting}).json() == {"removed": 0}
    api.service.work()
    assert api.post(PATH, json=link).json()["added"] == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"to": "A"}, "from"),
        ({"from": "A"}, "to"),
        ({"from": "A", "to": "A"}, "to"),
        ({"from": "x", "to": "A"}, "from"),
        ({"from": "A", "to": "B", "kind": ""}, "kind"),
        ({"from": "A", "to": "B", "kind": "x" * 65}, "kind"),
        ({"from": "A", "to": "B", "kind": "a\0"}, "kind"),
        ({"from": "A", "to": "B", "weight": 1.01}, "weight"),
        ({"from": "A", "to": "B", "weight": -0.01}, "weight"),
        ({"from": "A", "to": "B", "both_ways": 1}, "both_ways"),
        ({"from": "A", "to": "B", "since": 1}, "since"),
        ([{"from": "A", "to": "B"}, {"from": "B", "to": "B"}], "[1].to"),
        ([{"from": "A", "to": "B"}, {"from": "B", "to": "A", "weight": 2}], "[1].weight"),
        ([], "body"),
        ([{"from": "A", "to": "B"}] * (LINKS_A_CALL + 1), "body"),
    ],
)
def test_a_bad_link_is_refused_with_its_field(api: Api, ids: list[str], given: Any, field: str) -> None:
    named = {"A": ids[0], "B": ids[1]}

    def filled(link: dict[str, Any]) -> dict[str, Any]:
        return {name: named.get(str(value), value) for name, value in link.items()}

    body = list(map(filled, given)) if isinstance(given, list) else filled(given)
    answer = api.post(PATH, json=body)
    assert (answer.status_code, fields(answer)) == (422, [field])
    assert listed(api) == []


@pytest.mark.parametrize("weight", [0, 1e-320, 1e-39, 1])
def test_any_weight_can_be_kept(api: Api, ids: list[str], weight: float) -> None:
    assert api.post(PATH, json={"from": ids[0], "to": ids[1], "weight": weight}).json()["added"] == 1
    assert listed(api)[0][3] == pytest.approx(weight, abs=1e-30)


@pytest.mark.parametrize("cursor", ["x", "AAAA", "\u00e9", "A" * 44, "A" * 43 + "A=", "%00"])
def test_a_cursor_of_nobodys_is_refused(api: Api, cursor: str) -> None:
    answer = api.get(PATH, params={"cursor": cursor})
    assert (answer.status_code, fields(answer)) == (422, ["cursor"])


def test_links_of_another_tenant_are_neither_seen_nor_removed(api: Api, ids: list[str]) -> None:
    api.post(PATH, json={"from": ids[0], "to": ids[1]})
    other = api.service.tenant()
    mine = api.remember("mine", "also mine", key=other.key)
    assert api.get(PATH, key=other.key).json()["links"] == []
    cursor = api.get(PATH, params={"limit": 1}).json()["next_cursor"]
    assert api.get(PATH, key=other.key, params={"cursor": cursor}).json()["links"] == []
    assert api.delete(PATH, key=other.key, params={"memory": ids[0]}).status_code == 404
    assert api.delete(PATH, key=other.key, params={"memory": mine[0]}).json() == {"removed": 0}
    assert len(listed(api)) == 1


def test_links_at_ingest_are_added_and_missing_ones_are_told(api: Api, ids: list[str]) -> None:
    """Seed 003: `POST /store` stores a memory with its associations."""
    given = [{"to": ids[0], "kind": "about", "weight": 0.5}, {"to": "ticket"}]
    with worker(api.service):
        answer = api.post("/v1/memories", json={"text": "d", "links": given}, headers={"Prefer": "wait=20"})
    [d] = answer.json()["ids"]
    told = {"to": "ticket", "kind": "related", "weight": 1.0, "reason": "missing"}
    assert (answer.status_code, answer.json()["links_missing"]) == (200, [{"id": d, **told}])
    assert api.get(f"/v1/memories/{d}").json()["links_missing"] == [told]
    assert api.get(f"/v1/memories/{ids[0]}").json()["links_missing"] == []
    assert listed(api) == [(d, ids[0], "about", 0.5)]
    [ticket] = api.remember({"text": "the ticket", "external_id": "ticket"})
    assert listed(api, to=ticket) == [(d, ticket, "related", 1.0)]
    assert api.get(f"/v1/memories/{d}").json()["links_missing"] == []


@pytest.mark.parametrize(
    ("link", "field", "limit"),
    [
        ({}, "to", None),
        ({"to": ""}, "to", 1),
        ({"to": "x" * 513}, "to", 512),
        ({"to": "a\0b"}, "to", None),
        ({"to": 5}, "to", None),
        ({"to": "x", "kind": ""}, "kind", 1),
        ({"to": "x", "kind": "k" * 65}, "kind", 64),
        ({"to": "x", "weight": 1.5}, "weight", 1),
        ({"to": "x", "weight": -1}, "weight", 0),
        ({"to": "x", "wieght": 1}, "wieght", None),
        ({"to": "own"}, "to", None),
    ],
)
def test_a_link_at_ingest_is_checked_at_the_door(api: Api, link: object, field: str, limit: object) -> None:
    for body, at in (
        ({"text": "x", "external_id": "own", "links": [link]}, f"links[0].{field}"),
        ([{"text": "x"}, {"text": "x", "external_id": "own", "links": [{"to": "y"}, link]}], f"[1].links[1].{field}"),
    ):
        answer = api.post("/v1/memories", json=body)
        [error] = answer.json()["errors"]
        assert (answer.status_code, error["field"], error.get("limit")) == (422, at, limit), error


def test_the_number_of_links_at_ingest_is_limited(api: Api) -> None:
    most = [{"to": f"name {n}"} for n in range(LINKS_AT_INGEST)]
    [memory_id] = api.remember({"text": "x", "links": most})
    assert len(api.get(f"/v1/memories/{memory_id}").json()["links_missing"]) == LINKS_AT_INGEST
    [error] = api.post("/v1/memories", json={"text": "x", "links": [*most, {"to": "y"}]}).json()["errors"]
    assert (error["field"], error["value"], error["limit"]) == ("links", LINKS_AT_INGEST + 1, LINKS_AT_INGEST)
    assert api.patch(f"/v1/memories/{memory_id}", json={"links": []}).status_code == 422, "edits have no links"
    chat = {"messages": [{"role": "user", "content": "x"}], "links": most}
    [error] = api.post("/v1/memories", json=chat).json()["errors"]
    assert (error["field"], error["message"]) == ("links", "can't be given beside messages")
