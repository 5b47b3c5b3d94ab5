"""Call the OpenID Connect provider of log-ins: its discovery document, its keys and its token endpoint.

All calls are outbound requests under the rules of `egress`: allowed hosts only, no redirects, limits on size and time.
The documents are cached per process; neither tokens nor codes are stored or logged.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus, urlsplit

import httpx2
import msgspec

from app.clients.llm import egress
from app.domain.ingest.json_input import UNDECODABLE
from app.settings import KIB, settings

TIMEOUT_SECONDS: Final = 5.0
ANSWER_MAX_BYTES: Final = 256 * KIB
CACHE_SECONDS: Final = 3600.0
KEYS_REFRESH_SECONDS: Final = 60.0
"""Minimum time between two requests for the keys, even if many tokens name an unknown key."""
RETRY_SECONDS: Final = 5.0
"""Time after a failed request during which the provider isn't called again for the same document."""

T = TypeVar("T")


class LogInProviderFailed(Exception):
    """The provider can't be used. The message is a fixed reason, with the host or a status."""


class CodeRefused(Exception):
    """The provider refused an authorization code: it is unknown, expired, used before, or another client's."""


class Discovery(msgspec.Struct, frozen=True):
    """The parts of the discovery document that a log-in uses."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Keys(msgspec.Struct, frozen=True):
    keys: tuple[dict[str, Any], ...]


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str


class _Refusal(msgspec.Struct, frozen=True):
    error: str


_DISCOVERY: Final = msgspec.json.Decoder(Discovery)
_KEYS: Final = msgspec.json.Decoder(_Keys)
_TOKENS: Final = msgspec.json.Decoder(_Tokens)
_REFUSAL: Final = msgspec.json.Decoder(_Refusal)


class _Cached:
    """A document of the provider: its last value, or the failure of the last request."""

    def __init__(self, fetch: Callable[[], Any], clock: Callable[[], float]) -> None:
        self._fetch, self._clock, self._lock = fetch, clock, Lock()
        self._value: Any = None
        self._failure: LogInProviderFailed | None = None
        self._asked_at = float("-inf")

    def get(self, younger_than: float = CACHE_SECONDS) -> Any:
        """Return the document from the cache; request it if the cached one is too old.

        Raises:
            LogInProviderFailed: The request failed, or an earlier one did less than `RETRY_SECONDS` ago.
        """
        with self._lock:
            age = self._clock() - self._asked_at
            if self._failure is not None and age < RETRY_SECONDS:
                raise self._failure
            if self._failure is not None or age >= younger_than:
                self._asked_at, self._failure = self._clock(), None
                try:
                    self._value = self._fetch()
                except LogInProviderFailed as failure:
                    self._failure = failure
                    raise
            return self._value

    @property
    def last(self) -> Any:
        """The last value, without a request; None if there is none."""
        return self._value


class LogInProvider:
    """An OpenID Connect provider, with its documents that this process has cached."""

    def __init__(self, issuer: str, allowed: egress.Allowed, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without documents."""
        self._issuer, self._allowed = issuer, allowed
        self._discovery = _Cached(self._discover, clock)
        self._keys = _Cached(self._read_keys, clock)

    def discover(self) -> Discovery:
        """Return the discovery document.

        Raises:
            LogInProviderFailed: The provider can't be reached, or its document is invalid.
        """
        found: Discovery = self._discovery.get()
        return found

    @property
    def known(self) -> Discovery | None:
        """The discovery document if this process has it; it isn't requested."""
        found: Discovery | None = self._discovery.last
        return found

    def read_keys(self, *, again: bool = False) -> tuple[dict[str, Any], ...]:
        """Return the provider's public keys as JWKs.

        Args:
            again: True if a token names an unknown key: requests the keys if the last request is over a minute old.

        Raises:
            LogInProviderFailed: The provider can't be reached, or its document is invalid.
        """
        found: _Keys = self._keys.get(KEYS_REFRESH_SECONDS if again else CACHE_SECONDS)
        return found.keys

    def redeem_code(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Exchange an authorization code for the ID token; the provider's other tokens are discarded.

        Raises:
            CodeRefused: The provider refused the code.
            LogInProviderFailed: The provider can't be reached, refused the client, or its answer is invalid.
        """
        config, discovery = settings(), self.discover()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"code_verifier": verifier}
        client_id = config.oidc_client_id or ""
        secret = config.oidc_client_secret.get_secret_value() if config.oidc_client_secret else ""
        headers = {}
        if secret and "client_secret_basic" in discovery.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            headers = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
        else:
            form |= {"client_id": client_id} | ({"client_secret": secret} if secret else {})
        status, body = self._exchange("POST", discovery.token_endpoint, headers, form)
        if status == httpx2.codes.BAD_REQUEST and _is_code_refused(body):
            raise CodeRefused
        return _decode(_TOKENS, status, body, "the token endpoint").id_token

    def _discover(self) -> Discovery:
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        found = _decode(_DISCOVERY, *self._exchange("GET", url), "the discovery document")
        if found.issuer != self._issuer:
            raise LogInProviderFailed("its discovery document names another issuer than EBBING_OIDC_ISSUER")
        schemes = {"https", urlsplit(self._issuer).scheme}
        endpoints = (found.authorization_endpoint, found.end_session_endpoint or self._issuer)
        if not all(_scheme(each) in schemes for each in endpoints):
            raise LogInProviderFailed("its discovery document names an endpoint that isn't an https address")
        return found

    def _read_keys(self) -> _Keys:
        return _decode(_KEYS, *self._exchange("GET", self.discover().jwks_uri), "the keys")

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request and return the status and the body of the response."""
        try:
            with egress.client(
                self._allowed, timeout_seconds=TIMEOUT_SECONDS, answer_max_bytes=ANSWER_MAX_BYTES, connections=1
            ) as http:
                answer = http.request(method, url, headers=headers, data=form)
        except egress.HostRefused as error:
            raise LogInProviderFailed(str(error)) from None
        except egress.AnswerRefused as error:
            raise LogInProviderFailed(f"its answer is refused: {error}") from None
        except httpx2.TimeoutException:
            raise LogInProviderFailed("it didn't answer in time") from None
        except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol):
            raise LogInProviderFailed("it can't be reached") from None
        return answer.status_code, answer.content


def _decode(decoder: msgspec.json.Decoder[T], status: int, body: bytes, what: str) -> T:
    if status != httpx2.codes.OK:
        raise LogInProviderFailed(f"it answers the request for {what} with the status {status}")
    try:
        return decoder.decode(body)
    except UNDECODABLE:
        raise LogInProviderFailed(f"its answer to the request for {what} is invalid") from None


def _is_code_refused(body: bytes) -> bool:
    """Return whether an error is about the code; otherwise it is about the client or the request."""
    try:
        return _REFUSAL.decode(body).error == "invalid_grant"
    except UNDECODABLE:
        return False


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def log_in_provider() -> LogInProvider:
    """Return the provider that the settings name."""
    config = settings()
    return _provider(config.oidc_issuer or "", config.oidc_allowed_hosts, config.oidc_private_addresses)


@lru_cache(maxsize=1)
def _provider(issuer: str, hosts: frozenset[str], private: bool) -> LogInProvider:  # noqa: FBT001 - a cache key
    return LogInProvider(issuer, egress.Allowed(hosts, private))
