"""A dashboard visitor without a browser: stores the cookie, submits forms with their token, reads the HTML."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Final

import httpx

from app.dashboard.sessions import COOKIE
from tests.api.caller import Api

ORIGIN: Final = "http://test"


class Visitor:
    """A session of a new key of the API's tenant."""

    def __init__(self, api: Api, key: str) -> None:
        """Log in."""
        self._api = api
        answer = log_in(api, key)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == "/ops/"
        self.cookie = cookie_of(answer)

    @classmethod
    def with_cookie(cls, api: Api, cookie: str) -> Visitor:
        """Return a visitor who is logged in already."""
        visitor = cls.__new__(cls)
        visitor._api, visitor.cookie = api, cookie
        return visitor

    def get(self, path: str, **given: Any) -> httpx.Response:
        """Get a page by its path below /ops."""
        headers = {"cookie": f"{COOKIE}={self.cookie}"} | given.pop("headers", {})
        return self._api.get(f"/ops{path}", key=None, headers=headers, **given)

    def page(self, path: str) -> str:
        """Get a page that must succeed, and return its HTML."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    def send(self, path: str, form: dict[str, str] | None = None, **headers: str) -> httpx.Response:
        """Submit a form with its token and a default reason."""
        data = {"token": self.token, "reason": "a test asks for it", **(form or {})}
        sent = {"cookie": f"{COOKIE}={self.cookie}", "origin": ORIGIN} | headers
        return self._api.post(f"/ops{path}", key=None, data=data, headers=sent)

    def act(self, path: str, form: dict[str, str] | None = None) -> str:
        """Submit a form that must succeed, and return the path below /ops that it redirects to."""
        answer = self.send(path, form)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].removeprefix("/ops")

    @property
    def token(self) -> str:
        """Form token of this session."""
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.page("/"))
        assert found
        return found[1]


def log_in(api: Api, key: str, origin: str = ORIGIN) -> httpx.Response:
    """Post the log-in form and return the response."""
    return api.post("/ops/log-in", key=None, data={"key": key}, headers={"origin": origin})


def cookie_of(answer: httpx.Response) -> str:
    """Return the session cookie that a response sets."""
    found = re.match(rf"{COOKIE}=([^;]+);", answer.headers["set-cookie"])
    assert found
    return found[1]


def said(html: str) -> str:
    """Return a page's text without tags, on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
