"""Deliveries to receivers that accept, fail, hang and vanish: each change at least once, with one id, in order."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from app.clients import webhooks as receivers
from app.domain.changes.types import DELETED, SCORED, STORED
from app.domain.webhooks.endpoint import NewWebhook, Replay, SecretRotation, WebhookChange
from app.domain.webhooks.retries import ATTEMPTS_MAX
from app.services.webhooks import delivery, webhooks
from app.services.webhooks.webhooks import WithSecret
from app.store.changes import feed
from app.store.core import database
from app.store.webhooks import turns
from app.store.webhooks.webhooks import Webhook
from tests.service import Service
from tests.services.cold_due import MASTER_KEY
from tests.services.nights import purged
from tests.services.webhooks.receivers import Answer, Request, receiver
from tests.waiting import PATIENCE_SECONDS

BY = "19kxrfBDrcRSL"
RESERVED = "http://127.0.0.1:9/hook"


class Sender:
    """A tenant whose changes are sent to receivers on this machine."""

    def __init__(self, service: Service) -> None:
        service.configure(master_key=MASTER_KEY, webhook_hosts="127.0.0.1")
        receivers.close()
        self.service = service
        self.tenant_id = service.tenant().tenant_id

    def create(self, url: str, *types: str, format_name: str = "standard") -> WithSecret:
        given = NewWebhook(url, types or None, format=format_name)  # type: ignore[arg-type]
        return webhooks.create(self.tenant_id, given, BY)

    def change(self, change_type: str, *ids: UUID, tenant_id: UUID | None = None) -> list[UUID]:
        changed = list(ids) or [uuid4()]
        tenant_id = tenant_id or self.tenant_id
        with database.tenant(tenant_id) as tx:
            feed.record(tx, tenant_id, change_type, changed)
        return changed

    def pass_time(self) -> None:
        """Let all rests, leases and delays end."""
        self.service.rows("UPDATE webhooks SET rest_until = 'epoch', claimed_until = 'epoch', next_at = now()")
        self.service.rows("UPDATE webhook_deliveries SET next_at = now() - interval '1 second'")

    def run(self) -> int:
        return delivery.deliver_webhooks()

    def run_until_done(self) -> None:
        """Run slices until no delivery is pending and no change is left."""
        for _ in range(200):
            self.pass_time()
            if not self.run() and not self.pending():
                return
        raise AssertionError("deliveries are still pending")

    def pending(self) -> int:
        found: int = self.service.one("SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'")
        return found

    def get(self, made: WithSecret) -> Webhook:
        return webhooks.get(self.tenant_id, made.webhook.webhook_id)


@pytest.fixture
def sender(service: Service) -> Iterator[Sender]:
    yield Sender(service)
    receivers.close()


def verify(secret: str, request: Request) -> bool:
    """Verify as the specification says, independently of the code that signs."""
    signed = b".".join((request.id.encode(), request.headers["webhook-timestamp"].encode(), request.body))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return expected in request.headers["webhook-signature"].split(" ")


def test_a_change_is_sent_once_with_its_id_and_no_more(sender: Sender) -> None:
    sender.change(STORED)  # before the webhook
    with receiver() as found:
        made = sender.create(found.url)
        [memory] = sender.change(STORED)
        assert sender.run() == 1
        sender.pass_time()
        assert sender.run() == 0
    [request] = found.requests
    assert request.event.keys() == {"type", "timestamp", "data"}
    assert request.event["type"] == STORED
    assert request.event["data"].keys() == {"id", "cursor"}
    assert request.event["data"]["id"] == str(memory)
    assert abs((datetime.fromisoformat(request.event["timestamp"]) - datetime.now(UTC)).total_seconds()) < 3600
    assert request.headers["content-type"] == "application/json"
    assert verify(made.secret, request)
    assert sender.get(made).succeeded_at is not None


def test_a_flaky_receiver_gets_every_change_with_stable_ids_and_each_memory_in_order(sender: Sender) -> None:
    memories = [uuid4() for _ in range(40)]
    answers: list[Answer] = [500, 200, "reset", 503, 200, 0.05, 200, 302]
    with receiver(lambda _request: answers[len(found.requests) % len(answers)]) as found:
        made = sender.create(found.url)
        for change_type in (STORED, SCORED, DELETED):
            sender.change(change_type, *memories)
        sender.run_until_done()
        accepted = found.accepted()
    ids_by_change = defaultdict(set)
    for request in found.requests:
        ids_by_change[request.event["data"]["id"], request.event["type"]].add(request.id)
    assert ids_by_change.keys() == {(str(memory), name) for memory in memories for name in (STORED, SCORED, DELETED)}
    assert all(len(ids) == 1 for ids in ids_by_change.values())
    assert {request.id for request in accepted} == {each for ids in ids_by_change.values() for each in ids}
    for memory in memories:
        types = [request.event["type"] for request in accepted if request.event["data"]["id"] == str(memory)]
        assert list(dict.fromkeys(types)) == [STORED, SCORED, DELETED], memory
    assert all(verify(made.secret, request) for request in found.requests)
    assert sender.get(made).status == "enabled"


def test_only_the_wanted_types_are_sent(sender: Sender) -> None:
    with receiver() as found:
        made = sender.create(found.url, DELETED)
        sender.change(STORED, *(uuid4() for _ in range(30)))
        [deleted] = sender.change(DELETED)
        sender.change(SCORED, deleted)
        sender.run_until_done()
        assert [request.event["data"]["id"] for request in found.requests] == [str(deleted)]
        assert sender.get(made).cursor == 32


def test_a_cloud_event_has_the_required_attributes_and_a_signature(sender: Sender) -> None:
    with receiver() as found:
        made = sender.create(found.url, format_name="cloudevents")
        [memory] = sender.change(STORED)
        sender.run()
    [request] = found.requests
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.event["specversion"] == "1.0"
    assert request.event["id"] == request.id
    assert request.event["source"] == f"urn:ebbing:tenant:{sender.tenant_id}"
    assert request.event["type"] == "ebbing.memory.stored"
    assert request.event["data"]["id"] == request.event["subject"] == str(memory)
    assert verify(made.secret, request)


def test_both_secrets_sign_after_a_rotation_until_the_overlap_ends(sender: Sender) -> None:
    with receiver() as found:
        made = sender.create(found.url)
        rotated = webhooks.rotate(sender.tenant_id, made.webhook.webhook_id, SecretRotation(24), BY)
        sender.change(STORED)
        sender.run_until_done()
        sender.service.rows("UPDATE webhooks SET old_secret_until = now() - interval '1 second'")
        sender.change(STORED)
        sender.run_until_done()
        last = webhooks.rotate(sender.tenant_id, made.webhook.webhook_id, SecretRotation(0), BY)
        sender.change(STORED)
        sender.run_until_done()
    assert [
        [verify(secret, each) for secret in (made.secret, rotated.secret, last.secret)] for each in found.requests
    ] == [
        [True, True, False],
        [False, True, False],
        [False, False, True],
    ]
    keys = "SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s"
    assert sender.service.one(keys, sender.tenant_id) == 1


def test_secrets_are_encrypted_and_never_shown_again(sender: Sender) -> None:
    with receiver() as found:
        made = sender.create(found.url)
    [row] = sender.service.rows("SELECT to_jsonb(webhooks)::text FROM webhooks")
    keys = "SELECT wrapped FROM ebbing_keys.record_keys WHERE tenant_id = %s"
    [key] = sender.service.rows(keys, sender.tenant_id)
    secret = base64.b64decode(made.secret.removeprefix("whsec_"))
    assert len(secret) == 32
    assert secret not in bytes(key[0])
    assert made.secret not in row[0]
    assert "secret" not in repr(sender.get(made)).replace("secret_", "")


def test_a_killed_turn_is_repeated_with_the_same_ids(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(name: str) -> None:
        if name == "webhooks.sent":
            raise KeyboardInterrupt

    with receiver() as found:
        sender.create(found.url)
        sender.change(STORED, *(uuid4() for _ in range(5)))
        with monkeypatch.context() as patch:
            patch.setattr("app.services.webhooks.delivery.failpoints.trigger", die)
            with pytest.raises(KeyboardInterrupt):
                sender.run()
        assert sender.run() == 0, "the lease of the dead worker has not ended"
        sent = [request.id for request in found.requests]
        sender.run_until_done()
        assert sorted(request.id for request in found.requests) == sorted(2 * sent)


def test_a_repeated_reading_of_the_feed_makes_no_second_delivery(sender: Sender) -> None:
    with receiver() as found:
        sender.create(found.url)
        sender.change(STORED, uuid4(), uuid4())
        sender.run_until_done()
        sender.service.rows("UPDATE webhooks SET cursor = 0")
        sender.run_until_done()
        assert len(found.requests) == 2


def test_attempts_end_and_a_replay_sends_the_same_id_again(sender: Sender) -> None:
    rule: dict[str, Answer] = {"answer": 500}
    with receiver(lambda _request: rule["answer"]) as found:
        made = sender.create(found.url)
        sender.change(STORED)
        for _ in range(ATTEMPTS_MAX):
            sender.pass_time()
            assert sender.run() == 1
        sender.pass_time()
        assert sender.run() == 0
        hook = sender.get(made)
        assert (hook.failed, hook.pending, hook.status) == (1, 0, "enabled")
        [failed] = webhooks.list_deliveries(sender.tenant_id, hook.webhook_id, None, 10, "failed")
        assert (failed.attempts, failed.response, failed.outcome) == (ATTEMPTS_MAX, 500, "status")
        rule["answer"] = 200
        since = Replay(failed_since=failed.changed_at)
        assert webhooks.replay(sender.tenant_id, hook.webhook_id, since, BY) == 1
        assert webhooks.replay(sender.tenant_id, hook.webhook_id, since, BY) == 0
        assert sender.run() == 1
        assert webhooks.replay(sender.tenant_id, hook.webhook_id, Replay(ids=(failed.delivery_id,)), BY) == 1
        assert sender.run() == 1
        assert len({request.id for request in found.requests}) == 1


def test_delays_grow_and_a_failing_receiver_gets_one_message_per_turn(sender: Sender) -> None:
    with receiver(lambda _request: 500) as found:
        made = sender.create(found.url)
        sender.change(STORED, *(uuid4() for _ in range(50)))
        first = sender.run()
        assert 1 <= first <= delivery.LANES
        assert sender.run() == 0, "the receiver rests"
        sender.pass_time()
        assert sender.run() == 1
        assert sender.get(made).failures == 2
        assert len(found.requests) == first + 1


def test_a_receiver_that_asks_for_a_wait_gets_it(sender: Sender) -> None:
    with receiver(lambda _request: 429) as found:
        found.headers = {"retry-after": "600"}
        made = sender.create(found.url)
        sender.change(STORED)
        sender.run()
        [row] = sender.service.rows("SELECT next_at - attempted_at FROM webhook_deliveries")
        assert row[0].total_seconds() == pytest.approx(600, abs=0.001)
        [hook] = sender.service.rows("SELECT rest_until - failing_since FROM webhooks")
        assert hook[0].total_seconds() == pytest.approx(300, abs=1), "other messages wait for the longest rest"
        sender.service.rows("UPDATE webhooks SET rest_until = 'epoch'")
        assert sender.run() == 0, "the message isn't due yet"
        webhooks.test(sender.tenant_id, made.webhook.webhook_id)
        assert sender.run() == 1, "a test doesn't wait"


def test_secrets_whose_overlap_has_ended_are_destroyed_by_the_night(sender: Sender) -> None:
    made = [sender.create(RESERVED) for _ in range(3)]
    for each in made[:2]:
        webhooks.rotate(sender.tenant_id, each.webhook.webhook_id, SecretRotation(24), BY)
    ended, current, _ = (each.webhook.webhook_id for each in made)
    late = "UPDATE webhooks SET old_secret_until = now() - interval '1 second' WHERE webhook_id = %s"
    sender.service.rows(late, ended)
    keys = "SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s"
    assert sender.service.one(keys, sender.tenant_id) == 5
    assert purged(sender.tenant_id)["webhook_secrets"] == 1
    assert sender.service.one(keys, sender.tenant_id) == 4
    assert sender.get(made[0]).old_secret_until is None
    assert webhooks.get(sender.tenant_id, current).old_secret_until is not None
    assert purged(sender.tenant_id)["webhook_secrets"] == 0
    webhooks.delete(sender.tenant_id, ended, BY)
    assert sender.service.one(keys, sender.tenant_id) == 3


def test_a_gone_receiver_is_unsubscribed(sender: Sender) -> None:
    with receiver(lambda _request: 410) as found:
        made = sender.create(found.url)
        sender.change(STORED)
        sender.run()
        hook = sender.get(made)
        assert (hook.status, hook.reason) == ("disabled", "gone")
        sender.change(STORED)
        sender.pass_time()
        assert sender.run() == 0
        assert len(found.requests) == 1
    actions = [row[0] for row in sender.service.rows("SELECT action FROM audit ORDER BY seq")]
    assert actions[-2:] == ["webhook_created", "webhook_disabled"]


def test_days_of_failures_disable_and_enabling_continues_without_a_gap(sender: Sender) -> None:
    rule: dict[str, Answer] = {"answer": "reset"}
    with receiver(lambda _request: rule["answer"]) as found:
        made = sender.create(found.url)
        memories = sender.change(STORED, *(uuid4() for _ in range(30)))
        for _ in range(3):
            sender.pass_time()
            sender.run()
        sender.service.rows("UPDATE webhooks SET failures = 50")
        sender.pass_time()
        sender.run()
        assert sender.get(made).status == "enabled", "it hasn't failed for days"
        sender.service.rows("UPDATE webhooks SET failing_since = now() - interval '6 days'")
        sender.pass_time()
        sender.run()
        hook = sender.get(made)
        assert (hook.status, hook.reason) == ("disabled", "failing")
        sender.pass_time()
        assert sender.run() == 0
        with database.drain() as tx:
            assert turns.count_states(tx) == {"disabled": 1}
        memories += sender.change(STORED)
        rule["answer"] = 200
        enabled = webhooks.change(sender.tenant_id, hook.webhook_id, WebhookChange(status="enabled"), BY)
        assert (enabled.status, enabled.reason, enabled.failures) == ("enabled", None, 0)
        sender.run_until_done()
        assert {request.event["data"]["id"] for request in found.accepted()} == set(map(str, memories))


def test_a_redirect_is_not_followed_and_an_answer_is_not_kept(sender: Sender) -> None:
    with receiver() as target, receiver(lambda _request: 307) as found:
        found.headers = {"location": target.url, "content-encoding": "gzip"}
        found.content = b"what the receiver says " * 100_000
        made = sender.create(found.url)
        sender.change(STORED)
        sender.run()
        assert target.requests == []
        [one] = webhooks.list_deliveries(sender.tenant_id, made.webhook.webhook_id, None, 10)
        assert (one.outcome, one.response, one.status) == ("redirect", 307, "pending")
        [row] = sender.service.rows("SELECT to_jsonb(webhook_deliveries)::text FROM webhook_deliveries")
        assert "receiver says" not in row[0]


def test_an_accepted_message_counts_whatever_its_answer_holds(sender: Sender) -> None:
    with receiver() as found:
        found.headers, found.content = {"content-encoding": "gzip"}, b"not gzip " * 100_000
        made = sender.create(found.url)
        sender.change(STORED)
        sender.run()
        [one] = webhooks.list_deliveries(sender.tenant_id, made.webhook.webhook_id, None, 10)
        assert (one.outcome, one.status) == ("delivered", "delivered")


def test_a_slow_receiver_delays_no_other_tenant(sender: Sender) -> None:
    other = sender.service.tenant().tenant_id
    released: list[float] = []

    def wait(_request: Request) -> Answer:
        until = time.monotonic() + PATIENCE_SECONDS
        while len(quick.requests) < 60 and time.monotonic() < until:
            time.sleep(0.01)
        released.append(len(quick.requests))
        return 200

    with receiver() as quick, receiver(wait) as slow:
        sender.service.configure(webhook_timeout_seconds=30)
        receivers.close()
        sender.create(slow.url)
        webhooks.create(other, NewWebhook(quick.url), BY)
        sender.change(STORED, *(uuid4() for _ in range(8)))
        sender.change(STORED, *(uuid4() for _ in range(60)), tenant_id=other)
        sender.run()
    assert released, "the slow receiver was called"
    assert released[0] >= 60, "the quick receiver had everything before the slow one answered"


def test_a_receiver_that_does_not_answer_in_time_is_tried_again(sender: Sender) -> None:
    rule: dict[str, Answer] = {"answer": 2.0}
    with receiver(lambda _request: rule["answer"]) as found:
        sender.service.configure(webhook_timeout_seconds=0.2)
        receivers.close()
        made = sender.create(found.url)
        sender.change(STORED)
        sender.run()
        [one] = webhooks.list_deliveries(sender.tenant_id, made.webhook.webhook_id, None, 10)
        assert (one.outcome, one.response, one.status) == ("timeout", None, "pending")
        rule["answer"] = 200
        sender.service.configure(webhook_timeout_seconds=30)
        receivers.close()
        sender.run_until_done()
        assert len({request.id for request in found.requests}) == 1


def test_changes_that_the_feed_no_longer_has_are_counted_as_missed(sender: Sender) -> None:
    with receiver() as found:
        made = sender.create(found.url)
        webhooks.change(sender.tenant_id, made.webhook.webhook_id, WebhookChange(status="paused"), BY)
        sender.change(STORED, uuid4(), uuid4())
        with database.tenant(sender.tenant_id) as tx:
            feed.delete_expired(tx, sender.tenant_id, database.now(tx), 100)
        [kept] = sender.change(STORED)
        sender.pass_time()
        assert sender.run() == 0, "it is paused"
        webhooks.change(sender.tenant_id, made.webhook.webhook_id, WebhookChange(status="enabled"), BY)
        sender.run_until_done()
        assert [request.event["data"]["id"] for request in found.requests] == [str(kept)]
        assert sender.get(made).missed == 2


def test_pending_deliveries_are_bounded_and_the_rest_waits_in_the_feed(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "WINDOW", 10)
    rule: dict[str, Answer] = {"answer": 503}
    with receiver(lambda _request: rule["answer"]) as found:
        sender.create(found.url)
        sender.change(STORED, *(uuid4() for _ in range(35)))
        for _ in range(3):
            sender.pass_time()
            sender.run()
        assert sender.pending() == 10
        rule["answer"] = 200
        sender.run_until_done()
        assert sorted(set(found.cursors(sender.tenant_id))) == list(range(1, 36))


def test_a_tenant_that_is_being_deleted_sends_nothing(sender: Sender) -> None:
    with receiver() as found:
        sender.create(found.url)
        sender.change(STORED)
        sender.service.rows("UPDATE tenants SET deletion_id = %s", uuid4())
        assert sender.run() == 0
        assert found.requests == []


def test_only_one_slice_runs_at_a_time(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[int] = []
    with receiver() as found:
        sender.create(found.url)
        sender.change(STORED)
        monkeypatch.setattr(
            "app.services.webhooks.delivery.failpoints.trigger", lambda _name: inner.append(delivery.deliver_webhooks())
        )
        assert sender.run() == 1
        assert set(inner) == {0}
        assert len(found.requests) == 1


def test_a_host_that_leads_to_a_private_address_later_is_not_called(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = ["93.184.215.14"]
    monkeypatch.setattr("app.clients.llm.egress.resolve_host", lambda _host, _port: addresses)
    receivers.close()
    made = sender.create("https://receiver.example/hook")
    addresses[:] = ["127.0.0.1"]
    sender.change(STORED)
    sender.run()
    [one] = webhooks.list_deliveries(sender.tenant_id, made.webhook.webhook_id, None, 10)
    assert (one.outcome, one.response, one.status) == ("address", None, "pending")


def test_the_sender_of_a_message_is_the_receiver_of_nothing_else(sender: Sender) -> None:
    with receiver() as found:
        sender.create(found.url)
        sender.change(STORED)
        sender.run()
    sent = {name for name in found.requests[0].headers if name not in ("host", "connection", "content-length")}
    assert sent == {
        *("content-type", "user-agent", "accept", "accept-encoding"),
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
    }
