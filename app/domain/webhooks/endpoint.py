"""Webhooks as callers define them: the URL, the types of events, and the form of the messages."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from app.domain.changes.types import TYPES
from app.domain.ingest.near_names import suggest_field
from app.errors import FieldError, Invalid

URL_MAX_CHARACTERS: Final = 2_000
DESCRIPTION_MAX_CHARACTERS: Final = 200
WEBHOOKS_MAX: Final = 50
"""Maximum number of webhooks of a tenant."""
OVERLAP_HOURS: Final = 24
"""Hours for which the old secret of a rotation signs by default."""
OVERLAP_MAX_HOURS: Final = 168
REPLAY_MAX: Final = 1_000
"""Maximum number of deliveries that one request replays."""

TEST: Final = "webhook.test"
"""Type of the message that a test delivery sends; it isn't a change of the feed."""

Format = Literal["standard", "cloudevents"]
Status = Literal["enabled", "paused", "disabled"]
Reason = Literal["failing", "gone"]
"""Reason of the status `disabled`: the receiver failed for days, or answered with 410."""

_Text = Annotated[str, msgspec.Meta(max_length=DESCRIPTION_MAX_CHARACTERS, pattern=r"^[^\x00-\x1f]*$")]
_Url = Annotated[str, msgspec.Meta(min_length=1, max_length=URL_MAX_CHARACTERS)]
_Types = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=len(TYPES))]


class NewWebhook(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A new webhook.

    Attributes:
        url: Receiver's `https` address, up to 2,000 characters, without user name, password or fragment. Private
            addresses are refused.
        types: Types of changes to send, as in `GET /v1/changes`; null for all.
        description: Description for operators, up to 200 characters; it must not contain personal data.
        format: `standard` sends `{type, timestamp, data}`; `cloudevents` sends the same as a structured CloudEvent.
    """

    url: _Url
    types: _Types | None = None
    description: _Text = ""
    format: Format = "standard"

    def check_request(self) -> None:
        """Check what the types of the fields don't express.

        Raises:
            Invalid: The URL or a type can't be used.
        """
        check_url(self.url)
        _check_types(self.types)


class WebhookChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Changes of a webhook. Fields that are omitted remain.

    Attributes:
        url: Receiver's `https` address, as for a new webhook.
        types: Types of changes to send; null for all. Changes skipped because of their type aren't sent later.
        description: Description for operators, up to 200 characters.
        format: `standard` or `cloudevents`.
        status: `paused` stops sending; `enabled` continues after the last change that was sent, also after the
            webhook was disabled.
    """

    url: _Url | msgspec.UnsetType = msgspec.UNSET
    types: _Types | msgspec.UnsetType | None = msgspec.UNSET
    description: _Text | msgspec.UnsetType = msgspec.UNSET
    format: Format | msgspec.UnsetType = msgspec.UNSET
    status: Literal["enabled", "paused"] | msgspec.UnsetType = msgspec.UNSET

    def check_request(self) -> None:
        """Check what the types of the fields don't express.

        Raises:
            Invalid: Nothing is given, or the URL or a type can't be used.
        """
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        if all(value is msgspec.UNSET for value in given.values()):
            raise Invalid(errors=[FieldError("status", "is missing: give at least one field to change")])
        if not isinstance(self.url, msgspec.UnsetType):
            check_url(self.url)
        if not isinstance(self.types, msgspec.UnsetType):
            _check_types(self.types)


class SecretRotation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rotation of a webhook's secret.

    Attributes:
        overlap_hours: Hours for which messages are signed with the old secret, too; 0 to 168, by default 24.
    """

    overlap_hours: Annotated[int, msgspec.Meta(ge=0, le=OVERLAP_MAX_HOURS)] = OVERLAP_HOURS


class Replay(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Deliveries to send again; each message has the same `webhook-id` as at its first attempt.

    Attributes:
        ids: Ids of up to 1,000 deliveries, delivered or failed.
        failed_since: Failed deliveries of changes since this time, the oldest first, up to 1,000 per request.
    """

    ids: Annotated[tuple[UUID, ...], msgspec.Meta(min_length=1, max_length=REPLAY_MAX)] | None = None
    failed_since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    def check_request(self) -> None:
        """Check that exactly one selection is given.

        Raises:
            Invalid: None or both are given.
        """
        if (self.ids is None) == (self.failed_since is None):
            raise Invalid(errors=[FieldError("ids", "or `failed_since` must be given, and not both")])


def check_url(url: str) -> None:
    """Check the form of a receiver's URL; `clients.webhooks` checks its host.

    Raises:
        Invalid: The URL isn't an absolute `https` or `http` URL, or has a part that must not be there.
    """
    fault = _find_fault(url) or _find_host_fault(urlsplit(url).hostname or "")
    if fault:
        raise Invalid(errors=[FieldError("url", fault)])


_NO_URL: Final = "must be a URL, such as https://example.org/hooks"


def _find_fault(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _NO_URL
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must be an encoded URL, without spaces and special characters"
    if parts.scheme not in ("https", "http") or not host or port == 0:
        return _NO_URL
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or a password"
    return "must not contain a fragment (`#…`)" if "#" in url else None


def _find_host_fault(host: str) -> str | None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # A resolver would read `127.1` or `0x7f000001` as an address.
        last = host.rstrip(".").rpartition(".")[2]
        if last.isdigit() or last[:2] in ("0x", "0X"):
            return "must contain a host name, or an IP address in its usual form, such as 192.0.2.1"
    return None


def _check_types(types: Collection[str] | None) -> None:
    for place, name in enumerate(types or ()):
        if name not in TYPES:
            raise Invalid(
                errors=[FieldError(f"types[{place}]", "isn't a type of change", suggestion=suggest_field(name, TYPES))]
            )
