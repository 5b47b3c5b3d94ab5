"""List the recipients of a tenant's memories: external hosts called for the tenant, the cold store, and note copies."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from app.settings import settings
from app.store.core import database
from app.store.erasure import recipients
from app.store.notes import notes


def list_recipients(tx: database.Transaction, tenant_id: UUID) -> list[dict[str, Any]]:
    """Return the hosts, ordered by name, with their purposes, number of calls, and first and last day.

    The cold store's host follows, unless the cold store is a folder. It is listed even if the tenant has no cold data
    now, because exports are stored there too and former cold data was sent there. The last entries are the machines on
    which `ebbing notes` copies the notes of promoted memories.
    """
    hosts = [
        {"host": host.host, "purposes": host.purposes, "calls": host.calls, "first": host.first, "last": host.last}
        for host in recipients.hosts(tx, tenant_id)
    ]
    cold = urlsplit(settings().cold_endpoint or settings().cold_url or "")
    if cold.scheme not in ("", "file"):
        purposes = ["cold storage", "exports"]
        hosts.append({"host": cold.hostname or cold.scheme, "purposes": purposes, "calls": None})
    for copy in notes.list_copies(tx, tenant_id):
        dates = {"first": copy.first_at.date(), "last": copy.last_at.date()}
        hosts.append({"host": copy.name, "purposes": ["notes"], "calls": copy.runs} | dates)
    return hosts
