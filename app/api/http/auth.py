"""Authenticate callers by API key; verified keys are cached for a few seconds, so that ingest needs no database."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from app.api.http.query_parameters import refuse_unknown
from app.api.http.request_body import header
from app.domain.ingest import sources
from app.domain.policy import api_keys
from app.errors import NotAllowed, NotAuthenticated, TenantClosed, Unavailable
from app.services.tenants import tenants
from app.services.transient_errors import is_transient
from app.settings import settings
from app.store.tenants.tenants import KeyRecord

# While PostgreSQL is down no key can be revoked either, so a cached key stays valid for this long.
STALE_SECONDS = 300
CACHED_KEYS_MAX = 10_000
_ABSENT = b"\0" * 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Authenticated caller: tenant, key, scopes, and the most trusted source that the key may give to memories."""

    tenant_id: UUID
    key_id: str
    scopes: frozenset[str]
    source: sources.Source = "unknown"

    @property
    def writer(self) -> sources.Writer:
        """The key as the writer of memories."""
        return sources.Writer(self.key_id, self.source)


@dataclass(slots=True)
class _Held:
    key: KeyRecord | None
    looked_up_at: float


class KeyCache:
    """Cache of API keys by id. Entries expire after a few seconds; concurrent requests share one lookup.

    Unknown ids are cached and compared like known ones, so that response times don't reveal which keys exist.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._underway: dict[str, asyncio.Task[KeyRecord | None]] = {}

    async def caller(self, scope: Scope, needed: str) -> Caller:
        """Return the caller of a request that needs a scope.

        Raises:
            NotAllowed: The key lacks the scope.
            EbbingError: As for `any_caller`.
        """
        found = await self.any_caller(scope)
        if needed not in found.scopes:
            raise NotAllowed(f"this request requires a key with the scope {needed!r}")
        return found

    async def any_caller(self, scope: Scope) -> Caller:
        """Return the caller of a request, whatever the key's scopes.

        Raises:
            NotAuthenticated: The key is missing or invalid.
            TenantClosed: The key's tenant is being deleted.
            Unavailable: The key isn't cached and the database is down.
        """
        given = header(scope, b"authorization") or ""
        if not given.strip():
            raise NotAuthenticated("the request has no API key: send `Authorization: Bearer ebb_…`")
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer":
            raise NotAuthenticated("the header `Authorization` must begin with `Bearer`, as in `Bearer ebb_…`")
        return await self.presented(token.strip())

    async def presented(self, token: str) -> Caller:
        """Return the caller for an API key.

        Raises:
            NotAuthenticated: The key is malformed or invalid.
            TenantClosed: The key's tenant is being deleted.
            Unavailable: The key isn't cached and the database is down.
        """
        presented = api_keys.parse(token)
        if presented is None:
            raise NotAuthenticated("this isn't a complete key of Ebbing, which begins with `ebb_`: copy the whole key")
        key = await self._key(presented.key_id)
        matches = api_keys.matches_digest(presented.secret, key.digest if key else _ABSENT)
        return _caller(key if matches else None)

    async def known(self, key_id: str) -> Caller:
        """Return the caller for the id of a key that has logged in before.

        Raises:
            NotAuthenticated: The key is no longer valid.
            TenantClosed: The key's tenant is being deleted.
            Unavailable: The key isn't cached and the database is down.
        """
        return _caller(await self._key(key_id))

    def forget(self, tenant_id: UUID) -> None:
        """Look up a tenant's keys again at their next use."""
        for key_id in [key_id for key_id, held in self._held.items() if held.key and held.key.tenant_id == tenant_id]:
            self._held.pop(key_id, None)

    async def _key(self, key_id: str) -> KeyRecord | None:
        held = self._held.get(key_id)
        now = time.monotonic()
        if held is not None and now - held.looked_up_at < settings().key_cache_seconds:
            return held.key
        task = self._underway.get(key_id)
        if task is None:
            task = asyncio.ensure_future(self._look_up(key_id))
            self._underway[key_id] = task
            task.add_done_callback(lambda _: self._underway.pop(key_id, None))
        try:
            return await asyncio.shield(task)
        except Exception as error:
            if not is_transient(error):
                raise
            if held is not None and held.key is not None and now - held.looked_up_at < STALE_SECONDS:
                return held.key
            raise Unavailable(
                "API keys can't be verified: the database is unavailable", retry_after_seconds=2
            ) from None

    async def _look_up(self, key_id: str) -> KeyRecord | None:
        asked_at = time.monotonic()
        key = await run_in_threadpool(tenants.find_key, key_id)
        self._held[key_id] = _Held(key, asked_at)
        self._held.move_to_end(key_id)
        while len(self._held) > CACHED_KEYS_MAX:
            self._held.popitem(last=False)
        return key


def _caller(key: KeyRecord | None) -> Caller:
    if key is None or key.revoked_at or (key.expires_at and key.expires_at <= datetime.now(UTC)):
        raise NotAuthenticated("this key is invalid: unknown, revoked or expired")
    if key.tenant_is_closed:
        raise TenantClosed("this key's tenant is being deleted: its keys are valid again if the deletion is cancelled")
    return Caller(key.tenant_id, key.key_id, key.scopes, key.source)


cache = KeyCache()


def needs(scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """Return a dependency that requires a key with this scope, and refuses unknown query parameters."""

    async def caller(request: Request) -> Caller:
        found = await cache.caller(request.scope, scope)
        refuse_unknown(request)
        return found

    caller.__name__ = f"needs_{scope}"
    return caller


Reader = Annotated[Caller, Depends(needs("read"))]
Writer = Annotated[Caller, Depends(needs("ingest"))]
Maintainer = Annotated[Caller, Depends(needs("maintain"))]
Guardian = Annotated[Caller, Depends(needs("privacy"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
