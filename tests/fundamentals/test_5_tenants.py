"""Chapter 5: tenants and their keys.

Every caller belongs to a tenant, and tenants never see each other's data: not in lists, not in searches, not by
guessing ids. An API key identifies the tenant. Keys can be limited to some scopes, and revoked.
"""

from __future__ import annotations

import pytest

from tests.fundamentals.client import Client, read, refusal
from tests.fundamentals.service import Service, Tenant
from tests.waiting import until

SOMEBODYS = "ebb_0000000000000_0000000000000000000000000000000000000000000000000000000000"


@pytest.fixture
def stranger(service: Service, tenant: Tenant) -> Client:
    """The client of another tenant."""
    return service.client(service.new_tenant().api_key)


@pytest.mark.parametrize("authorization", ["", "Bearer nonsense", f"Bearer {SOMEBODYS}", "Basic YTpi"])
def test_without_a_valid_key_nothing_opens(ebbing: Client, authorization: str) -> None:
    answer = ebbing.http.get("/v1/stats", headers={"authorization": authorization})

    assert refusal(answer).status == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_key_can_be_made_for_less_than_everything(service: Service, tenant: Tenant, ebbing: Client) -> None:
    [memory_id] = ebbing.remember("The safe is behind the painting.")
    order = {"name": "a reader", "tenant_id": tenant.tenant_id, "scopes": ["read"]}
    made = read(service.operator.http.post("/v1/admin/keys", json=order), dict[str, object])
    reader = service.client(str(made["api_key"]))

    assert reader.get(memory_id).text == "The safe is behind the painting."
    assert refusal(reader.send("I was here.")).status == 403
    assert refusal(reader.delete(memory_id)).status == 403


def test_a_tenants_own_key_makes_no_tenants(ebbing: Client) -> None:
    assert refusal(ebbing.http.post("/v1/admin/tenants", json={"name": "mine"})).status == 403


def test_a_revoked_key_is_refused_within_seconds(service: Service, tenant: Tenant) -> None:
    order = {"name": "lost", "tenant_id": tenant.tenant_id}
    made = read(service.operator.http.post("/v1/admin/keys", json=order), dict[str, object])
    lost = service.client(str(made["api_key"]))
    assert lost.stats().dead_letters == 0

    service.operator.http.delete(f"/v1/admin/keys/{made['key_id']}")

    until(lambda: lost.http.get("/v1/stats").status_code == 401, "the key is refused")


def test_another_tenants_memory_is_as_good_as_none(ebbing: Client, stranger: Client) -> None:
    [memory_id] = ebbing.remember("The treasure is on the island.")

    assert refusal(stranger.http.get(f"/v1/memories/{memory_id}")).status == 404
    assert refusal(stranger.http.patch(f"/v1/memories/{memory_id}", json={"text": "Mine."})).status == 404
    assert refusal(stranger.delete(memory_id)).status == 404
    assert ebbing.get(memory_id).text == "The treasure is on the island."


def test_another_tenants_waiting_memory_is_as_good_as_none(service: Service, ebbing: Client, stranger: Client) -> None:
    with service.paused("ingest"):
        [memory_id] = ebbing.send("Not yet stored.").json()["ids"]

        assert ebbing.get(memory_id).status == "pending"
        assert refusal(stranger.http.get(f"/v1/memories/{memory_id}")).status == 404


def test_searches_and_lists_end_at_the_tenants_border(ebbing: Client, stranger: Client) -> None:
    ebbing.remember("The treasure is on the island.")
    [own] = stranger.remember("The treasure is a myth.")

    assert [result.id for result in stranger.search("treasure")] == [own]
    assert [memory.id for memory in stranger.page().memories] == [own]


def test_external_ids_and_idempotency_keys_are_each_tenants_own(ebbing: Client, stranger: Client) -> None:
    note = {"text": "Same name, other owner.", "external_id": "note"}
    first = ebbing.send(note, idempotency_key="k", prefer="wait=20").json()["ids"]
    second = stranger.send(note, idempotency_key="k", prefer="wait=20").json()["ids"]

    assert first != second
    assert (ebbing.get(first[0]).id, stranger.get(second[0]).id) == (first[0], second[0])
