"""Log people in through the OpenID Connect provider, by the authorization code flow with PKCE.

Import this module where it is used: its libraries take 13 MB, which a service without a provider doesn't need.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import structlog

from app.clients.oidc_provider import CodeRefused, LogInProviderFailed, log_in_provider
from app.services.security.id_tokens import TokenRefused, UnknownKey, verify_token
from app.services.security.log_in_access import CALLBACK_PATH, LogInRefused, NoAccess, ProviderAway, digest_rules
from app.settings import settings

NAME_MAX_CHARACTERS: Final = 200
CODE_MAX_CHARACTERS: Final = 4096

log = structlog.get_logger(__name__)


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


def authorization_url(state: str, nonce: str, verifier: str) -> str:
    """Return the provider's address to which the browser is sent.

    Args:
        verifier: The PKCE secret. The address contains only its digest; `identify` sends the secret with the code.

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
    config, provider = settings(), log_in_provider()
    try:
        token = provider.redeem_code(code, verifier, _redirect_uri())
        expected = {"issuer": config.oidc_issuer or "", "client_id": config.oidc_client_id or "", "nonce": nonce}
        try:
            claims = verify_token(token, provider.read_keys(), now=int(time.time()), **expected)
        except UnknownKey:
            claims = verify_token(token, provider.read_keys(again=True), now=int(time.time()), **expected)
    except LogInProviderFailed as failure:
        raise _away(failure) from None
    except CodeRefused:
        raise _refused("code") from None
    except TokenRefused as refusal:
        raise _refused(str(refusal)) from None
    return _person(claims)


def log_out_url() -> str | None:
    """Return the URL of the provider's log-out page; None if this process doesn't know that there is one."""
    known = log_in_provider().known
    if known is None or known.end_session_endpoint is None:
        return None
    back = f"{(settings().public_url or '').rstrip('/')}/ops/log-in"
    query = {"client_id": settings().oidc_client_id, "post_logout_redirect_uri": back}
    return _with_query(known.end_session_endpoint, query)


def check_provider() -> None:
    """Request the provider's discovery document and keys.

    Raises:
        LogInProviderFailed: The provider can't be reached, or its discovery document or keys are invalid.
    """
    provider = log_in_provider()
    provider.discover()
    provider.read_keys()


def _person(claims: Mapping[str, Any]) -> Person:
    config = settings()
    claim = claims.get(config.oidc_access_claim)
    values = {each for each in (claim if isinstance(claim, list) else [claim]) if isinstance(each, str)}
    if not values:
        raise NoAccess(
            f"The log-in provider sent no claim {config.oidc_access_claim!r} for you. Ask its administrators to add it "
            "to the ID token of this application."
        )
    rules = digest_rules(values)
    if not rules:
        raise NoAccess(
            f"Your claim {config.oidc_access_claim!r} has no value that grants access. Ask the operators of this "
            "service for a role."
        )
    name = claims.get(config.oidc_name_claim)
    shown = "".join(filter(str.isprintable, name if isinstance(name, str) else "")).strip()[:NAME_MAX_CHARACTERS]
    return Person(claims["iss"], claims["sub"], shown, rules)


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
