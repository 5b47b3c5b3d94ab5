"""`/v1/admin`: administer tenants and API keys."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Admin
from app.api.http.cursors import KEY_ID, NAME, PAGE_MAX
from app.api.http.request_body import json_body
from app.domain.ingest.sources import Source
from app.domain.policy import policy_diff
from app.domain.policy.api_keys import SCOPES
from app.services.tenants import tenants
from app.store.tenants.tenants import KeyRecord, Tenant

router = APIRouter(prefix="/v1/admin", tags=["admin"])


class NewTenant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """New tenant; omitted policy fields get their defaults."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=tenants.NAME_MAX_CHARACTERS)]
    policy: dict[str, Any] | None = None


_Scope = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(SCOPES)})]


class NewKey(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """New API key, for the caller's own tenant if none is given.

    Attributes:
        source: The most trusted source that the key may give to the memories that it writes.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=tenants.NAME_MAX_CHARACTERS)]
    tenant_id: UUID | None = None
    scopes: tuple[_Scope, ...] = tenants.TENANT_SCOPES
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    source: Source = "unknown"


@router.post("/tenants", summary="Create a tenant", status_code=201)
def create_tenant(caller: Admin, wanted: Annotated[NewTenant, Depends(json_body(NewTenant))]) -> Response:
    """Create a tenant and its first API key. The key is returned only once."""
    tenant, key = tenants.create(wanted.name, policy_diff.read(wanted.policy or {}), actor=caller.key_id)
    return responses.answer(
        {"id": tenant.tenant_id, "tenant_id": tenant.tenant_id, "name": tenant.name, "api_key": key}, 201
    )


@router.get("/tenants", summary="List tenants by name")
def list_tenants(_: Admin, cursor: str = "", limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100) -> Response:
    """Return a page of tenants with their `status`; continue with `next_cursor`.

    A tenant is `active`, `being_deleted` once its deletion is requested, or `deleted`. A deleted
    tenant's name is its id.
    """
    return responses.page("tenants", tenants.list_tenants(NAME.decode(cursor) or "", limit), _tenant, NAME)


@router.post("/keys", summary="Create an API key", status_code=201)
def create_key(caller: Admin, wanted: Annotated[NewKey, Depends(json_body(NewKey))]) -> Response:
    """Create a key. It is returned only once. To rotate keys: create a second one, switch to it, revoke the first."""
    tenant_id = wanted.tenant_id or caller.tenant_id
    text = tenants.issue_key(tenant_id, wanted.name, wanted.scopes, wanted.expires_at, caller.key_id, wanted.source)
    shown = {
        "id": text[4:17],
        "key_id": text[4:17],  # deprecated name of `id`
        "api_key": text,
        "tenant_id": tenant_id,
        **responses.pick(wanted, "name", "scopes", "expires_at", "source"),
    }
    return responses.answer(shown, 201)


@router.get("/keys", summary="List API keys")
def list_keys(
    _: Admin,
    tenant_id: UUID | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=tenants.KEYS_MAX)] = tenants.KEYS_MAX,
) -> Response:
    """Return a page of keys without their secrets, newest first."""
    return responses.page("keys", tenants.list_keys(tenant_id, KEY_ID.decode(cursor), limit), _key, KEY_ID)


@router.delete("/keys/{key_id}", summary="Revoke an API key", status_code=204)
def revoke_key(caller: Admin, key_id: str) -> Response:
    """Revoke a key; it is rejected everywhere within 5 seconds."""
    tenants.revoke_key(key_id, caller.key_id)
    return Response(status_code=204)


def _tenant(tenant: Tenant) -> dict[str, object]:
    # `tenant_id`: deprecated name of `id`
    return {"id": tenant.tenant_id, **asdict(tenant), "status": tenant.status}


def _key(key: KeyRecord) -> dict[str, object]:
    shown = {"id": key.key_id, **asdict(key)}  # `key_id`: deprecated name of `id`
    del shown["digest"]
    return shown | {"scopes": sorted(key.scopes)}
