"""Create, list, change and delete webhooks, rotate their secrets, and test and replay deliveries."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID, uuid4

from msgspec import UNSET, UnsetType

from app.clients.llm.egress import HostRefused
from app.clients.webhooks import check_receiver
from app.domain.privacy.audit_chain import Action
from app.domain.webhooks.endpoint import (
    REPLAY_MAX,
    TEST,
    WEBHOOKS_MAX,
    NewWebhook,
    Replay,
    SecretRotation,
    WebhookChange,
)
from app.domain.webhooks.messages import Event, encode_secret
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.security import audit
from app.services.webhooks import delivery, secrets
from app.store.changes import feed
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.tenants import policies
from app.store.webhooks import deliveries, turns, webhooks
from app.store.webhooks.deliveries import Delivery, DeliveryStatus
from app.store.webhooks.webhooks import Webhook


class WithSecret(NamedTuple):
    """A webhook with its new secret in the form for receivers, which can't be read again."""

    webhook: Webhook
    secret: str


def create(tenant_id: UUID, given: NewWebhook, created_by: str) -> WithSecret:
    """Create a webhook for the changes from now on.

    Raises:
        Invalid: The receiver's address isn't allowed, or its host can't be resolved.
        Conflict: The tenant has `WEBHOOKS_MAX` webhooks, its change feed is off, or no master key is set.
    """
    _check_receiver(given.url)
    new = secrets.make(tenant_id)
    with database.tenant(tenant_id) as tx:
        if not policies.read_current(tx, tenant_id).changes.keep_days:
            raise Conflict("the tenant's change feed is off: set `changes.keep_days` in its policy to 1 or more")
        number = webhooks.count(tx, tenant_id)
        if number >= WEBHOOKS_MAX:
            raise Conflict(f"the tenant has {number} webhooks, and may have {WEBHOOKS_MAX}: delete one first")
        secrets.store(tx, tenant_id, new)
        fields = {
            "url": given.url,
            "description": given.description,
            "types": None if given.types is None else list(dict.fromkeys(given.types)),
            "format": given.format,
        }
        cursor = feed.newest(tx, tenant_id)
        created = webhooks.insert(tx, tenant_id, uuid4(), new.secret_id, cursor, created_by, fields)
        _audit(tx, tenant_id, "webhook_created", created.webhook_id, created_by)
    return WithSecret(created, encode_secret(new.secret))


list_webhooks = database.in_tenant(webhooks.list_webhooks)
"""Return a page of webhooks, latest first; only those created before the given creation time and id, if any."""


def get(tenant_id: UUID, webhook_id: UUID) -> Webhook:
    """Return a webhook.

    Raises:
        NotFound: This tenant has no such webhook.
    """
    with database.tenant(tenant_id) as tx:
        return _get_or_404(tx, tenant_id, webhook_id)


def change(tenant_id: UUID, webhook_id: UUID, given: WebhookChange, changed_by: str) -> Webhook:
    """Change a webhook; omitted fields remain. Repeating a change has no effect.

    Raises:
        NotFound: This tenant has no such webhook.
        Invalid: The receiver's address isn't allowed, or its host can't be resolved.
    """
    fields: dict[str, Any] = {
        name: value
        for name in given.__struct_fields__
        if not isinstance(value := getattr(given, name), UnsetType) and value is not UNSET
    }
    if "url" in fields:
        _check_receiver(fields["url"])
    if fields.get("types") is not None:
        fields["types"] = list(dict.fromkeys(fields["types"]))
    if "status" in fields:
        fields["reason"] = None
    with database.tenant(tenant_id) as tx:
        before = require_found(webhooks.lock(tx, tenant_id, webhook_id), "webhook")
        changed = [name for name, value in fields.items() if getattr(before, name) != value]
        if not changed:
            return _get_or_404(tx, tenant_id, webhook_id)
        webhooks.update(tx, tenant_id, webhook_id, {name: fields[name] for name in changed})
        found = _get_or_404(tx, tenant_id, webhook_id)
        _audit(tx, tenant_id, "webhook_changed", webhook_id, changed_by, fields=sorted(set(changed) - {"reason"}))
    delivery.wake()
    return found


def delete(tenant_id: UUID, webhook_id: UUID, deleted_by: str) -> None:
    """Delete a webhook with its secrets and pending deliveries.

    Raises:
        NotFound: This tenant has no such webhook.
    """
    with database.tenant(tenant_id) as tx:
        found = require_found(webhooks.lock(tx, tenant_id, webhook_id), "webhook")
        webhooks.delete(tx, tenant_id, webhook_id)
        secrets.destroy(tx, tenant_id, [found.secret_id, found.old_secret_id])
        _audit(tx, tenant_id, "webhook_deleted", webhook_id, deleted_by)


def rotate(tenant_id: UUID, webhook_id: UUID, given: SecretRotation, rotated_by: str) -> WithSecret:
    """Replace a webhook's secret. The old secret also signs for `overlap_hours`; any older secret is deleted.

    Raises:
        NotFound: This tenant has no such webhook.
        Conflict: No master key is set.
    """
    new = secrets.make(tenant_id)
    with database.tenant(tenant_id) as tx:
        before = require_found(webhooks.lock(tx, tenant_id, webhook_id), "webhook")
        secrets.store(tx, tenant_id, new)
        webhooks.rotate_secret(tx, tenant_id, webhook_id, new.secret_id, given.overlap_hours)
        unused = [before.old_secret_id, None if given.overlap_hours else before.secret_id]
        secrets.destroy(tx, tenant_id, unused)
        found = _get_or_404(tx, tenant_id, webhook_id)
        _audit(tx, tenant_id, "webhook_secret_rotated", webhook_id, rotated_by, overlap_hours=given.overlap_hours)
    return WithSecret(found, encode_secret(new.secret))


def test(tenant_id: UUID, webhook_id: UUID) -> UUID:
    """Queue a message of the type `webhook.test`, which is sent once; return the id of its delivery.

    Raises:
        NotFound: This tenant has no such webhook.
        Conflict: The webhook isn't enabled.
    """
    delivery_id = uuid4()
    with database.tenant(tenant_id) as tx:
        _lock_enabled(tx, tenant_id, webhook_id)
        event = Event(delivery_id, 0, TEST, database.now(tx), webhook_id)
        deliveries.insert(tx, tenant_id, webhook_id, [event])
        turns.wake(tx, tenant_id, webhook_id)
    delivery.wake()
    return delivery_id


def replay(tenant_id: UUID, webhook_id: UUID, given: Replay, replayed_by: str) -> int:
    """Send deliveries again with the same ids, counting their attempts from zero; return the number of deliveries.

    Raises:
        NotFound: This tenant has no such webhook.
        Conflict: The webhook isn't enabled.
        Invalid: An id isn't a delivery of this webhook.
    """
    ids = None if given.ids is None else list(dict.fromkeys(given.ids))
    with database.tenant(tenant_id) as tx:
        _lock_enabled(tx, tenant_id, webhook_id)
        if ids is not None and (missing := deliveries.list_missing(tx, tenant_id, webhook_id, ids)):
            place = ids.index(missing[0])
            raise Invalid(errors=[FieldError(f"ids[{place}]", "isn't a delivery of this webhook", str(missing[0]))])
        number = deliveries.replay(
            tx, tenant_id, webhook_id, ids=ids, failed_since=given.failed_since, limit=REPLAY_MAX
        )
        if number:
            turns.wake(tx, tenant_id, webhook_id)
            _audit(tx, tenant_id, "webhook_replayed", webhook_id, replayed_by, items=number)
    delivery.wake()
    return number


def list_deliveries(
    tenant_id: UUID, webhook_id: UUID, older_than: Place | None, limit: int, status: DeliveryStatus | None = None
) -> Page[Delivery]:
    """Return a page of a webhook's deliveries, latest first, optionally of one status.

    Raises:
        NotFound: This tenant has no such webhook.
    """
    with database.tenant(tenant_id) as tx:
        _get_or_404(tx, tenant_id, webhook_id)
        return deliveries.list_deliveries(tx, tenant_id, webhook_id, older_than, limit, status)


def _get_or_404(tx: database.Transaction, tenant_id: UUID, webhook_id: UUID) -> Webhook:
    return require_found(webhooks.get(tx, tenant_id, webhook_id), "webhook")


def _lock_enabled(tx: database.Transaction, tenant_id: UUID, webhook_id: UUID) -> None:
    found = require_found(webhooks.lock(tx, tenant_id, webhook_id), "webhook")
    if found.status != "enabled":
        raise Conflict(f"this webhook is {found.status}: enable it first, then its messages are sent")


def _check_receiver(url: str) -> None:
    try:
        check_receiver(url)
    except HostRefused as refused:
        raise Invalid(errors=[FieldError("url", str(refused))]) from None


def _audit(
    tx: database.Transaction,
    tenant_id: UUID,
    action: Action,
    webhook_id: UUID,
    actor: str,
    *,
    items: int = 1,
    **details: int | list[str],
) -> None:
    audit.append(tx, tenant_id, action, actor, items=items, details={"webhook": str(webhook_id), **details})
