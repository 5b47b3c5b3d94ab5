"""Who was sent a tenant's memories: every host outside that was called for it, and where cold storage is."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from app.settings import settings
from app.store.core import database
from app.store.erasure import recipients


def of(tx: database.Transaction, tenant_id: UUID) -> list[dict[str, Any]]:
    """The hosts, by name, and what for.

    That of cold storage comes last and is there whether or not something of the tenant's is cold now: exports lie there
    too, and what lay there once was sent there.
    """
    found = [
        {"host": each.host, "purposes": each.purposes, "calls": each.calls, "first": each.first, "last": each.last}
        for each in recipients.hosts(tx, tenant_id)
    ]
    cold = urlsplit(settings().cold_endpoint or settings().cold_url or "")
    if cold.scheme not in ("", "file"):
        purposes = ["cold storage", "exports"]
        found.append({"host": cold.hostname or cold.scheme, "purposes": purposes, "calls": None})
    return found
