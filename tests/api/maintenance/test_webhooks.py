"""`/v1/webhooks`: creation, refused receivers, changes, tests, deliveries and replays; `ebbing webhooks` uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.clients import webhooks as receivers
from app.domain.webhooks.endpoint import WEBHOOKS_MAX
from app.services.webhooks import delivery
from tests.api.caller import Api
from tests.services.webhooks.receivers import receiver

PATH = "/v1/webhooks"
PUBLIC = "93.184.215.14"

REFUSED_URLS = {
    "ftp://example.org/": "must be a URL",
    "example.org/hook": "must be a URL",
    "https://": "must be a URL",
    "https://example.org:0/": "must be a URL",
    "https://ann:secret@example.org/": "user name or a password",
    "https://example.org/#part": "fragment",
    "https://example.org/a b": "encoded URL",
    "https://127.1/": "usual form",
    "https://0x7f000001/": "usual form",
    "https://2130706433/": "usual form",
    "https://127.0.0.1/": "private address",
    "https://10.0.0.8/": "private address",
    "https://[::1]/": "private address",
    "https://[::ffff:10.0.0.8]/": "private address",
    "https://169.254.169.254/latest": "link-local",
    "https://[fd00:ec2::254]/": "metadata",
    "https://0.0.0.0/": "unspecified",
    f"http://{PUBLIC}/": "https",
}


@pytest.fixture
def named(api: Api) -> Iterator[Api]:
    api.service.configure(webhook_hosts="127.0.0.1")
    receivers.close()
    yield api
    receivers.close()


def create(api: Api, url: str = "http://127.0.0.1:9/hook", **fields: Any) -> dict[str, Any]:
    made = api.post(PATH, json={"url": url, **fields})
    assert made.status_code == 201, made.text
    body: dict[str, Any] = made.json()
    return body


def test_receivers_that_must_not_be_called_are_refused_by_name(api: Api) -> None:
    for url, reason in REFUSED_URLS.items():
        answer = api.post(PATH, json={"url": url})
        assert answer.status_code == 422, url
        [error] = answer.json()["errors"]
        assert error["field"] == "url", url
        assert reason in error["message"], url
    assert api.get(PATH).json()["webhooks"] == []


def test_a_host_with_one_private_address_or_none_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, _port: int) -> list[str]:
        if host == "unknown.example":
            raise OSError
        return [PUBLIC, "192.168.1.4"] if host == "mixed.example" else [PUBLIC]

    monkeypatch.setattr("app.clients.llm.egress.resolve_host", resolve)
    assert "private" in api.post(PATH, json={"url": "https://mixed.example/"}).json()["errors"][0]["message"]
    assert "resolved" in api.post(PATH, json={"url": "https://unknown.example/"}).json()["errors"][0]["message"]
    assert create(api, "https://public.example/")["status"] == "enabled"


def test_metadata_addresses_stay_refused_for_named_hosts(api: Api) -> None:
    api.service.configure(webhook_hosts="169.254.169.254")
    assert api.post(PATH, json={"url": "https://169.254.169.254/"}).status_code == 422


def test_unknown_types_and_empty_changes_name_their_field(named: Api) -> None:
    answer = named.post(PATH, json={"url": "http://127.0.0.1:9/", "types": ["memory.stord"]})
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["field"], error["suggestion"]) == (422, "types[0]", "memory.stored")
    made = create(named)
    assert named.patch(f"{PATH}/{made['id']}", json={}).status_code == 422
    assert named.post(f"{PATH}/{made['id']}/replay", json={}).status_code == 422


def test_the_secret_is_shown_once(named: Api) -> None:
    made = create(named, description="reports", types=["memory.stored"])
    assert made["secret"].startswith("whsec_")
    found = named.get(f"{PATH}/{made['id']}").json()
    assert "secret" not in found
    assert found == {name: value for name, value in made.items() if name != "secret"}
    assert named.post(f"{PATH}/{made['id']}/rotate").json()["secret"] != made["secret"]


def test_a_tenant_has_a_limited_number_of_webhooks(named: Api) -> None:
    made = create(named)
    named.service.rows(
        "INSERT INTO webhooks (tenant_id, webhook_id, url, format, created_by, secret_id, cursor) "
        "SELECT tenant_id, gen_random_uuid(), url, format, created_by, secret_id, 0 "
        "FROM webhooks, generate_series(2, %s)",
        WEBHOOKS_MAX,
    )
    answer = named.post(PATH, json={"url": made["url"]})
    assert (answer.status_code, f"may have {WEBHOOKS_MAX}" in answer.json()["detail"]) == (409, True)


def test_without_a_feed_there_are_no_webhooks(named: Api) -> None:
    assert named.put("/v1/policy", json={"policy": {"changes": {"keep_days": 0}}}).status_code == 200
    answer = named.post(PATH, json={"url": "http://127.0.0.1:9/"})
    assert (answer.status_code, "changes.keep_days" in answer.json()["detail"]) == (409, True)


def test_a_stored_memory_arrives_and_a_delivery_can_be_replayed(named: Api) -> None:
    with receiver() as found:
        made = create(named, found.url, types=["memory.stored"])
        [memory_id] = named.remember("a memory that no message shows")
        delivery.deliver_webhooks()
        [request] = found.requests
        assert request.event["data"]["id"] == memory_id
        assert b"no message" not in request.body
        cursor = request.event["data"]["cursor"]
        assert named.get("/v1/changes", params={"cursor": cursor, "types": "memory.stored"}).json()["changes"] == []
        [one] = named.get(f"{PATH}/{made['id']}/deliveries").json()["deliveries"]
        assert (one["status"], one["message_id"], one["cursor"]) == ("delivered", request.id, cursor)
        replayed = named.post(f"{PATH}/{made['id']}/replay", json={"ids": [one["id"]]})
        assert (replayed.status_code, replayed.json()) == (202, {"replayed": 1})
        delivery.deliver_webhooks()
        assert [each.id for each in found.requests] == 2 * [one["message_id"]]


def test_a_test_message_is_sent_once(named: Api) -> None:
    with receiver(lambda _request: 500) as found:
        made = create(named, found.url)
        sent = named.post(f"{PATH}/{made['id']}/test").json()["delivery_id"]
        delivery.deliver_webhooks()
        [one] = named.get(f"{PATH}/{made['id']}/deliveries", params={"status": "failed"}).json()["deliveries"]
        assert (one["id"], one["type"], one["response"], one["cursor"]) == (sent, "webhook.test", 500, None)
        assert found.requests[0].event["data"] == {"id": made["id"], "cursor": None}


def test_a_paused_webhook_sends_no_test_and_a_deleted_one_is_gone(named: Api) -> None:
    made = create(named)
    item = f"{PATH}/{made['id']}"
    assert named.patch(item, json={"status": "paused"}).json()["status"] == "paused"
    assert named.post(f"{item}/test").status_code == 409
    assert named.delete(item).status_code == 204
    assert named.get(item).status_code == 404
    keys = "SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s"
    assert named.service.one(keys, named.tenant.tenant_id) == 0
