"""`DELETE /v1/admin/tenants/{tenant_id}`: preview, confirmation, refusals, cancellation and report over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from app.services.erasure import tenant_deletion
from tests.api.caller import Api, fields
from tests.services.due_deletions import UNFINISHED, worked


def path(tenant_id: UUID, more: str = "") -> str:
    return f"/v1/admin/tenants/{tenant_id}{more}"


def delete(api: Api, tenant_id: UUID, **params: Any) -> Any:
    return api.request("DELETE", path(tenant_id), params=params, key=api.admin.key)


def name_of(tenant_id: UUID) -> str:
    return tenant_deletion.get(tenant_id).tenant.name


def test_a_preview_counts_and_changes_nothing(api: Api) -> None:
    api.remember("a heron stood there", "and flew away")
    tenant_id = api.tenant.tenant_id
    hold = api.post("/v1/privacy/holds", json={"subject": "ann", "reason": "court", "ground": "legal_claims"}).json()
    would = delete(api, tenant_id, dry_run=True)
    assert would.status_code == 200
    body = would.json()
    assert (body["status"], body["stores"]["memories"], body["tables"]["memory_words"]) == ("active", 2, 2)
    assert [each["hold_id"] for each in body["holds"]] == [hold["id"]]
    refused = delete(api, tenant_id, name=name_of(tenant_id))
    assert (refused.status_code, refused.json()["errors"][0]["value"]) == (409, hold["id"])
    assert api.get("/v1/stats").status_code == 200


def test_keys_are_refused_at_once_and_accepted_again_after_the_cancellation(api: Api) -> None:
    tenant_id, name = api.tenant.tenant_id, name_of(api.tenant.tenant_id)
    assert api.get("/v1/stats").status_code == 200
    made = delete(api, tenant_id, name=name, grace_days=7)
    assert (made.status_code, made.json()["status"]) == (202, "being_deleted")
    for method, route, body in (
        ("POST", "/v1/memories", {"text": "x"}),
        ("POST", "/v1/search", {"query": "x"}),
        ("GET", "/v1/stats", None),
    ):
        refused = api.request(method, route, json=body)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:ebbing:problem:tenant-deleted"), route
    again = delete(api, tenant_id, name=name)
    assert (again.status_code, again.json()) == (200, made.json())
    listed = api.get("/v1/admin/tenants", key=api.admin.key).json()["tenants"]
    assert {each["id"]: each["status"] for each in listed}[str(tenant_id)] == "being_deleted"
    issued = api.post("/v1/admin/keys", json={"name": "k", "tenant_id": str(tenant_id)}, key=api.admin.key)
    assert issued.status_code == 409
    cancelled = api.post(path(tenant_id, "/deletion/cancel"), key=api.admin.key)
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "active")
    assert api.post("/v1/memories", json={"text": "x"}).status_code == 202
    assert api.get("/v1/stats").status_code == 200


def test_bad_requests_are_refused_with_their_field(api: Api) -> None:
    tenant_id = api.tenant.tenant_id
    for params, field in (({}, "name"), ({"name": "another"}, "name"), ({"name": "x", "grace_days": 31}, "grace_days")):
        refused = delete(api, tenant_id, **params)
        assert (refused.status_code, fields(refused)) == (422, [field]), params
    assert delete(api, uuid4(), name="x").status_code == 404
    own = delete(api, api.admin.tenant_id, name=name_of(api.admin.tenant_id))
    assert (own.status_code, "another tenant" in own.json()["detail"]) == (409, True)
    nothing = api.get(path(tenant_id, "/deletion"), key=api.admin.key).json()
    assert (nothing["id"], nothing["status"]) == (None, "active")
    assert api.get(path(tenant_id, "/deletion/report"), key=api.admin.key).status_code == 404
    assert api.post(path(tenant_id, "/deletion/cancel"), key=api.admin.key).status_code == 409


def test_a_finished_deletion_has_a_report_and_can_not_be_cancelled(api: Api) -> None:
    api.remember("a heron stood there")
    tenant_id, name = api.tenant.tenant_id, name_of(api.tenant.tenant_id)
    delete(api, tenant_id, name=name, grace_days=0)
    assert api.get(path(tenant_id, "/deletion/report"), key=api.admin.key).status_code == 409
    worked(api.service, UNFINISHED)
    shown = api.get(path(tenant_id, "/deletion"), key=api.admin.key).json()
    assert (shown["status"], shown["name"], shown["report"]["memories"]) == ("deleted", str(tenant_id), 1)
    page = api.get(path(tenant_id, "/deletion/report"), params={"format": "html"}, key=api.admin.key)
    assert page.status_code == 200
    assert "1 memory was erased" in page.text
    assert name not in page.text
    assert api.post(path(tenant_id, "/deletion/cancel"), key=api.admin.key).status_code == 409
    again = delete(api, tenant_id, name=name)
    assert (again.status_code, again.json()["id"]) == (200, shown["id"])
    assert api.get("/v1/stats").status_code in {401, 403}
