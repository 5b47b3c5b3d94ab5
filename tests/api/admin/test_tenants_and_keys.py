"""`/v1/admin`: managing tenants and keys over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.api.caller import Api, fields


def test_a_tenant_is_made_with_a_key_that_works(api: Api) -> None:
    answer = api.post("/v1/admin/tenants", json={"name": "acme"}, key=api.admin.key)
    assert answer.status_code == 201
    made = answer.json()
    assert made.keys() == {"id", "tenant_id", "name", "api_key"}
    assert api.post("/v1/memories", json={"text": "x"}, key=made["api_key"]).status_code == 202
    assert api.get("/v1/admin/tenants", key=made["api_key"]).status_code == 403
    again = api.post("/v1/admin/tenants", json={"name": "acme"}, key=api.admin.key)
    assert again.status_code == 409
    fields(again)


def test_tenants_are_listed_by_name_and_page(api: Api) -> None:
    made = {api.service.tenant().tenant_id for _ in range(5)} | {api.admin.tenant_id}
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = api.get("/v1/admin/tenants", params={"limit": 2, "cursor": cursor}, key=api.admin.key).json()
        seen += [tenant["tenant_id"] for tenant in page["tenants"]]
        cursor = page["next_cursor"]
    assert sorted(seen) == sorted(map(str, made))


BAD_TENANTS: list[tuple[Any, str]] = [
    ({}, "name"),
    ({"name": ""}, "name"),
    ({"name": "x" * 201}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": 5}, "name"),
    ({"name": "x", "extra": 1}, "extra"),
    ({"name": "x", "policy": {"language": "klingon"}}, "policy.language"),
    ({"name": "x", "policy": {"time_zone": "Mars/Olympus"}}, "policy.time_zone"),
    ({"name": "x", "policy": {"time_zone": "../../etc/passwd"}}, "policy.time_zone"),
    ({"name": "x", "policy": {"time_zone": "a\0b"}}, "policy.time_zone"),
    ({"name": "x", "policy": {"ranking": {"words": 11}}}, "policy.ranking.words"),
    ({"name": "x", "policy": {"unknown": 1}}, "policy.unknown"),
    ({"name": "x", "policy": []}, "policy"),
]


@pytest.mark.parametrize(("body", "field"), BAD_TENANTS, ids=lambda part: str(part)[:40])
def test_a_bad_tenant_is_refused_with_its_field(api: Api, body: object, field: str) -> None:
    answer = api.post("/v1/admin/tenants", json=body, key=api.admin.key)
    assert answer.status_code == 422
    assert fields(answer) == [field]
    assert api.service.rows("SELECT tenant_id FROM tenants") == [(api.admin.tenant_id,)]


def test_keys_are_made_listed_and_revoked(api: Api) -> None:
    other = api.service.tenant()
    wanted = {"name": "second", "tenant_id": str(other.tenant_id), "scopes": ["read"]}
    made = api.post("/v1/admin/keys", json=wanted, key=api.admin.key)
    assert made.status_code == 201
    key = made.json()
    assert key.keys() == {"id", "key_id", "api_key", "tenant_id", "name", "scopes", "source", "expires_at"}
    assert f"ebb_{key['key_id']}_" in key["api_key"]
    assert api.get("/v1/stats", key=key["api_key"]).status_code == 200
    assert api.post("/v1/memories", json={"text": "x"}, key=key["api_key"]).status_code == 403
    listed = api.get("/v1/admin/keys", params={"tenant_id": str(other.tenant_id)}, key=api.admin.key).json()["keys"]
    assert {row["key_id"] for row in listed} == {key["key_id"], other.key_id}
    assert all("digest" not in row and "api_key" not in row for row in listed)
    everyones = api.get("/v1/admin/keys", key=api.admin.key).json()["keys"]
    assert {row["key_id"] for row in everyones} == {key["key_id"], other.key_id, api.admin.key_id}
    revoked = api.delete(f"/v1/admin/keys/{key['key_id']}", key=api.admin.key)
    assert (revoked.status_code, revoked.content) == (204, b"")


def test_all_keys_are_listed_by_page(api: Api) -> None:
    """Otherwise the oldest keys would be missing from the list when all of them must be revoked."""
    made = [api.admin.key_id, *(api.service.tenant().key_id for _ in range(4))]
    api.service.rows("UPDATE api_keys SET created_at = now() WHERE key_id = ANY (%s)", made[2:])  # by id among these
    first = api.get("/v1/admin/keys", params={"limit": 2}, key=api.admin.key).json()
    seen, cursor = [key["key_id"] for key in first["keys"]], first["next_cursor"]
    while cursor is not None:
        page = api.get("/v1/admin/keys", params={"limit": 2, "cursor": cursor}, key=api.admin.key).json()
        seen += [key["key_id"] for key in page["keys"]]
        cursor = page["next_cursor"]
    assert len(first["keys"]) == 2
    assert seen == [*sorted(made[2:]), made[1], made[0]]


def test_a_key_without_a_tenant_is_for_the_callers_own(api: Api) -> None:
    soon = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    made = api.post("/v1/admin/keys", json={"name": "mine", "expires_at": soon}, key=api.admin.key).json()
    assert made["tenant_id"] == str(api.admin.tenant_id)
    assert made["scopes"] == ["ingest", "read", "maintain", "privacy"]
    assert api.get("/v1/stats", key=made["api_key"]).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["root"]}, "scopes"),
        ({"name": "x", "scopes": "read"}, "scopes"),
        ({"name": "x", "tenant_id": "x"}, "tenant_id"),
        ({"name": "x", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"name": "x", "expires_at": "9999-12-31T23:59:59-14:00"}, "expires_at"),
        ({"name": "x", "expires_at": "0001-01-01T00:00:00+14:00"}, "expires_at"),
        ({"name": "a\0b"}, "name"),
        ({"name": ""}, "name"),
    ],
    ids=str,
)
def test_a_bad_key_is_refused_with_its_field(api: Api, body: object, field: str) -> None:
    answer = api.post("/v1/admin/keys", json=body, key=api.admin.key)
    assert answer.status_code == 422
    assert fields(answer) == [field]


def test_unknown_tenants_and_keys_are_404(api: Api) -> None:
    made = api.post("/v1/admin/keys", json={"name": "x", "tenant_id": str(uuid4())}, key=api.admin.key)
    assert made.status_code == 404
    fields(made)
    for key_id in ("nobody", "%00", "a" * 5000, "x%27--"):
        answer = api.delete(f"/v1/admin/keys/{key_id}", key=api.admin.key)
        assert answer.status_code == 404
        fields(answer)


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/v1/admin/tenants", {"cursor": "\0"}, "cursor"),
        ("/v1/admin/tenants", {"limit": 0}, "limit"),
        ("/v1/admin/keys", {"tenant_id": "x"}, "tenant_id"),
        ("/v1/admin/keys", {"cursor": "\0"}, "cursor"),
        ("/v1/admin/keys", {"limit": 1001}, "limit"),
    ],
)
def test_a_bad_query_is_422_with_its_parameter(api: Api, path: str, query: dict[str, Any], field: str) -> None:
    answer = api.get(path, params=query, key=api.admin.key)
    assert answer.status_code == 422
    assert fields(answer) == [field]
