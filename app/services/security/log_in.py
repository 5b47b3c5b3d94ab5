"""Log people in through the OpenID Connect provider: authorization code flow with PKCE, and claims to scopes."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import structlog

from app.clients.oidc_provider import CodeRefused, LogInProviderFailed, log_in_provider
from app.errors import EbbingError
from app.log_in_settings import LogInRule
from app.services.security import id_tokens
from app.services.security.id_tokens import TokenRefused, UnknownKey
from app.settings import settings

CALLBACK_PATH: Final = "/ops/log-in/oidc/callback"
NAME_MAX_CHARACTERS: Final = 200
CODE_MAX_CHARACTERS: Final = 4096

log = structlog.get_logger(__name__)


class ProviderAway(EbbingError):
    """The log-in provider can't be used; API keys still work."""

    status, type, title = 503, "log-in-provider-away", "The log-in provider can't be used"


class LogInRefused(EbbingError):
    """The provider's answer doesn't prove who the person is."""

    status, type, title = 401, "log-in-refused", "The log-in failed"


class NoAccess(EbbingError):
    """The person is known, but no rule grants them access."""

    status, type, title = 403, "no-access", "No access"


@dataclass(frozen=True, slots=True)
class Person:
    """A person that the provider identified.

    Attributes:
        sub: The provider's id of the person.
        rules: Digests of the rules that grant the person access.
    """

    issuer: str
    sub: str
    name: str
    rules: tuple[str, ...]


def is_offered() -> bool:
    """Return whether people may log in through a provider."""
    return settings().oidc_issuer is not None


def authorization_url(state: str, nonce: str, verifier: str) -> str:
    """Return the provider's address to which the browser is sent.

    Args:
        verifier: The PKCE secret, of which the provider learns a digest now and the value with the code.

    Raises:
        ProviderAway: The provider can't be reached, or its discovery document is invalid.
    """
    config = settings()
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": config.oidc_client_id,
        "redirect_uri": _redirect_uri(),
        "scope": config.oidc_requested_scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    try:
        return _with_query(log_in_provider().discover().authorization_endpoint, query)
    except LogInProviderFailed as failure:
        raise _away(failure) from None


def identify(code: str, nonce: str, verifier: str) -> Person:
    """Exchange an authorization code for the person's identity and access.

    Raises:
        ProviderAway: The provider can't be reached, or its answer is invalid.
        LogInRefused: The provider refused the code, or its ID token isn't valid for this log-in.
        NoAccess: The token lacks the access claim, or no rule names one of its values.
    """
    provider = log_in_provider()
    try:
        token = provider.redeem_code(code, verifier, _redirect_uri())
        try:
            claims = _verify(token, provider.read_keys(), nonce)
        except UnknownKey:
            claims = _verify(token, provider.read_keys(again=True), nonce)
    except LogInProviderFailed as failure:
        raise _away(failure) from None
    except CodeRefused:
        raise _refused("code") from None
    except TokenRefused as refusal:
        raise _refused(str(refusal)) from None
    return _person(claims)


def find_access(granted: Collection[str]) -> dict[UUID, frozenset[str]]:
    """Return the scopes by tenant of a person's rules; rules that the settings no longer have grant nothing.

    The first tenant is the one to show after a log-in.
    """
    everywhere, scopes = find_fleet_scopes(granted), dict[UUID, frozenset[str]]()
    for rule in _find_rules(granted):
        for tenant_id in rule.tenants:
            scopes[tenant_id] = scopes.get(tenant_id, everywhere) | rule.scopes
    return scopes


def find_fleet_scopes(granted: Collection[str]) -> frozenset[str]:
    """Return the scopes of a person's rules on tenants that no rule names: those of rules with the scope `admin`."""
    return frozenset(scope for rule in _find_rules(granted) if "admin" in rule.scopes for scope in rule.scopes)


def _find_rules(granted: Collection[str]) -> list[LogInRule]:
    return [rule for value, rule in settings().oidc_scopes.items() if _digest_rule(value) in granted]


def log_out_url() -> str | None:
    """Return the provider's own log-out page, if this process knows that it has one."""
    known = log_in_provider().known if is_offered() else None
    if known is None or known.end_session_endpoint is None:
        return None
    back = f"{(settings().public_url or '').rstrip('/')}/ops/log-in"
    query = {"client_id": settings().oidc_client_id, "post_logout_redirect_uri": back}
    return _with_query(known.end_session_endpoint, query)


def check_provider() -> None:
    """Request the provider's discovery document and keys.

    Raises:
        LogInProviderFailed: The provider can't be reached, or one of them is invalid.
    """
    provider = log_in_provider()
    provider.discover()
    provider.read_keys()


def _verify(token: str, keys: Collection[Mapping[str, Any]], nonce: str) -> dict[str, Any]:
    config = settings()
    issuer, client_id = config.oidc_issuer or "", config.oidc_client_id or ""
    return id_tokens.verify_token(token, keys, issuer=issuer, client_id=client_id, nonce=nonce, now=int(time.time()))


def _person(claims: Mapping[str, Any]) -> Person:
    config = settings()
    claim = claims.get(config.oidc_access_claim)
    values = {each for each in (claim if isinstance(claim, list) else [claim]) if isinstance(each, str)}
    if not values:
        raise NoAccess(
            f"The log-in provider sent no claim {config.oidc_access_claim!r} for you. Ask its administrators to add it "
            "to the ID token of this application."
        )
    rules = tuple(_digest_rule(value) for value in config.oidc_scopes if value in values)
    if not rules:
        raise NoAccess(
            f"Your claim {config.oidc_access_claim!r} has no value that grants access. Ask the operators of this "
            "service for a role."
        )
    name = claims.get(config.oidc_name_claim)
    shown = "".join(filter(str.isprintable, name if isinstance(name, str) else "")).strip()[:NAME_MAX_CHARACTERS]
    return Person(claims["iss"], claims["sub"], shown, rules)


def _digest_rule(value: str) -> str:
    """Return a digest of a claim's value at this provider, by which sessions name their rules."""
    config = settings()
    parts = (config.oidc_issuer, config.oidc_client_id, config.oidc_access_claim, value)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _redirect_uri() -> str:
    return f"{(settings().public_url or '').rstrip('/')}{CALLBACK_PATH}"


def _with_query(url: str, query: Mapping[str, Any]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _away(failure: LogInProviderFailed) -> ProviderAway:
    log.warning("log_in_provider_failed", reason=str(failure))
    return ProviderAway("The log-in provider can't be used now. Log in with an API key, or try again in a minute.")


def _refused(check: str) -> LogInRefused:
    log.warning("log_in_refused", check=check)
    return LogInRefused("The answer of the log-in provider isn't valid for this log-in. Begin again.")
