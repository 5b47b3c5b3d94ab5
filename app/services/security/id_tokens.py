"""Verify ID tokens of the log-in provider: signature, issuer, audience, nonce and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from joserfc.jws import JWSRegistry

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Accepted signature algorithms. All are asymmetric: only the provider can sign. `none` and HMAC are refused."""
KEY_TYPES: Final = ("RSA", "EC")
RSA_BITS_MIN: Final = 2048
SKEW_SECONDS: Final = 60
"""Accepted difference between the clocks of the provider and of this machine."""
AGE_MAX_SECONDS: Final = 600
"""Maximum age of an ID token at the log-in."""
SUBJECT_MAX_CHARACTERS: Final = 255


class TokenRefused(Exception):
    """The ID token isn't valid for this log-in. The message is the name of the check, without values."""


class UnknownKey(TokenRefused):
    """The ID token names none of the provider's known keys."""


def verify_token(
    token: str, keys: Iterable[Mapping[str, Any]], *, issuer: str, client_id: str, nonce: str, now: int
) -> dict[str, Any]:
    """Return the claims of an ID token after verifying it.

    Args:
        keys: The provider's public keys as JWKs; keys of other types or for other uses are ignored.
        now: Present time in Unix seconds.

    Raises:
        UnknownKey: The token names none of the keys.
        TokenRefused: The token isn't valid for this log-in.
    """
    required = jwt.JWTClaimsRegistry(
        now=now,
        leeway=SKEW_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": client_id},
        nonce={"essential": True, "value": nonce},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    try:
        claims = jwt.decode(token, KeySet(_import_keys(keys)), registry=registry).claims
        required.validate(claims)
    except InvalidKeyIdError:
        raise UnknownKey("key") from None
    except JoseError as error:
        raise TokenRefused(error.error) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise TokenRefused("malformed") from None
    if claims["iat"] < now - AGE_MAX_SECONDS - SKEW_SECONDS:
        raise TokenRefused("age")
    has_others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (has_others or "azp" in claims) and claims.get("azp") != client_id:
        raise TokenRefused("azp")
    if len(claims["sub"]) > SUBJECT_MAX_CHARACTERS or not claims["sub"].isprintable():
        raise TokenRefused("sub")
    return claims


def _import_keys(keys: Iterable[Mapping[str, Any]]) -> list[Key]:
    """Return the keys that may verify a signature, without those that are malformed, too short or for another use."""
    imported = []
    for each in keys:
        if each.get("kty") not in KEY_TYPES or each.get("use", "sig") != "sig":
            continue
        if each["kty"] == "RSA" and len(str(each.get("n"))) * 6 < RSA_BITS_MIN:  # six bits a character
            continue
        with suppress(JoseError, ValueError, TypeError):
            imported.append(JWKRegistry.import_key(dict(each)))
    return imported
