"""Limits on log-ins through the provider: bad codes of a network, and log-ins that wait for the provider."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI
from starlette.routing import Mount

from app.clients.redis.connection import FAILED_LOGINS_PREFIX
from app.dashboard import provider_login
from app.dashboard.login_limit import LoginFailures
from tests.api.caller import Api, standing_routes
from tests.dashboard import visitor as keys
from tests.dashboard.oidc import START, FakeOidc, begin, cookie, finish, log_in
from tests.dashboard.visitor import said


def test_failed_answers_are_limited_by_address(api: Api, fake: FakeOidc) -> None:
    answers = [finish(api, "code=x&state=y", "").status_code for _ in range(11)]
    assert answers == [401] * 10 + [429]
    assert log_in(api, fake).status_code == 200


def send_bad_code(api: Api, fake: FakeOidc) -> int:
    """Return from the provider with a code that it refuses, in a valid attempt, and return the status."""
    address, attempt = begin(api)
    state = parse_qs(urlsplit(address).query)["state"][0]
    return finish(api, f"code=bad&state={state}", attempt).status_code


def test_after_ten_bad_codes_the_provider_isnt_called(
    api: Api, fake: FakeOidc, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [send_bad_code(api, fake) for _ in range(12)] == [401] * 10 + [429] * 2
    assert fake.calls.count("/token") == 10
    monkeypatch.setattr(provider_login, "bad_codes", LoginFailures("code"))  # that of another process
    address, attempt = begin(api)
    query = fake.authorize(address)
    assert finish(api, query, attempt).status_code == 429
    assert fake.calls.count("/token") == 10
    assert keys.log_in(api, api.tenant.key).status_code == 303, "a valid key is never locked out"
    for name in api.service.redis.scan_iter(f"{FAILED_LOGINS_PREFIX}*"):
        api.service.redis.delete(name)  # as after a minute
    monkeypatch.setattr(provider_login, "bad_codes", LoginFailures("code"))
    assert finish(api, query, attempt).status_code == 200, "a refusal doesn't end the attempt"


def test_codes_count_as_bad_while_the_provider_fails(api: Api, fake: FakeOidc) -> None:
    fake.answers["/token"] = 500, {}, b""
    assert [send_bad_code(api, fake) for _ in range(12)] == [503] * 10 + [429] * 2
    assert fake.calls.count("/token") == 10


def test_bad_codes_at_once_exceed_the_limit_only_by_those_in_progress(
    api: Api, fake: FakeOidc, places: Callable[[int], None]
) -> None:
    places(provider_login.CALLS_MAX)
    with ThreadPoolExecutor(30) as pool:
        answers = Counter(pool.map(lambda _: send_bad_code(api, fake), range(30)))
    assert answers == {401: 10, 429: 20}
    assert 10 <= fake.calls.count("/token") < 10 + provider_login.CALLS_MAX


def test_the_wait_for_other_log_ins_ends(
    api: Api, fake: FakeOidc, places: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, attempt = begin(api)
    query, calls = fake.authorize(address), len(fake.calls)
    monkeypatch.setattr(provider_login, "CALL_WAIT_SECONDS", 0.01)
    places(0)
    for answer in (api.get(START, key=None), finish(api, query, attempt)):
        assert (answer.status_code, cookie(answer)) == (503, "")
        assert "Too many log-ins wait for the log-in provider" in said(answer.text)
        assert 'name="key"' in answer.text
    assert len(fake.calls) == calls
    places(1)
    assert [log_in(api, fake).status_code for _ in range(2)] == [200, 200], "each log-in leaves its place"


@pytest.fixture
def places() -> Iterator[Callable[[int], None]]:
    """Function that sets the number of log-ins that may call the provider at the same time."""
    dashboard = next(each.app for each in standing_routes().routes if isinstance(each, Mount) and each.path == "/ops")
    assert isinstance(dashboard, FastAPI)
    usual = dashboard.state.provider_calls

    def set_places(number: int) -> None:
        dashboard.state.provider_calls = asyncio.Semaphore(number)

    yield set_places
    dashboard.state.provider_calls = usual
