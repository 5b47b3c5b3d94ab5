"""Send messages to receivers of webhooks, whose URLs come from callers: only to public addresses or permitted hosts.

The rules of `egress` apply: the addresses are checked when a connection is opened, so that a host name can't lead
elsewhere later (DNS rebinding); redirects aren't followed; time and size are limited. Of an answer, only the status and
the time of `Retry-After` are used: neither its headers nor its body are stored or logged.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx2

from app.clients.llm import egress
from app.clients.llm.egress import Allowed, AnswerRefused, HostRefused
from app.clients.retry_after import retry_after_seconds
from app.domain.webhooks.messages import SENT_HEADERS, Message
from app.settings import settings

ANSWER_MAX_BYTES: Final = 4096
"""Part of an answer that is read, so that its connection can be used again; a longer answer closes the connection."""
CONNECTIONS: Final = 32
_opening: Final = threading.Lock()

Outcome = Literal["delivered", "status", "redirect", "gone", "timeout", "connection", "address"]
"""Outcome of an attempt: a 2xx status, a status not named here, a redirect, a 410, no answer in time, no connection,
or an address that isn't allowed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one request.

    Attributes:
        status: Status of the answer; None if the receiver didn't answer.
        wait_seconds: Wait that a receiver requests with `Retry-After`, up to an hour; 0 if it requests none.
    """

    outcome: Outcome
    status: int | None = None
    wait_seconds: float = 0.0


class ReceiverHosts(Allowed):
    """Hosts of receivers: any public one by HTTPS, and those of `EBBING_WEBHOOK_HOSTS`."""

    def check_host(self, host: str) -> None:
        """Accept every host: `check_address` decides."""

    def check_address(self, host: str, address: str, *, plain: bool) -> None:
        """Check that a receiver may have this address.

        Raises:
            HostRefused: The address is of a kind that is never allowed; or the host isn't in `EBBING_WEBHOOK_HOSTS`,
                and its address is private or the request is plain HTTP.
        """
        parsed = egress.plain_form(address)
        if egress.is_never_allowed(parsed):
            raise HostRefused("has a link-local, multicast, unspecified or metadata address")
        if host.strip("[]").lower() in self.hosts:
            return
        if not parsed.is_global:
            raise HostRefused("has a private address: the operator can permit its host in EBBING_WEBHOOK_HOSTS")
        if plain:
            raise HostRefused("must be called by https, because plain HTTP is unencrypted")


def check_receiver(url: str) -> None:
    """Resolve a receiver's host and check all of its addresses, as each connection does again.

    Raises:
        HostRefused: An address isn't allowed, or the host can't be resolved. The message is a predicate without the
            address.
    """
    parts = urlsplit(url)
    host, plain = parts.hostname or "", parts.scheme == "http"
    try:
        addresses = egress.resolve_host(host, parts.port or (80 if plain else 443))
    except (OSError, UnicodeError):
        raise HostRefused("has a host name that can't be resolved") from None
    allowed = _allowed()
    for address in addresses:
        allowed.check_address(host, address, plain=plain)


def send(url: str, message: Message) -> Attempt:
    """Send a message once, and return the result; errors of the network are results."""
    timeout = settings().webhook_timeout_seconds
    try:
        client = _open_client()
        request = client.build_request(
            "POST", url, content=message.body, headers=message.headers, timeout=httpx2.Timeout(timeout)
        )
        answer = client.send(request, stream=True)
    except HostRefused:
        return Attempt("address")
    except httpx2.TimeoutException:
        return Attempt("timeout")
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, ValueError):
        return Attempt("connection")
    try:
        for _ in answer.iter_raw():
            pass
    except (AnswerRefused, httpx2.HTTPError):
        pass  # the status is known, and nothing of the answer is used
    finally:
        answer.close()
    outcome = _judge(answer.status_code)
    wait = None if outcome == "delivered" else retry_after_seconds(answer.headers, time.time())
    return Attempt(outcome, answer.status_code, wait or 0.0)


def close() -> None:
    """Close the connections, and read the settings again at the next request."""
    if _client.cache_info().currsize:
        _client().close()
    _client.cache_clear()


def _judge(status: int) -> Outcome:
    if 200 <= status < 300:
        return "delivered"
    if 300 <= status < 400:
        return "redirect"
    return "gone" if status == httpx2.codes.GONE else "status"


def _open_client() -> httpx2.Client:
    """Return this process's client; a lock prevents concurrent threads from creating several."""
    with _opening:
        return _client()


def _allowed() -> ReceiverHosts:
    return ReceiverHosts(settings().webhook_hosts)


@cache
def _client() -> httpx2.Client:
    return egress.client(
        _allowed(),
        timeout_seconds=settings().webhook_timeout_seconds,
        answer_max_bytes=ANSWER_MAX_BYTES,
        connections=CONNECTIONS,
        more_headers=SENT_HEADERS,
        status_only=True,
    )
