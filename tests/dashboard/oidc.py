"""A small OpenID Connect provider on the loopback interface, and a browser that logs in through it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from app.dashboard.sessions import ATTEMPT_COOKIE, COOKIE
from tests.api.caller import Api
from tests.service import Service

CLIENT = "ebbing"
SECRET = "a secret with spaces & signs"
PUBLIC = "http://test"
_NUMBERS = count()
START, CALLBACK = "/ops/log-in/oidc", "/ops/log-in/oidc/callback"


@cache
def rsa_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})


@cache
def ec_key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"})


class FakeOidc:
    """The provider, with one signed-in person.

    Attributes:
        claims: Claims that replace or extend those of the next ID tokens; None removes one.
        keys: Published keys; the first one signs.
        answers: Status, headers and body by path, in place of the usual answer.
        public: Address at which the service expects its browsers.
        calls: Paths of all requests so far.
        ask: Parameters of the last redirect to the provider.
    """

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/realm"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.reset()

    def reset(self) -> None:
        self.claims: dict[str, Any] = {}
        self.keys: list[RSAKey | ECKey] = [ec_key()]
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.calls: list[str] = []
        self.ask: dict[str, str] = {}
        self.public = PUBLIC
        self.methods = ["client_secret_basic"]
        self._codes: dict[str, dict[str, str]] = {}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def configure(self, service: Service, *tenants: UUID, scopes: tuple[str, ...] = ("read",), **more: Any) -> None:
        """Point the service at this provider, where the group `staff` has these scopes on the tenants."""
        rules = {"staff": {"scopes": scopes, "tenants": [str(each) for each in tenants]}}
        service.configure(**self.settings(rules) | more)

    def settings(self, rules: dict[str, Any]) -> dict[str, str]:
        """Return the service's settings for this provider, by lower-case name."""
        values = {"public_url": self.public, "oidc_issuer": self.url, "oidc_client_id": CLIENT}
        return values | {"oidc_client_secret": SECRET, "oidc_scopes": json.dumps(rules)}

    def authorize(self, address: str, client: str | None = None) -> str:
        """Let the person agree to a redirect to the provider, and return the query with which the browser returns."""
        assert address.startswith(f"{self.url}/authorize?")
        self.ask = dict(parse_qsl(urlsplit(address).query, strict_parsing=True))
        assert self.ask["response_type"] == "code"
        assert self.ask["code_challenge_method"] == "S256"
        assert self.ask["redirect_uri"] == f"{self.public}{CALLBACK}"
        code = f"code-{next(_NUMBERS)}"
        self._codes[code] = self.ask | ({"client_id": client} if client else {})
        return urlencode({"code": code, "state": self.ask["state"]})

    def token(self, ask: dict[str, str]) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "7f3a", "nonce": ask["nonce"], "iat": now, "exp": now + 300}
        claims |= {"name": "Orla Smith", "groups": ["staff", "other"]} | self.claims
        algorithm = "ES256" if isinstance(self.keys[0], ECKey) else "RS256"
        header = {"alg": algorithm, "kid": self.keys[0].kid}
        return jwt.encode(header, {name: value for name, value in claims.items() if value is not None}, self.keys[0])

    def answer(self, path: str, form: dict[str, str], authorization: str) -> tuple[int, dict[str, str], bytes]:
        self.calls.append(path)
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            found: dict[str, Any] = {name: f"{self.url}/{place}" for name, place in names.items()}
            found |= {"issuer": self.url, "token_endpoint_auth_methods_supported": self.methods}
            return _json(found | {"end_session_endpoint": f"{self.url}/out"})
        if path == "/authorize":
            place = f"{self.public}{CALLBACK}?{self.authorize(f'{self.url}/authorize?{urlencode(form)}')}"
            page = f'<!doctype html><a href="{escape(place)}">Agree</a>'
            return 200, {"content-type": "text/html"}, page.encode()
        if path == "/keys":
            return _json({"keys": [key.as_dict(private=False) for key in self.keys]})
        return self._redeem(form, authorization)

    def _redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, str], bytes]:
        pair = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+').replace('&', '%26')}".encode()).decode()
        basic = authorization == f"Basic {pair}"
        if not basic and (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return _json({"error": "invalid_client"}, 401)
        ask = self._codes.pop(form["code"], None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if ask is None or ask["client_id"] != CLIENT or ask["code_challenge"] != proof:
            return _json({"error": "invalid_grant"}, 400)
        assert form["redirect_uri"] == ask["redirect_uri"]
        return _json({"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(ask)})


def _json(found: object, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/json"}, json.dumps(found).encode()


def _handler(fake: FakeOidc) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("content-length", 0))
            address = urlsplit(self.path)
            form = dict(parse_qsl(address.query or self.rfile.read(size).decode()))
            path = address.path.removeprefix("/realm")
            status, headers, body = fake.answer(path, form, self.headers.get("authorization", ""))
            self.send_response(status)
            for name, value in (headers | {"content-length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def oidc_provider() -> Iterator[FakeOidc]:
    fake = FakeOidc()
    yield fake
    fake.close()


def begin(api: Api, path: str = START) -> tuple[str, str]:
    """Begin a log-in, and return the address at the provider and the value of the cookie."""
    answer = api.get(path, key=None)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"], cookie(answer, ATTEMPT_COOKIE)


def finish(api: Api, query: str, attempt: str) -> httpx.Response:
    """Return from the provider."""
    return api.get(f"{CALLBACK}?{query}", key=None, headers={"cookie": f"{ATTEMPT_COOKIE}={attempt}"})


def log_in(api: Api, fake: FakeOidc) -> httpx.Response:
    """Log in through the provider."""
    address, attempt = begin(api)
    return finish(api, fake.authorize(address), attempt)


def cookie(answer: httpx.Response, name: str = COOKIE) -> str:
    """Return the value of a cookie that a response sets; empty if it sets none, or deletes it."""
    found = [re.match(rf'{name}="?([^;"]*)"?;', each) for each in answer.headers.get_list("set-cookie")]
    return next((match[1] for match in found if match), "")
