"""`/v1/webhooks`: receivers of the change feed, their secrets, and the deliveries to them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.cursors import Paged
from app.api.http.path_ids import WebhookId
from app.api.http.request_body import json_body
from app.domain.changes.cursors import encode_cursor
from app.domain.webhooks.endpoint import NewWebhook, Replay, SecretRotation, WebhookChange
from app.domain.webhooks.messages import ID_PREFIX
from app.services.webhooks import webhooks
from app.services.webhooks.webhooks import WithSecret
from app.store.webhooks.deliveries import Delivery, DeliveryStatus
from app.store.webhooks.webhooks import Webhook

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])


@router.post("", summary="Create a webhook", status_code=201)
def create(caller: Maintainer, given: Annotated[NewWebhook, Depends(json_body(NewWebhook))]) -> Response:
    """Send the changes from now on to a receiver, as `{"type", "timestamp", "data": {"id", "cursor"}}`, without texts.

    `secret` is shown only here and after a rotation: with it, the receiver verifies the header `webhook-signature`
    (Standard Webhooks). 422 if the receiver's address is private or its host can't be resolved; 409 if the tenant has
    50 webhooks, its change feed is off (`changes.keep_days`), or no master key is set.
    """
    return responses.answer(_render_secret(webhooks.create(caller.tenant_id, given, caller.key_id)), 201)


@router.get("", summary="List webhooks, newest first")
def page(caller: Maintainer, wanted: Paged) -> Response:
    """Return a page of webhooks with the numbers of their pending and failed deliveries."""
    return responses.page("webhooks", webhooks.list_webhooks(caller.tenant_id, *wanted), _render)


@router.get("/{webhook_id}", summary="Get a webhook")
def get(caller: Maintainer, webhook_id: WebhookId) -> Response:
    """Return a webhook. It is disabled after a 410, or after ten failures and five days since `failing_since`."""
    return responses.answer(_render(webhooks.get(caller.tenant_id, webhook_id)))


@router.patch("/{webhook_id}", summary="Change, pause or enable a webhook")
def change(
    caller: Maintainer, webhook_id: WebhookId, given: Annotated[WebhookChange, Depends(json_body(WebhookChange))]
) -> Response:
    """Change a webhook; omitted fields remain. With the status `enabled`, it continues where it stopped."""
    return responses.answer(_render(webhooks.change(caller.tenant_id, webhook_id, given, caller.key_id)))


@router.delete("/{webhook_id}", summary="Delete a webhook", status_code=204)
def delete(caller: Maintainer, webhook_id: WebhookId) -> Response:
    """Delete a webhook with its secrets and pending deliveries. A request under way may still arrive."""
    webhooks.delete(caller.tenant_id, webhook_id, caller.key_id)
    return Response(status_code=204)


@router.post("/{webhook_id}/rotate", summary="Replace a webhook's secret")
def rotate(
    caller: Maintainer,
    webhook_id: WebhookId,
    given: Annotated[SecretRotation, Depends(json_body(SecretRotation, is_optional=True))],
) -> Response:
    """Return a new `secret`. Messages are signed with both secrets for `overlap_hours`, then with the new one alone."""
    return responses.answer(_render_secret(webhooks.rotate(caller.tenant_id, webhook_id, given, caller.key_id)))


@router.post("/{webhook_id}/test", summary="Send a test message", status_code=202)
def test(caller: Maintainer, webhook_id: WebhookId) -> Response:
    """Queue a message of the type `webhook.test`, which is sent once; `delivery_id` is its delivery."""
    return responses.answer({"delivery_id": webhooks.test(caller.tenant_id, webhook_id)}, 202)


@router.get("/{webhook_id}/deliveries", summary="List the deliveries of a webhook, newest first")
def deliveries(
    caller: Maintainer,
    webhook_id: WebhookId,
    wanted: Paged,
    *,
    status: Annotated[DeliveryStatus | None, Query(description="Only deliveries of this status.")] = None,
) -> Response:
    """Return a page of deliveries of the last 14 days. Answers of receivers aren't stored, only their status."""
    found = webhooks.list_deliveries(caller.tenant_id, webhook_id, *wanted, status)
    return responses.page("deliveries", found, partial(_render_delivery, caller.tenant_id))


@router.post("/{webhook_id}/replay", summary="Send deliveries again", status_code=202)
def replay(caller: Maintainer, webhook_id: WebhookId, given: Annotated[Replay, Depends(json_body(Replay))]) -> Response:
    """Send deliveries again: those listed in `ids`, or failed deliveries of changes since `failed_since`.

    Each message has the same `webhook-id` as at its first attempt. `replayed` counts the deliveries. With
    `failed_since`, repeat the request while `replayed` is 1,000.
    """
    return responses.answer({"replayed": webhooks.replay(caller.tenant_id, webhook_id, given, caller.key_id)}, 202)


def _render(hook: Webhook) -> dict[str, Any]:
    return {
        "id": hook.webhook_id,
        **responses.pick(hook, "url", "description", "types", "format", "status", "reason", "created_at", "created_by"),
        **responses.pick(hook, "updated_at", "old_secret_until", "failing_since", "succeeded_at"),
        **responses.pick(hook, "pending", "failed", "missed"),
    }


def _render_secret(made: WithSecret) -> dict[str, Any]:
    return _render(made.webhook) | {"secret": made.secret}


def _render_delivery(tenant_id: UUID, delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.delivery_id,
        "message_id": f"{ID_PREFIX}{delivery.delivery_id.hex}",
        "cursor": encode_cursor(tenant_id, delivery.cursor) if delivery.cursor else None,
        **responses.pick(delivery, "type", "changed_id", "changed_at", "status", "attempts", "next_at"),
        **responses.pick(delivery, "attempted_at", "response", "outcome", "created_at"),
    }
