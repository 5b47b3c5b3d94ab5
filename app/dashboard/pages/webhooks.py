"""Webhooks page: receivers with their state, deliveries, tests, pauses and replays."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, cast

from fastapi import APIRouter, Query, Request, Response

from app.api.http.cursors import TIMED
from app.api.http.path_ids import WebhookId
from app.dashboard import rendering
from app.dashboard.access import Maintaining, Planning
from app.dashboard.forms import read_as
from app.dashboard.rendering import redirect_back
from app.domain.webhooks.endpoint import Replay, WebhookChange
from app.services.webhooks import webhooks
from app.store.webhooks.deliveries import DeliveryStatus

PAGE: Final = 50
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

router = APIRouter(prefix="/webhooks")


@router.get("")
def list_webhooks(viewer: Planning, request: Request, cursor: str | None = None) -> Response:
    """List the tenant's webhooks, newest first."""
    found = webhooks.list_webhooks(viewer.tenant_id, TIMED.decode(cursor), PAGE)
    following = TIMED.encode(found.following)
    return rendering.page(request, viewer, "webhooks/list", webhooks=found, following=following)


@router.get("/{webhook_id}")
def show_webhook(
    viewer: Planning,
    request: Request,
    webhook_id: WebhookId,
    cursor: str | None = None,
    status: Annotated[str, Query(pattern="^(|pending|delivered|failed)$")] = "",
) -> Response:
    """Show a webhook and its deliveries, newest first, optionally of one status."""
    hook = webhooks.get(viewer.tenant_id, webhook_id)
    wanted = cast("DeliveryStatus", status) if status else None
    found = webhooks.list_deliveries(viewer.tenant_id, webhook_id, TIMED.decode(cursor), PAGE, wanted)
    following = TIMED.encode(found.following)
    return rendering.page(
        request, viewer, "webhooks/page", hook=hook, deliveries=found, following=following, wanted=status
    )


@router.post("/{webhook_id}/test")
def send_test(acting: Maintaining, webhook_id: WebhookId) -> Response:
    """Send a test message."""
    acting.record_on("test_webhook", webhook_id, webhooks.get)
    webhooks.test(acting.tenant_id, webhook_id)
    return redirect_back(f"/webhooks/{webhook_id}", "webhook_sent")


@router.post("/{webhook_id}/status")
def change_status(acting: Maintaining, webhook_id: WebhookId) -> Response:
    """Enable or pause a webhook."""
    given = read_as(WebhookChange, {"status": acting.form.get("status", "")})
    acting.record_on("change_webhook", webhook_id, webhooks.get)
    hook = webhooks.change(acting.tenant_id, webhook_id, given, acting.key_id)
    return redirect_back(f"/webhooks/{webhook_id}", f"webhook_{hook.status}")


@router.post("/{webhook_id}/replay")
def replay(acting: Maintaining, webhook_id: WebhookId) -> Response:
    """Send one delivery again, or up to 1,000 failed ones."""
    one = acting.form.get("delivery", "")
    given = read_as(Replay, {"ids": [one]} if one else {"failed_since": _BEGINNING.isoformat()})
    acting.record_on("replay_webhook", webhook_id, webhooks.get)
    webhooks.replay(acting.tenant_id, webhook_id, given, acting.key_id)
    return redirect_back(f"/webhooks/{webhook_id}", "webhook_sent")
