"""Messages of webhooks: body, headers and signatures by the Standard Webhooks specification 1.0.0.

A message has the type and time of a change and the id of what changed, never text, so that an erasure is complete
without the receiver's help.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from app.domain.changes.cursors import encode_cursor
from app.domain.webhooks.endpoint import Format

SECRET_BYTES: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - a prefix
ID_PREFIX: Final = "msg_"
CLOUD_TYPE: Final = "application/cloudevents+json"
SENT_HEADERS: Final = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature", "user-agent"})
USER_AGENT: Final = "Ebbing-Webhooks/1"
_TYPE_PREFIX: Final = "ebbing."
_SPACE: Final = uuid5(NAMESPACE_URL, "urn:ebbing:webhook-deliveries")


@dataclass(frozen=True, slots=True)
class Event:
    """The event of a message.

    Attributes:
        delivery_id: Id of the delivery, the same in every attempt.
        cursor: Position of the change in the tenant's feed; 0 for a test.
        at: Time of the change.
        changed_id: Id of the memory, erasure or job that changed; for a test, the webhook's.
    """

    delivery_id: UUID
    cursor: int
    type: str
    at: datetime
    changed_id: UUID


@dataclass(frozen=True, slots=True)
class Message:
    """A signed request to a receiver."""

    body: bytes
    headers: dict[str, str]


def delivery_id(webhook_id: UUID, cursor: int) -> UUID:
    """Return the id of a change's delivery to a webhook; a worker that repeats its work gets the same id."""
    return uuid5(_SPACE, f"{webhook_id} {cursor}")


def encode_secret(secret: bytes) -> str:
    """Return a secret in the form that receivers configure: `whsec_` and base64."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature of the header `webhook-signature`: `v1,` and the base64 of HMAC-SHA256.

    Args:
        timestamp: Time of the attempt, in seconds since 1970.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def build_message(event: Event, form: Format, tenant_id: UUID, secrets: Sequence[bytes], now: datetime) -> Message:
    """Return the request that delivers an event.

    Args:
        secrets: Secrets whose signatures the request has, the current one first.
        now: Time of the attempt, which the signatures cover.
    """
    message_id, timestamp = ID_PREFIX + event.delivery_id.hex, int(now.timestamp())
    body = msgspec.json.encode(
        _cloud_event(event, tenant_id) if form == "cloudevents" else _standard_event(event, tenant_id)
    )
    headers = {
        "content-type": CLOUD_TYPE if form == "cloudevents" else "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(sign(secret, message_id, timestamp, body) for secret in secrets),
    }
    return Message(body, headers)


def _standard_event(event: Event, tenant_id: UUID) -> dict[str, Any]:
    return {"type": event.type, "timestamp": event.at.astimezone(UTC), "data": _data(event, tenant_id)}


def _cloud_event(event: Event, tenant_id: UUID) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": ID_PREFIX + event.delivery_id.hex,
        "source": f"urn:ebbing:tenant:{tenant_id}",
        "type": _TYPE_PREFIX + event.type,
        "time": event.at.astimezone(UTC),
        "subject": str(event.changed_id),
        "datacontenttype": "application/json",
        "data": _data(event, tenant_id),
    }


def _data(event: Event, tenant_id: UUID) -> dict[str, Any]:
    cursor = encode_cursor(tenant_id, event.cursor) if event.cursor else None
    return {"id": event.changed_id, "cursor": cursor}
