"""ID tokens: signatures by the provider's asymmetric keys only, for this service, this log-in and this moment."""

from __future__ import annotations

import hmac
import json
import time
from functools import cache
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64encode

from app.services.security.id_tokens import ALGORITHMS, TokenRefused, UnknownKey, verify_token

NOW = 1_800_000_000
ISSUER, CLIENT, NONCE = "https://login.example", "ebbing", "n-1"


@cache
def rsa_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "rsa"})


@cache
def ec_key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "ec"})


def signed(key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a valid token, apart from what is given; a claim of None is left out."""
    key = key or ec_key()
    usual = {"iss": ISSUER, "aud": CLIENT, "sub": "s", "nonce": NONCE, "iat": NOW, "exp": NOW + 300, **claims}
    header = {"alg": "RS256" if isinstance(key, RSAKey) else "ES256", "kid": key.kid} | (header or {})
    said = {name: value for name, value in usual.items() if value is not None}
    any_algorithm = JWSRegistry(algorithms=JWSRegistry.algorithms, strict_check_header=False)
    return jwt.encode(
        {name: value for name, value in header.items() if value is not None}, said, key, registry=any_algorithm
    )


def verified(token: str, *keys: Any, now: int = NOW) -> dict[str, Any]:
    published = [each if isinstance(each, dict) else each.as_dict(private=False) for each in keys or (ec_key(),)]
    return verify_token(token, published, issuer=ISSUER, client_id=CLIENT, nonce=NONCE, now=now)


def test_tokens_by_keys_of_the_provider_are_valid() -> None:
    for key in (rsa_key(), ec_key()):
        assert verified(signed(key), rsa_key(), ec_key())["sub"] == "s"
    assert verified(signed(rsa_key(), {"alg": "PS384"}), rsa_key())
    assert verified(signed(header={"kid": None})), "the only key needs no name"
    assert verified(signed(header={"x-more": "1"})), "unknown headers are ignored"
    assert verified(signed(aud=[CLIENT]))
    assert verified(signed(aud=[CLIENT, "other"], azp=CLIENT))


@pytest.mark.parametrize(
    "claims",
    [
        *({"iss": wrong} for wrong in ("https://login.example/", None, [ISSUER, "x"])),
        *({"aud": wrong} for wrong in ("other", None, [], ["other"], [CLIENT, "other"], {CLIENT: 1})),
        *({"azp": wrong} for wrong in ("other", "")),
        {"aud": [CLIENT, "other"], "azp": "other"},
        *({"nonce": wrong} for wrong in ("n-2", "", None)),
        *({"sub": wrong} for wrong in ("", None, 5, "s" * 256, "s\0", "\u202e")),
        *({"exp": wrong} for wrong in (NOW - 61, None, "soon", float("nan"), True)),
        *({"iat": wrong} for wrong in (NOW + 61, NOW - 661, None, "now")),
        {"nbf": NOW + 61},
    ],
    ids=str,
)
def test_a_token_for_something_else_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        verified(signed(**claims))


def test_clocks_may_differ_by_a_minute() -> None:
    assert verified(signed(exp=NOW - 59, iat=NOW - 300))
    assert verified(signed(iat=NOW + 59, nbf=NOW + 59))


def test_only_asymmetric_algorithms_are_accepted() -> None:
    assert {name[:2] for name in ALGORITHMS} == {"RS", "PS", "ES"}
    parts = signed(rsa_key()).split(".")
    unsigned = urlsafe_b64encode(json.dumps({"alg": "none", "kid": "rsa"}).encode()).decode()
    secrets = (
        rsa_key().as_pem(private=False),
        rsa_key().as_der(private=False),
        str(rsa_key().as_dict()["n"]).encode(),
        b"",
    )
    begin = f"{urlsafe_b64encode(json.dumps({'alg': 'HS256', 'kid': 'rsa'}).encode()).decode()}.{parts[1]}"
    macs = (hmac.digest(each, begin.encode(), "sha256") for each in secrets)
    forged = [f"{begin}.{urlsafe_b64encode(each).decode()}" for each in macs]
    forged += [f"{unsigned}.{parts[1]}.", f"{unsigned}.{parts[1]}.{parts[2]}"]
    forged += [f"{parts[0]}.{parts[1]}.", f"{parts[0]}.{parts[1]}.{parts[2][:-4]}AAAA", f"{parts[0]}.{parts[1]}"]
    forged += ["", "a.b.c", "....", "é", signed(rsa_key(), {"kid": "ec"}), signed(ec_key(), {"kid": "rsa"})]
    for token in forged:
        with pytest.raises(TokenRefused):
            verified(token, rsa_key(), ec_key())


def test_a_key_in_the_token_itself_counts_for_nothing() -> None:
    own = ECKey.generate_key("P-256", {"kid": "own"})
    for header in ({"jwk": own.as_dict(private=False)}, {"jku": "https://evil.example"}, {"kid": "ec"}):
        with pytest.raises(TokenRefused):
            verified(signed(own, header))


def test_an_unknown_key_is_told_apart() -> None:
    other = ECKey.generate_key("P-256", {"kid": "new"})
    with pytest.raises(UnknownKey):
        verified(signed(other), ec_key(), rsa_key())
    with pytest.raises(UnknownKey):
        verified(signed(header={"kid": None}), ec_key(), rsa_key())
    with pytest.raises(UnknownKey):
        verify_token(signed(), [], issuer=ISSUER, client_id=CLIENT, nonce=NONCE, now=NOW)


def test_unfit_keys_are_ignored() -> None:
    unfit: tuple[Any, ...] = (
        {"kty": "oct", "kid": "ec", "k": "c2VjcmV0"},
        ec_key().as_dict(private=False) | {"use": "enc"},
        {"kty": "EC", "kid": "ec", "crv": "P-256"},
        {"kty": "EC", "kid": "ec", "crv": "P-256", "x": "!", "y": "!"},
        {"kty": "RSA", "kid": "ec", "e": "AQAB", "n": urlsafe_b64encode(b"\xff" * 128).decode()},
        {"kty": "RSA", "kid": "ec", "e": "AQAB"},
        {"kty": "AKP", "kid": "ec"},
        {},
    )
    assert verified(signed(), *unfit, ec_key())
    for each in unfit:
        with pytest.raises(UnknownKey):
            verified(signed(), each)


def test_the_present_moment_decides() -> None:
    with pytest.raises(TokenRefused):
        verified(signed(), now=int(time.time()) + 10**9)
