"""The page Webhooks: receivers with their state, deliveries by status, tests, pauses and replays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from uuid import UUID, uuid4

import pytest

from app.clients import webhooks as receivers
from app.domain.changes.types import STORED
from app.domain.webhooks.endpoint import NewWebhook
from app.services.monitoring import fleet_gauges, status
from app.services.security import operator_log
from app.services.webhooks import delivery, webhooks
from app.store.changes import feed
from app.store.core import database
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.services.webhooks.receivers import Answer, receiver

Visit = Callable[..., Visitor]
NOWHERE = "http://127.0.0.1:9/hook"


@pytest.fixture(autouse=True)
def permitted(api: Api) -> Iterator[None]:
    """Permit receivers on this machine."""
    api.service.configure(webhook_hosts="127.0.0.1")
    receivers.close()
    yield
    receivers.close()


def create(api: Api, url: str = NOWHERE, description: str = "") -> UUID:
    given = NewWebhook(url, description=description)
    return webhooks.create(api.tenant.tenant_id, given, "key").webhook.webhook_id


def change(api: Api, *ids: UUID) -> None:
    with database.tenant(api.tenant.tenant_id) as tx:
        feed.record(tx, api.tenant.tenant_id, STORED, list(ids))


def test_webhooks_are_listed_with_their_states(api: Api, visit: Visit) -> None:
    visitor = visit()
    assert "No webhooks." in said(visitor.page("/webhooks"))
    first = create(api, description="<b>reports</b>")
    with receiver(lambda _request: 500) as found:
        second = create(api, found.url)
        api.service.rows("UPDATE webhooks SET status = 'paused' WHERE webhook_id = %s", first)
        change(api, uuid4())
        delivery.deliver_webhooks()
    html = visitor.page("/webhooks")
    rows = [said(row) for row in html.split("<tr>")[2:]]
    assert [row.split()[0] for row in rows] == [found.url, NOWHERE], "newest first"
    assert "failing" in rows[0]
    assert rows[0].endswith("– 1 0 0")
    assert "<b>reports</b> paused all" in rows[1]
    assert f'href="/ops/webhooks/{second}"' in html


def test_deliveries_are_filtered_by_status(api: Api, visit: Visit) -> None:
    memories = [uuid4() for _ in range(3)]
    answers: dict[str, Answer] = {str(memories[0]): 200, str(memories[1]): 503, str(memories[2]): 200}
    with receiver(lambda request: answers[request.event["data"]["id"]]) as found:
        path = f"/webhooks/{create(api, found.url)}"
        change(api, *memories)
        delivery.deliver_webhooks()
    api.service.rows("UPDATE webhook_deliveries SET status = 'failed' WHERE changed_id = %s", memories[2])
    visitor = visit()

    def shown(query: str) -> set[UUID]:
        html = visitor.page(path + query)
        return {memory for memory in memories if str(memory) in html}

    assert shown("") == set(memories)
    assert shown("?status=delivered") == {memories[0]}
    assert shown("?status=pending") == {memories[1]}
    assert shown("?status=failed") == {memories[2]}
    assert "status 503" in said(visitor.page(f"{path}?status=pending"))
    assert visitor.get(f"{path}?status=faild").status_code == 422


def test_pages_of_one_status_follow_each_other(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.pages.webhooks.PAGE", 1)
    memories = [uuid4(), uuid4()]
    with receiver() as found:
        path = f"/webhooks/{create(api, found.url)}"
        change(api, *memories)
        delivery.deliver_webhooks()
    visitor = visit()
    first = visitor.page(f"{path}?status=delivered")
    [older] = re.findall(r'href="/ops([^"]*)">Older', first)
    second = visitor.page(unescape(older))
    shown = [[memory for memory in memories if str(memory) in html] for html in (first, second)]
    assert sorted(shown) == sorted([[memory] for memory in memories])
    assert "<strong>delivered</strong>" in second, "the filter remains"


def test_a_test_a_pause_and_a_replay(api: Api, visit: Visit) -> None:
    answer: dict[str, Answer] = {"now": 500}
    with receiver(lambda _request: answer["now"]) as found:
        hook = create(api, found.url)
        path, visitor = f"/webhooks/{hook}", visit("maintain")
        assert "Replay failed" not in said(visitor.page(path))
        assert visitor.act(f"{path}/test") == f"{path}?done=webhook_sent"
        delivery.deliver_webhooks()
        words = said(visitor.page(path))
        assert "webhook.test" in words
        assert "The receiver has failed since" in words
        [failed] = webhooks.list_deliveries(api.tenant.tenant_id, hook, None, 10, "failed")

        answer["now"] = 200
        visitor.act(f"{path}/replay")
        delivery.deliver_webhooks()
        assert "has failed since" not in said(visitor.page(path))
        assert webhooks.list_deliveries(api.tenant.tenant_id, hook, None, 10, "failed") == []
        visitor.act(f"{path}/replay", {"delivery": str(failed.delivery_id)})
        delivery.deliver_webhooks()
        assert [request.answer for request in found.requests] == [500, 200, 200]
        assert len({request.id for request in found.requests}) == 1

        assert visitor.act(f"{path}/status", {"status": "paused"}) == f"{path}?done=webhook_paused"
        words = said(visitor.page(path))
        assert "Enable" in words
        assert "Send a test" not in words
        assert visitor.send(f"{path}/test").status_code == 409
        assert visitor.send(f"{path}/status", {"status": "disabled"}).status_code == 422
        assert visitor.act(f"{path}/status", {"status": "enabled"}) == f"{path}?done=webhook_enabled"
    acts = [one.act for one in operator_log.list_actions(api.tenant.tenant_id)]
    assert sorted(set(acts)) == ["change_webhook", "replay_webhook", "test_webhook"]


def test_a_disabled_webhook_has_a_finding_with_a_link_and_continues_when_it_is_enabled(api: Api, visit: Visit) -> None:
    with receiver(lambda _request: 410) as found:
        hook = create(api, found.url)
        change(api, uuid4())
        delivery.deliver_webhooks()
    visitor = visit()
    words = said(visitor.page(f"/webhooks/{hook}"))
    assert "The receiver answered with 410, so the webhook was disabled" in words
    fleet_gauges.refresh()
    status.forget()
    overview = visitor.page("/")
    assert "1 webhook was disabled" in said(overview)
    assert '<a href="/ops/webhooks">Details</a>' in overview
    assert 'href="/ops/runbook#webhook-disabled"' in overview
    assert 'id="webhook-disabled"' in visitor.page("/runbook")
    visitor.act(f"/webhooks/{hook}/status", {"status": "enabled"})
    status.forget()
    assert "was disabled" not in said(visitor.page("/"))


def test_webhooks_of_other_tenants_are_not_there(api: Api, visit: Visit) -> None:
    path = f"/webhooks/{create(api)}"
    other = Visitor(api, api.service.tenant().key)
    assert "No webhooks." in said(other.page("/webhooks"))
    assert other.get(path).status_code == 404
    for action in ("test", "status", "replay"):
        assert other.send(f"{path}/{action}", {"status": "paused"}).status_code == 404
    assert visit().get("/webhooks/x").status_code == 404
    assert webhooks.get(api.tenant.tenant_id, UUID(path.rpartition("/")[2])).status == "enabled"


def test_a_viewer_without_the_scope_sees_and_changes_nothing(api: Api, visit: Visit) -> None:
    path, reader = f"/webhooks/{create(api)}", visit("read")
    assert reader.get("/webhooks").status_code == 403
    assert reader.get(path).status_code == 403
    assert reader.send(f"{path}/test").status_code == 403
    assert 'href="/ops/webhooks"' not in reader.page("/")
