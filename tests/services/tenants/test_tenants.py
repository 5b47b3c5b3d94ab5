"""Tenants and keys: created, listed, rotated, revoked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from app.domain.policy import api_keys
from app.domain.policy.policy import Policy
from app.errors import Conflict, Invalid, NotFound
from app.services.strength import current_policy
from app.services.tenants import tenants
from tests.service import Service


def test_a_tenant_has_its_policy_and_a_key_for_all_but_admin(service: Service) -> None:
    tenant, text = tenants.create("acme", Policy(time_zone="Europe/Berlin"))
    read = api_keys.parse(text)
    assert read is not None
    key = tenants.find_key(read.key_id)
    assert key is not None
    assert (key.tenant_id, key.revoked_at, key.expires_at) == (tenant.tenant_id, None, None)
    assert key.scopes == {"ingest", "read", "maintain", "privacy"}
    assert api_keys.matches_digest(read.secret, key.digest)
    assert current_policy.read(tenant.tenant_id).time_zone == "Europe/Berlin"
    assert tenants.find_tenant("acme") == tenant
    assert tenants.find_tenant("nobody") is None


def test_a_name_is_taken_once_and_nothing_is_left_of_the_second(service: Service) -> None:
    tenants.create("acme")
    with pytest.raises(Conflict, match="acme"):
        tenants.create("acme")
    counts = "SELECT (SELECT count(*) FROM tenants), (SELECT count(*) FROM policies), (SELECT count(*) FROM api_keys)"
    assert service.rows(counts) == [(1, 1, 1)]


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_name_has_a_length(service: Service, name: str) -> None:
    with pytest.raises(Invalid) as raised:
        tenants.create(name)
    [error] = raised.value.errors
    assert (error.field, error.value, error.limit) == ("name", len(name), 200)
    assert tenants.create("x" * 200)


def test_tenants_are_listed_by_name_page_by_page(service: Service) -> None:
    names = sorted(f"tenant {n:02}" for n in range(7))
    for name in reversed(names):
        tenants.create(name)
    seen: list[str] = []
    while page := tenants.list_tenants(seen[-1] if seen else "", 3):
        seen += [tenant.name for tenant in page]
    assert seen == names


def test_two_keys_live_until_one_is_revoked(service: Service) -> None:
    tenant = service.tenant()
    second = api_keys.parse(tenants.issue_key(tenant.tenant_id, "second", ["read"]))
    assert second is not None
    listed = tenants.list_keys(tenant.tenant_id)
    assert {key.key_id for key in listed} == {tenant.key_id, second.key_id}
    tenants.revoke_key(tenant.key_id)
    found = tenants.find_key(tenant.key_id)
    assert found is not None
    assert found.revoked_at is not None
    tenants.revoke_key(tenant.key_id)
    again = tenants.find_key(tenant.key_id)
    assert again == found, "the moment of the first revocation stays"
    other = tenants.find_key(second.key_id)
    assert other is not None
    assert other.revoked_at is None


def test_keys_of_all_tenants_are_listed_without_one(service: Service) -> None:
    made = {service.tenant().key_id for _ in range(3)}
    assert {key.key_id for key in tenants.list_keys()} == made


def test_a_key_may_expire(service: Service) -> None:
    tenant = service.tenant()
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    read = api_keys.parse(tenants.issue_key(tenant.tenant_id, "short", expires_at=moment))
    assert read is not None
    found = tenants.find_key(read.key_id)
    assert found is not None
    assert found.expires_at == moment


@pytest.mark.parametrize("scopes", [[], ["root"], ["read", "Ingest"]])
def test_only_known_scopes_are_given(service: Service, scopes: list[str]) -> None:
    tenant = service.tenant()
    with pytest.raises(Invalid) as raised:
        tenants.issue_key(tenant.tenant_id, "x", scopes)
    assert raised.value.errors[0].field == "scopes"
    assert len(tenants.list_keys(tenant.tenant_id)) == 1


def test_unknown_tenants_and_keys_are_not_found(service: Service) -> None:
    with pytest.raises(NotFound):
        tenants.issue_key(uuid4(), "x")
    with pytest.raises(NotFound):
        tenants.revoke_key("nobody")
    assert tenants.find_key("nobody") is None


def test_the_day_of_a_keys_use_is_noted(service: Service) -> None:
    tenant = service.tenant()
    assert service.one("SELECT last_used_on FROM api_keys") is None
    tenants.find_key(tenant.key_id)
    today = service.one("SELECT last_used_on FROM api_keys")
    assert abs(today - datetime.now(UTC).date()) <= timedelta(days=1)
