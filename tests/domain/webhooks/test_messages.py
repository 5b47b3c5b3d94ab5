"""Signatures by the vector that the Standard Webhooks specification publishes; sizes of messages; delays."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from app.domain.changes.types import TYPES
from app.domain.webhooks import messages, retries
from app.domain.webhooks.messages import Event


def test_the_signature_of_the_specification() -> None:
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = messages.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert messages.encode_secret(secret) == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_messages_of_all_types_are_small() -> None:
    now = datetime.now(UTC)
    for name in TYPES:
        for form in ("standard", "cloudevents"):
            event = Event(uuid4(), 2**62, name, now, uuid4())
            built = messages.build_message(event, form, uuid4(), [b"k" * 32], now)
            assert len(built.body) < 1000


def test_the_id_of_a_delivery_follows_from_webhook_and_cursor() -> None:
    hook = UUID(int=1)
    assert messages.delivery_id(hook, 7) == messages.delivery_id(hook, 7)
    assert len({messages.delivery_id(each, cursor) for each in (hook, UUID(int=2)) for cursor in (7, 8)}) == 4


def test_delays_follow_the_specification_within_the_jitter_and_end() -> None:
    delays = [retries.delay_seconds(attempts, 0.5) for attempts in range(1, retries.ATTEMPTS_MAX + 1)]
    assert delays == [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400, None]
    assert (retries.delay_seconds(1, 0), retries.delay_seconds(1, 1)) == pytest.approx((4, 6))


def test_rests_double_up_to_a_limit() -> None:
    assert [retries.rest_seconds(failures, 0.5) for failures in (1, 2, 3, 7, 1000)] == [5, 10, 20, 300, 300]


def test_a_webhook_is_disabled_after_days_and_several_failures() -> None:
    assert retries.must_disable(10, timedelta(days=5))
    assert not retries.must_disable(9, timedelta(days=50))
    assert not retries.must_disable(1000, timedelta(days=4.9))


def test_a_requested_wait_lengthens_a_delay_and_never_shortens_it() -> None:
    assert retries.delay_seconds(1, 0.5, 120.0) == 120.0
    assert retries.delay_seconds(3, 0.5, 120.0) == 1800.0
    assert retries.delay_seconds(retries.ATTEMPTS_MAX, 0.5, 120.0) is None
    assert retries.rest_seconds(1, 0.5, 120.0) == 120.0
    assert retries.rest_seconds(1, 0.5, 3600.0) == retries.REST_MAX_SECONDS
    assert retries.rest_seconds(20, 0.5, 1.0) == retries.REST_MAX_SECONDS
    assert retries.rest_seconds(0, 0.5) == 0.0
    assert retries.rest_seconds(0, 0.5, 30.0) == 30.0, "a message was accepted, and another one is to wait"
