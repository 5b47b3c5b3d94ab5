"""`/v1/admin/dead-letters` returns metadata only: the caller's own letters, or any tenant's with the scope `admin`."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.services.ingest import drain
from app.store.core import database
from app.store.ingest import dead_letters
from tests.api.caller import Api, fields
from tests.service import Tenant

PATH = "/v1/admin/dead-letters"
SECRET = "zanzibar"
SHAPE = {
    *("id", "stage", "reason", "attempts", "memories", "memory_ids", "bytes", "entry_id", "created_at"),
    *("replayable", "discarded_at", "discard_reason", "replays", "runbook"),
}


def poison(api: Api, tenant: Tenant | None = None) -> str:
    """Create a dead letter from an entry that isn't JSON, and return its id."""
    tenant_id = (tenant or api.tenant).tenant_id
    api.service.post(tenant_id, f"no JSON: {SECRET}".encode())
    drain.drain_streams()
    return str(api.service.one("SELECT letter_id FROM dead_letters ORDER BY created_at DESC LIMIT 1"))


def set_aside(api: Api, stage: str, reason: str) -> str:
    with database.tenant(api.tenant.tenant_id) as tx:
        made = dead_letters.add(tx, api.tenant.tenant_id, stage=stage, reason=reason, attempts=3, memory_ids=[uuid4()])
    return str(made)


def listed(api: Api, **params: Any) -> list[str]:
    return [letter["id"] for letter in api.get(PATH, params=params).json()["dead_letters"]]


def test_a_letter_is_shown_without_its_content(api: Api) -> None:
    letter_id = poison(api)
    answer = api.get(PATH)
    [letter] = answer.json()["dead_letters"]
    assert letter.keys() == SHAPE
    assert (letter["id"], letter["stage"], letter["reason"]) == (letter_id, "drain", "Unreadable")
    assert (letter["memories"], letter["memory_ids"], letter["bytes"]) == (1, [], len(SECRET) + 9)
    assert letter["replayable"] is True
    [reason] = answer.json()["reasons"]
    assert reason == {
        "stage": "drain",
        "reason": "Unreadable",
        "count": 1,
        "came_back": 0,
        "replays": 0,
        "runbook": "/ops/runbook#unreadable",
    }
    assert letter["runbook"] == reason["runbook"]
    assert api.get(f"{PATH}/{letter_id}").json() == letter
    for path in (PATH, f"{PATH}/{letter_id}"):
        assert SECRET not in api.get(path).text


def test_letters_are_listed_by_stage_and_reason_page_by_page(api: Api) -> None:
    made = [set_aside(api, stage, reason) for stage in ("index", "embed") for reason in ("A", "B")]
    assert listed(api) == made[::-1]
    assert listed(api, stage="index") == made[1::-1]
    assert listed(api, reason="A") == [made[2], made[0]]
    assert listed(api, stage="embed", reason="B") == [made[3]]
    first = api.get(PATH, params={"limit": 3}).json()
    second = api.get(PATH, params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [letter["id"] for page in (first, second) for letter in page["dead_letters"]] == made[::-1]
    assert second["next_cursor"] is None
    assert {(row["stage"], row["reason"], row["count"]) for row in first["reasons"]} == {
        (stage, reason, 1) for stage in ("index", "embed") for reason in ("A", "B")
    }


def test_a_replay_is_answered_with_what_was_replayed(api: Api) -> None:
    letter_id = poison(api)
    answer = api.post(f"{PATH}/{letter_id}/replay")
    assert answer.status_code == 202
    assert answer.json()["id"] == letter_id
    assert api.post(f"{PATH}/{letter_id}/replay").status_code == 404
    drain.drain_streams()
    [again] = listed(api)
    assert again != letter_id


def test_all_of_a_reason_are_replayed(api: Api) -> None:
    for _ in range(3):
        poison(api)
    kept = set_aside(api, "index", "A")
    done = api.post(f"{PATH}/replay", json={"reason": "Unreadable", "stage": "drain"}).json()
    assert (done["replayed"], done["left"]) == (3, 0)
    drain.drain_streams()
    again = api.post(f"{PATH}/replay", json={"reason": "Unreadable", "before": done["before"]}).json()
    assert (again["replayed"], again["before"]) == (0, done["before"])
    assert len(listed(api)) == 4
    assert kept in listed(api)


def test_a_full_queue_refuses_a_replay_like_a_request(api: Api) -> None:
    letter_id = poison(api)
    api.remember("waits", work=False)
    api.service.configure(tenant_backlog_entries=1)
    for path, given in ((f"{PATH}/{letter_id}/replay", {}), (f"{PATH}/replay", {"json": {"reason": "Unreadable"}})):
        answer = api.post(path, **given)
        assert answer.status_code == 429
        assert answer.headers["retry-after"]
        fields(answer)
    assert listed(api) == [letter_id]


def test_a_letter_is_discarded_for_a_reason(api: Api) -> None:
    letter_id = poison(api)
    answer = api.post(f"{PATH}/{letter_id}/discard", json={"reason": "a client's mistake"})
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["discard_reason"], shown["bytes"], shown["replayable"]) == ("a client's mistake", 0, False)
    assert shown["discarded_at"] is not None
    assert listed(api) == []
    assert listed(api, discarded=True) == [letter_id]
    assert api.get(f"{PATH}/{letter_id}").json() == shown
    assert api.get("/v1/stats").json()["dead_letters"] == 0
    for path, given in (
        (f"{PATH}/{letter_id}/discard", {"json": {"reason": "again"}}),
        (f"{PATH}/{letter_id}/replay", {}),
    ):
        answer = api.post(path, **given)
        assert answer.status_code == 409
        fields(answer)


def test_all_of_a_reason_are_discarded(api: Api) -> None:
    made = [set_aside(api, stage, "A") for stage in ("index", "index", "embed")]
    done = api.post(f"{PATH}/discard", json={"stage": "index", "reason": "A", "because": "old"}).json()
    assert (done["discarded"], done["left"]) == (2, 0)
    assert listed(api) == made[2:]
    found = api.get(PATH, params={"discarded": True}).json()
    assert {letter["discard_reason"] for letter in found["dead_letters"]} == {"old"}
    [reason] = found["reasons"]
    assert (reason["stage"], reason["reason"], reason["count"]) == ("index", "A", 2)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/replay", {}, "reason"),
        ("/replay", {"reason": ""}, "reason"),
        ("/replay", {"reason": "x", "before": "2026-01-01T00:00:00"}, "before"),
        ("/replay", {"reason": "x", "all": True}, "all"),
        ("/discard", {"reason": "x"}, "because"),
        ("/discard", {"reason": "x", "because": "y" * 201}, "because"),
        ("/{id}/discard", {}, "reason"),
        ("/{id}/discard", {"reason": ""}, "reason"),
        ("/{id}/discard", {"reason": "a\0b"}, "reason"),
    ],
    ids=str,
)
def test_a_body_that_is_wrong_says_which_field(api: Api, path: str, body: dict[str, Any], field: str) -> None:
    answer = api.post(PATH + path.format(id=uuid4()), json=body)
    assert answer.status_code == 422
    assert fields(answer) == [field]


@pytest.mark.parametrize("params", [{"stage": "\0"}, {"reason": "\0"}, {"limit": 0}, {"cursor": "x"}], ids=str)
def test_a_list_that_cannot_be_given_says_why(api: Api, params: dict[str, Any]) -> None:
    answer = api.get(PATH, params=params)
    assert answer.status_code == 422
    assert fields(answer) == list(params)


def test_another_tenants_letters_need_the_scope_admin(api: Api) -> None:
    other = api.service.tenant()
    letter_id = poison(api, other)
    named = {"params": {"tenant_id": str(other.tenant_id)}}
    for path in (PATH, f"{PATH}/{letter_id}"):
        assert api.get(path, **named).status_code == 403
        assert api.get(path, key=api.admin.key, **named).status_code == 200
    assert listed(api, tenant_id=str(api.tenant.tenant_id)) == []
    assert api.get(PATH, key=api.admin.key).json()["dead_letters"] == [], "the caller's own tenant is the default"
    for path, given in (
        (f"{PATH}/{letter_id}/discard", {"json": {"reason": "x"}}),
        (f"{PATH}/replay", {"json": {"reason": "Unreadable"}}),
        (f"{PATH}/{letter_id}/replay", {}),
    ):
        assert api.post(path, **given, **named).status_code == 403
    assert api.post(f"{PATH}/{letter_id}/replay", key=api.admin.key, **named).status_code == 202
    drain.drain_streams()
    assert len(api.get(PATH, key=other.key).json()["dead_letters"]) == 1
