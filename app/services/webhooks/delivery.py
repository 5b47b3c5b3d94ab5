"""Deliver changes to the receivers of webhooks, for a slice of a few seconds.

A webhook is served in turns. A turn claims the webhook by a lease, adds deliveries for new changes, sends due ones over
a few connections, and stores the results; no transaction is open while messages are sent. If a worker dies, the lease
ends, and the next turn sends the same messages with the same ids again.

Turns of several webhooks run side by side: a few per tenant, and a limited number in all. A slow receiver therefore
delays only its own webhook. While a receiver fails, its webhook pauses between turns and sends one message per turn.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.clients import webhooks as receivers
from app.clients.redis.connection import NUDGE_PREFIX
from app.clients.redis.stream import client
from app.clients.webhooks import Attempt
from app.domain.privacy.audit_chain import Detail
from app.domain.webhooks import messages, retries
from app.domain.webhooks.endpoint import TEST, Reason
from app.domain.webhooks.messages import Event
from app.errors import Misconfigured
from app.services.security import audit
from app.services.transient_errors import is_transient
from app.services.webhooks import secrets
from app.settings import settings
from app.store.changes import feed
from app.store.core import database
from app.store.webhooks import deliveries, turns, webhooks
from app.store.webhooks.deliveries import DeliveryResult
from app.store.webhooks.turns import DueWebhook
from app.store.webhooks.webhooks import Webhook

TURNS_MAX: Final = 8
"""Maximum number of turns side by side; each has `LANES` connections."""
TURNS_PER_TENANT: Final = 4
LANES: Final = 4
"""Connections to one receiver."""
TURN_MESSAGES: Final = 20
TURN_SECONDS: Final = 2.0
"""Time after which a turn sends no further message, so that its results are stored soon."""
WINDOW: Final = 500
"""Maximum number of pending deliveries of a webhook. Later changes wait in the feed."""
IDLE_SECONDS: Final = 2.0
"""Pause of a webhook after a turn without a message."""
UNREADABLE_SECONDS: Final = 60.0
"""Pause of a webhook whose secret can't be read."""
EXCLUSIVE_MILLISECONDS: Final = 60_000
"""Expiry of the lock that prevents concurrent slices; longer than a slice and its last requests can take."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Turn:
    """A claimed webhook with the messages of this turn.

    Attributes:
        attempts: Number of earlier attempts of each event.
        lanes: One future per connection; its result lists the messages attempted on it, in order, with the attempts.
    """

    tenant_id: UUID
    webhook: Webhook
    claim_id: UUID
    secrets: list[bytes] = field(repr=False)
    events: list[Event]
    attempts: dict[UUID, int]
    lanes: list[Future[list[tuple[Event, Attempt]]]] = field(default_factory=list)

    @property
    def is_sent(self) -> bool:
        """True if no request of this turn is under way."""
        return all(lane.done() for lane in self.lanes)


def deliver_webhooks() -> int:
    """Send pending messages for one slice; return the number of attempts. One slice runs at a time."""
    key = f"{NUDGE_PREFIX}webhooks.slice"
    token = uuid4().hex
    if not client().set(key, token, nx=True, px=EXCLUSIVE_MILLISECONDS):
        return 0
    try:
        return run_slice(time.monotonic() + settings().slice_seconds)
    finally:
        if client().get(key) == token.encode():
            client().delete(key)


def run_slice(until: float) -> int:
    """Serve due webhooks until none is left or the monotonic clock reaches `until`; return the number of attempts."""
    attempts = 0
    running: list[_Turn] = []
    due: list[DueWebhook] = []
    with ThreadPoolExecutor(TURNS_MAX * LANES, thread_name_prefix="webhooks") as pool:
        while True:
            if not due and len(running) < TURNS_MAX and time.monotonic() < until:
                with database.drain() as tx:
                    due = turns.list_due(tx, TURNS_MAX)
            started = _start_turns(pool, due, running) if time.monotonic() < until else 0
            due = []
            if not running and not started:
                return attempts
            wait([lane for turn in running for lane in turn.lanes if not lane.done()], 1.0, FIRST_COMPLETED)
            for turn in [turn for turn in running if turn.is_sent]:
                running.remove(turn)
                attempts += _settle(turn)


def _start_turns(pool: ThreadPoolExecutor, due: Sequence[DueWebhook], running: list[_Turn]) -> int:
    """Start turns of due webhooks within the limits; return their number."""
    by_tenant = Counter(turn.tenant_id for turn in running)
    started = 0
    for tenant_id, webhook_id in due:
        if len(running) >= TURNS_MAX or by_tenant[tenant_id] >= TURNS_PER_TENANT:
            continue
        turn = _try_begin(tenant_id, webhook_id)
        if turn is None:
            continue
        started += 1
        running.append(turn)
        by_tenant[tenant_id] += 1
        ended = threading.Event()
        shares = [turn.events[lane::LANES] for lane in range(LANES)]
        turn.lanes = [pool.submit(_send_share, turn, share, ended) for share in shares if share]
    return started


def _try_begin(tenant_id: UUID, webhook_id: UUID) -> _Turn | None:
    """Begin a turn. After an error that isn't transient, postpone the webhook's next turn, and return None."""
    try:
        return _begin(tenant_id, webhook_id)
    except Exception as error:
        if is_transient(error):
            raise
        ids = {"tenant": str(tenant_id), "webhook": str(webhook_id)}
        log.error("webhook_turn_failed", **ids, error=type(error).__name__)  # noqa: TRY400 - no traceback
        with database.tenant(tenant_id) as tx:
            rest = UNREADABLE_SECONDS
            turns.release(tx, tenant_id, webhook_id, rest_seconds=rest, succeeded=False, failed=False)
        return None


def _begin(tenant_id: UUID, webhook_id: UUID) -> _Turn | None:
    """Claim a webhook, add deliveries for new changes, and return a turn with the due ones.

    Return None if the webhook can't be claimed, nothing is due, or the secret can't be read.
    """
    claim_id = uuid4()
    with database.tenant(tenant_id) as tx:
        hook = turns.claim(tx, tenant_id, webhook_id, claim_id)
        if hook is None:
            return None
        _add_deliveries(tx, tenant_id, hook)
        # A failing receiver is probed with one message.
        found = deliveries.list_due(tx, tenant_id, webhook_id, 1 if hook.failures else TURN_MESSAGES)
        keys: list[bytes] = []
        if found:
            try:
                has_old = hook.old_secret_until is not None and hook.old_secret_until > database.now(tx)
                keys = secrets.read(tx, tenant_id, [hook.secret_id, hook.old_secret_id if has_old else None])
            except Misconfigured as error:
                log.warning("webhook_secret_unreadable", tenant=str(tenant_id), why=str(error))
        if not keys:
            rest = UNREADABLE_SECONDS if found else IDLE_SECONDS
            turns.release(tx, tenant_id, webhook_id, rest_seconds=rest, succeeded=False, failed=False)
            return None
    failpoints.trigger("webhooks.claimed")
    return _Turn(
        tenant_id,
        hook,
        claim_id,
        keys,
        [event for event, _ in found],
        {event.delivery_id: attempts for event, attempts in found},
    )


def _add_deliveries(tx: database.Transaction, tenant_id: UUID, hook: Webhook) -> None:
    """Add deliveries for changes after the webhook's position, as far as the window allows."""
    room = WINDOW - deliveries.count_pending(tx, tenant_id, hook.webhook_id)
    if room <= 0 or not feed.has_news(tx, tenant_id, hook.cursor):
        return
    oldest = feed.oldest(tx, tenant_id)
    types = None if hook.types is None else frozenset(hook.types)
    changes, reached = feed.read_page(tx, tenant_id, max(hook.cursor, oldest), types, room)
    events = [
        Event(
            messages.delivery_id(hook.webhook_id, change.cursor), change.cursor, change.type, change.at, UUID(change.id)
        )
        for change in changes
    ]
    deliveries.insert(tx, tenant_id, hook.webhook_id, events)
    turns.move(tx, tenant_id, hook.webhook_id, reached, max(oldest - hook.cursor, 0))


def _send_share(turn: _Turn, share: Sequence[Event], ended: threading.Event) -> list[tuple[Event, Attempt]]:
    """Send messages, at least one, one after another, until a message of any share fails or the turn's time is over."""
    until = time.monotonic() + TURN_SECONDS
    results: list[tuple[Event, Attempt]] = []
    for event in share:
        if results and (ended.is_set() or time.monotonic() >= until):
            break
        message = messages.build_message(event, turn.webhook.format, turn.tenant_id, turn.secrets, datetime.now(UTC))
        attempt = receivers.send(turn.webhook.url, message)
        results.append((event, attempt))
        if attempt.outcome != "delivered":
            ended.set()
    return results


def _settle(turn: _Turn) -> int:
    """Store a turn's results, and release the webhook; return the number of attempts."""
    results = [result for lane in turn.lanes for result in lane.result()]
    failpoints.trigger("webhooks.sent")
    outcomes = Counter(attempt.outcome for _, attempt in results)
    is_gone = outcomes["gone"] > 0
    stored = [_judge(event, attempt, turn.attempts[event.delivery_id]) for event, attempt in results]
    succeeded = outcomes["delivered"] > 0
    reason: Reason | None = None
    tenant_id, webhook_id = turn.tenant_id, turn.webhook.webhook_id
    with database.tenant(tenant_id) as tx:
        hook = turns.lock_claimed(tx, tenant_id, webhook_id, turn.claim_id)
        if hook is not None:
            deliveries.record_results(tx, tenant_id, webhook_id, stored)
            wait_seconds = max(attempt.wait_seconds for _, attempt in results)
            failures = 0 if succeeded else hook.failures + 1
            rest = retries.rest_seconds(failures, random.random(), wait_seconds)  # noqa: S311
            turns.release(tx, tenant_id, webhook_id, rest_seconds=rest, succeeded=succeeded, failed=not succeeded)
            reason = "gone" if is_gone else _find_reason(tx, hook, succeeded=succeeded)
            if reason is not None and hook.status == "enabled":
                webhooks.update(tx, tenant_id, webhook_id, {"status": "disabled", "reason": reason})
                details: dict[str, Detail] = {"webhook": str(webhook_id), "reason": reason}
                audit.append(tx, tenant_id, "webhook_disabled", details=details)
    if hook is None:  # the lease has ended, or the webhook was deleted: the next turn sends the messages again
        log.warning("webhook_turn_lost", tenant=str(tenant_id), webhook=str(webhook_id), messages=len(results))
        return len(results)
    if reason is not None:
        log.warning("webhook_disabled", tenant=str(tenant_id), webhook=str(webhook_id), reason=reason)
        metrics.count("webhooks_disabled")
    for outcome, number in outcomes.items():
        metrics.count("webhook_attempts", number, outcome=outcome)
    metrics.count("webhook_deliveries_failed", sum(result.status == "failed" for result in stored))
    return len(results)


def _judge(event: Event, attempt: Attempt, attempts: int) -> DeliveryResult:
    """Return the new state of a delivery after an attempt."""
    if attempt.outcome == "delivered":
        return DeliveryResult(event.delivery_id, "delivered", attempt.outcome, attempt.status)
    delay = None
    if event.type != TEST:
        delay = retries.delay_seconds(attempts + 1, random.random(), attempt.wait_seconds)  # noqa: S311
    status: deliveries.DeliveryStatus = "failed" if delay is None or attempt.outcome == "gone" else "pending"
    return DeliveryResult(event.delivery_id, status, attempt.outcome, attempt.status, delay)


def _find_reason(tx: database.Transaction, hook: Webhook, *, succeeded: bool) -> Reason | None:
    """Return the reason to disable a webhook whose receiver has failed for days, or None."""
    if succeeded or hook.failing_since is None:
        return None
    failing_for = database.now(tx) - hook.failing_since
    return "failing" if retries.must_disable(hook.failures + 1, failing_for) else None


def wake() -> None:
    """Start a slice soon, after a delivery was added by a request."""
    queues.nudge(queues.WEBHOOKS)
