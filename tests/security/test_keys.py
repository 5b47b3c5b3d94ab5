"""API keys at rest and in use: never stored, refused immediately, revoked within seconds; refusals are identical."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from uuid import uuid4

import pytest
from pydantic import ValidationError

from app.api.http.auth import cache
from app.domain.policy import api_keys
from app.services.tenants import tenants
from app.settings import Settings, settings
from tests.api.caller import Api
from tests.service import Service

REVOKED_WITHIN_SECONDS = 5


class Clock:
    """A stopped clock for the API's key cache."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("app.api.http.auth.time", clock)
    return clock


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    with Api(service) as started:
        yield started


def dump(service: Service) -> str:
    """Return every value of every table as text."""
    tables = service.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    statements = [f"SELECT t::text FROM {table} AS t" for (table,) in tables]  # noqa: S608 - names from the catalogue
    return "\n".join(str(row) for statement in statements for row in service.rows(statement))


def test_the_database_holds_no_secret(api: Api) -> None:
    api.remember("x")
    made = api.post("/v1/admin/keys", json={"name": "second"}, key=api.admin.key).json()["api_key"]
    shown = dump(api.service)
    in_redis = b"".join(api.service.redis.dump(key) or b"" for key in api.service.redis.scan_iter())
    for key in (api.tenant.key, api.admin.key, made):
        read = api_keys.parse(key)
        assert read is not None
        assert read.key_id in shown
        for part in (key, read.secret, read.secret[:16]):
            assert part not in shown
            assert part.encode() not in in_redis


def test_a_mistyped_key_costs_no_look_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr("app.services.tenants.tenants.find_key", looked_up.append)
    key = api.tenant.key
    for wrong in (key[:-1], key + "x", key[:-1] + ("A" if key[-1] != "A" else "B"), "ebb_", "", "x" * 10_000):
        assert api.get("/v1/stats", key=wrong or None).status_code == 401
    assert looked_up == []


def test_an_unknown_id_and_a_wrong_secret_look_alike(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    read = api_keys.parse(api.tenant.key)
    assert read is not None
    known_id = f"{read.key_id}_{'0' * 43}"
    wrong_secret = f"ebb_{known_id}{api_keys._checksum(read.key_id, '0' * 43)}"
    unknown = api_keys.make_key(uuid4().bytes[:9], uuid4().bytes * 2)
    compared: list[str] = []
    matches = api_keys.matches_digest

    def noting(secret: str, digest: bytes) -> bool:
        compared.append(secret)
        return matches(secret, digest)

    monkeypatch.setattr("app.domain.policy.api_keys.matches_digest", noting)
    answers = [api.get("/v1/stats", key=key) for key in (wrong_secret, unknown)]
    assert [answer.status_code for answer in answers] == [401, 401]
    first, second = ({**answer.json(), "request_id": "", "call_id": ""} for answer in answers)
    assert first == second
    assert len(compared) == 2, "an unknown id takes as many comparisons"


def test_digests_are_compared_in_constant_time() -> None:
    [function] = ast.parse(inspect.getsource(api_keys.matches_digest)).body
    assert isinstance(function, ast.FunctionDef)
    assert [node for node in ast.walk(function) if isinstance(node, ast.Compare)] == []
    calls = [ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)]
    assert "hmac.compare_digest" in calls


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/stats"])
def test_a_revoked_key_is_refused_within_seconds_and_its_twin_lives(api: Api, clock: Clock, path: str) -> None:
    key, second = api.tenant.key, tenants.issue_key(api.tenant.tenant_id, "second")
    assert api.get(path, key=key).status_code == api.get(path, key=second).status_code == 200
    tenants.revoke_key(api.tenant.key_id)
    clock.now += settings().key_cache_seconds
    assert api.get(path, key=key).status_code == 401
    assert api.get(path, key=second).status_code == 200


def test_no_setting_trusts_a_key_for_longer_than_promised() -> None:
    assert Settings().key_cache_seconds < REVOKED_WITHIN_SECONDS
    with pytest.raises(ValidationError):
        Settings(key_cache_seconds=REVOKED_WITHIN_SECONDS)


def test_an_expired_key_is_refused_though_it_was_looked_up_before(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    key = tenants.issue_key(api.tenant.tenant_id, "short", expires_at=soon)
    past = tenants.issue_key(api.tenant.tenant_id, "past", expires_at=datetime.now(UTC))
    assert api.get("/v1/stats", key=past).status_code == 401
    assert api.get("/v1/stats", key=key).status_code == 200

    class Then(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # mypy wants Self
            return soon.astimezone(tz)

    monkeypatch.setattr("app.api.http.auth.datetime", Then)
    monkeypatch.setattr("app.services.tenants.tenants.find_key", pytest.fail)
    assert api.get("/v1/stats", key=key).status_code == 401


def test_many_requests_with_one_key_look_it_up_once(api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    find = tenants.find_key

    def noting(key_id: str) -> object:
        looked_up.append(key_id)
        return find(key_id)

    monkeypatch.setattr("app.services.tenants.tenants.find_key", noting)
    key = api.tenant.key

    async def many() -> set[int]:
        answers = await asyncio.gather(*(api.send("GET", "/v1/memories", key=key) for _ in range(32)))
        return {answer.status_code for answer in answers}

    assert api.run(many()) == {200}
    assert len(looked_up) == 1


def test_a_flood_of_unknown_keys_keeps_the_cache_small(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.http.auth.CACHED_KEYS_MAX", 10)
    for n in range(30):
        assert api.get("/v1/stats", key=api_keys.make_key(bytes([n] * 9), bytes(32))).status_code == 401
    assert len(cache._held) == 10
