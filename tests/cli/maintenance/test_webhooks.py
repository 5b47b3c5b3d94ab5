"""`ebbing webhooks`: create, list, show, update, rotate, test, deliveries, replay, delete."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

PATH = "/v1/webhooks"
RECEIVER = "https://example.org/hook"
SECRET = "whsec_c2VjcmV0"


def hook(**more: Any) -> dict[str, Any]:
    return {
        "id": "w1",
        "url": RECEIVER,
        "description": "reports",
        "types": None,
        "format": "standard",
        "status": "enabled",
        "reason": None,
        "old_secret_until": None,
        "failing_since": None,
        "succeeded_at": None,
        "pending": 3,
        "failed": 1_200,
        "missed": 0,
        **more,
    }


def delivery(**more: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "id": "d1",
        "type": "memory.stored",
        "status": "pending",
        "attempts": 2,
        "next_at": (now + timedelta(minutes=30)).isoformat(),
        "attempted_at": (now - timedelta(minutes=5)).isoformat(),
        "response": 500,
        "outcome": "status",
        **more,
    }


def deliveries(*found: dict[str, Any]) -> Reply:
    return Reply(200, {"deliveries": list(found), "next_cursor": None})


def test_a_webhook_is_created_and_its_secret_printed(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(201, hook(secret=SECRET))
    assert cli("webhooks", "create", RECEIVER).out.splitlines() == ["webhook w1", f"secret {SECRET}"]
    options = ("--type", "memory.stored", "--type", "memory.deleted", "--description", "reports", "--cloudevents")
    assert json.loads(cli("webhooks", "create", RECEIVER, *options, "--json").out)["secret"] == SECRET
    assert [asked.json for asked in api.asked] == [
        {"url": RECEIVER},
        {
            "url": RECEIVER,
            "types": ["memory.stored", "memory.deleted"],
            "description": "reports",
            "format": "cloudevents",
        },
    ]


def test_a_refused_receiver_is_reported_with_the_reason(cli: Cli, api: Stub) -> None:
    error = {"field": "url", "message": "has a private address"}
    api.replies[f"POST {PATH}"] = Reply(422, problem(422, "invalid", error))
    done = cli("webhooks", "create", "https://10.0.0.8/")
    assert done.code == 1
    assert "url has a private address" in done.err


def test_webhooks_are_listed_with_their_states(cli: Cli, api: Stub) -> None:
    found = [
        hook(),
        hook(id="w2", failing_since="2026-11-20T08:00:00Z"),
        hook(id="w3", status="disabled", reason="gone"),
        hook(id="w4", status="paused", failing_since="2026-11-20T08:00:00Z"),
    ]
    api.replies[f"GET {PATH}"] = Reply(200, {"webhooks": found, "next_cursor": None})
    rows = cli("webhooks", "list").out.splitlines()[2:]
    states = ("enabled", "failing since 2026-11-20 08:00 UTC", "disabled (gone)", "paused")
    for row, name, state in zip(rows, ("w1", "w2", "w3", "w4"), states, strict=True):
        assert row.split()[0] == name
        assert f"  {state}  " in row
        assert "1,200" in row
    assert [one["id"] for one in json.loads(cli("webhooks", "list", "-n", "2", "--json").out)["webhooks"]] == [
        "w1",
        "w2",
    ]


def test_a_webhook_is_shown_with_the_end_of_its_old_secret(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/w1"] = [
        Reply(200, hook()),
        Reply(200, hook(types=["memory.stored", "memory.deleted"], old_secret_until="2026-11-24T10:00:00Z")),
    ]
    first = cli("webhooks", "show", "w1").out
    assert "last success  none" in first
    assert "old secret" not in first
    second = cli("webhooks", "show", "w1").out
    assert "memory.stored, memory.deleted" in second
    assert "signs until 2026-11-24 10:00 UTC" in second


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("--pause",), {"status": "paused"}),
        (("--enable",), {"status": "enabled"}),
        (("--all-types", "--receiver", "https://b.example/"), {"types": None, "url": "https://b.example/"}),
        (("--type", "memory.scored", "--description", ""), {"types": ["memory.scored"], "description": ""}),
    ],
    ids=str,
)
def test_a_webhook_is_changed(cli: Cli, api: Stub, words: tuple[str, ...], sent: dict[str, Any]) -> None:
    api.replies[f"PATCH {PATH}/w1"] = Reply(200, hook(status="paused"))
    assert cli("webhooks", "update", "w1", *words).out == "webhook w1: paused\n"
    assert [asked.json for asked in api.asked] == [sent]


@pytest.mark.parametrize(
    "words",
    [
        ("update", "w1"),
        ("update", "w1", "--all-types", "--type", "memory.stored"),
        ("replay", "w1"),
        ("replay", "w1", "d1", "--failed-since", "2026-11-20"),
        ("replay", "w1", "--failed-since", "yesterday"),
        ("rotate", "w1", "--overlap-hours", "169"),
    ],
    ids=" ".join,
)
def test_options_that_contradict_or_lack_are_refused_without_a_request(
    cli: Cli, api: Stub, words: tuple[str, ...]
) -> None:
    assert cli("webhooks", *words).code == 2
    assert api.asked == []


def test_a_webhook_is_deleted_only_when_confirmed(cli: Cli, api: Stub) -> None:
    api.replies[f"DELETE {PATH}/w1"] = Reply(204)
    assert cli("webhooks", "delete", "w1", given="n\n").code == 1
    assert api.asked == []
    assert "deleted webhook w1" in cli("webhooks", "delete", "w1", given="y\n").out
    assert json.loads(cli("webhooks", "delete", "w1", "--yes", "--json").out) == {"id": "w1", "deleted": True}
    assert [asked.method for asked in api.asked] == ["DELETE", "DELETE"]


def test_the_new_secret_of_a_rotation_is_printed(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/w1/rotate"] = Reply(200, hook(secret=SECRET))
    assert cli("webhooks", "rotate", "w1").out == f"secret {SECRET}\n"
    assert cli("webhooks", "rotate", "w1", "--overlap-hours", "0").code == 0
    assert [asked.json for asked in api.asked] == [{"overlap_hours": 24}, {"overlap_hours": 0}]


def test_a_test_waits_for_the_result_of_its_own_delivery(cli: Cli, api: Stub, pauses: list[float]) -> None:
    other = delivery(id="d0", status="failed")
    api.replies[f"POST {PATH}/w1/test"] = Reply(202, {"delivery_id": "d1"})
    api.replies[f"GET {PATH}/w1/deliveries"] = [
        deliveries(other),
        deliveries(delivery(outcome=None, response=None, attempts=0), other),
        deliveries(delivery(status="delivered", outcome="delivered", response=204), other),
    ]
    done = cli("webhooks", "test", "w1")
    assert (done.code, done.out) == (0, "delivered 204\n")
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"outcome": "status", "response": 500}, "status 500"),
        ({"outcome": "timeout", "response": None}, "timeout"),
    ],
    ids=["status", "timeout"],
)
def test_a_test_that_is_not_accepted_fails(cli: Cli, api: Stub, result: dict[str, Any], shown: str) -> None:
    api.replies[f"POST {PATH}/w1/test"] = Reply(202, {"delivery_id": "d1"})
    api.replies[f"GET {PATH}/w1/deliveries"] = deliveries(delivery(status="failed", **result))
    done = cli("webhooks", "test", "w1")
    assert done.code == 1
    assert done.err.rstrip().endswith(f"the receiver didn't accept the test: {shown}")
    done = cli("webhooks", "test", "w1", "--json")
    assert (done.code, json.loads(done.out)["outcome"]) == (1, result["outcome"])


def test_a_test_without_a_result_points_to_the_doctor(
    cli: Cli, api: Stub, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.maintenance.webhooks.TEST_SECONDS", 0.0)
    api.replies[f"POST {PATH}/w1/test"] = Reply(202, {"delivery_id": "d1"})
    api.replies[f"GET {PATH}/w1/deliveries"] = deliveries(delivery())
    done = cli("webhooks", "test", "w1")
    assert done.code == 1
    assert "`ebbing doctor`" in done.err


def test_deliveries_are_listed_with_the_last_result_and_the_next_attempt(cli: Cli, api: Stub) -> None:
    accepted = delivery(id="d2", status="delivered", outcome="delivered", response=204, next_at=None)
    new = delivery(id="d3", attempts=0, outcome=None, response=None, attempted_at=None)
    api.replies[f"GET {PATH}/w1/deliveries"] = deliveries(delivery(), accepted, new)
    first, second, third = cli("webhooks", "deliveries", "w1", "--status", "pending", "-n", "7").out.splitlines()[2:]
    assert "status 500, 5 minutes ago" in first
    assert "in 30 minutes" in first
    assert "delivered 204, 5 minutes ago" in second
    assert " in " not in second
    assert third.split()[:4] == ["d3", "memory.stored", "pending", "0"]
    assert "ago" not in third
    assert [asked.path for asked in api.asked] == [f"{PATH}/w1/deliveries?limit=7&status=pending"]


def test_deliveries_are_replayed_by_their_ids_or_since_a_day(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/w1/replay"] = [
        Reply(202, {"replayed": 2}),
        Reply(202, {"replayed": 1}),
        Reply(202, {"replayed": 1_000}),
    ]
    assert cli("webhooks", "replay", "w1", "d1", "d2").out == "2 deliveries to send again\n"
    assert cli("webhooks", "replay", "w1", "--failed-since", "2026-11-20").out == "1 delivery to send again\n"
    assert "repeat the command" in cli("webhooks", "replay", "w1", "--failed-since", "2026-11-20T10:30+02:00").out
    assert [asked.json for asked in api.asked] == [
        {"ids": ["d1", "d2"]},
        {"failed_since": "2026-11-20T00:00:00+00:00"},
        {"failed_since": "2026-11-20T10:30:00+02:00"},
    ]
