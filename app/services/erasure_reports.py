"""The report of an erasure: what was found, removed and left in each store, what was kept and why, and what remains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from app.domain.privacy.clocks import confirm_by
from app.errors import Conflict
from app.services.erasing_steps import STEPS
from app.services.erasures import get
from app.settings import settings
from app.store import database, named, recipients, tombstones
from app.store.erasures import Erasure

SEGMENTS_WITHIN: Final = timedelta(days=2)
"""Of its end: a night rewrites the segments that an erasure has touched, and the one after it those that it didn't."""
_METHODS: Final = {
    "embeddings": "deleted, with those of the turns after them, which are made anew",
    "memory_words": "deleted, and taken out of the neighbours' context and of the document frequencies",
    "cold_memories": "deleted, and the key of each record destroyed",
    "links": "deleted, from both ends",
    "merges": "emptied",
    "tenant_work": "taken out of what waits",
    "dead_letters": "taken out",
}


def of(
    tx: database.Transaction,
    tenant_id: UUID,
    erasure: Erasure,
    *,
    ids: Sequence[UUID],
    left: Mapping[str, int],
    held: Sequence[UUID],
) -> dict[str, Any]:
    """What is told of an erasure that is done, or done but for what is held.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        erasure: With its scope still.
        ids: The memories that it was of.
        left: By step or table, what another look has found.
        held: The memories that legal holds are on.
    """
    now = database.now(tx)
    names = tombstones.names_of(tx, tenant_id, erasure.erasure_id)
    return {
        "made_at": now.isoformat(),
        "memories": len(ids),
        "cut": erasure.cut,
        "pseudonyms": {what: digest.hex() for what, digest in names.items()},
        "stores": _stores(erasure, left, now),
        "left": dict(left),
        "kept": _kept(tx, tenant_id, held),
        "recipients": _recipients(tx, tenant_id),
        "backups": _backups(now),
        "elsewhere": _elsewhere(now),
        "versions": {
            "code": _code(),
            "schema": recipients.schema(tx),
            "policy": recipients.policy(tx, tenant_id),
        },
    }


def _stores(erasure: Erasure, left: Mapping[str, int], now: datetime) -> list[dict[str, Any]]:
    """Each step with what it has done, and each table of the memories by itself."""
    removed = {each["step"]: each["removed"] for each in erasure.executed}
    rows: list[dict[str, Any]] = []
    for planned in erasure.plan or ():
        step = planned["step"]
        work = STEPS[step]
        row = {"store": work.store, "method": work.method, "found": planned["found"], "removed": removed.get(step, 0)}
        if planned.get("segments"):
            row["rewritten_by"] = (now + SEGMENTS_WITHIN).isoformat()
        rows.append(row | {"left": left.get(step, 0)})
        for table, count in planned.get("tables", {}).items():
            method = _METHODS.get(table, "deleted")
            there = left.get(table, 0)
            about = {"store": f"table {table}", "method": method, "found": count}
            rows.append(about | {"removed": max(count - there, 0), "left": there})
    return rows


def _kept(tx: database.Transaction, tenant_id: UUID, held: Sequence[UUID]) -> list[dict[str, Any]]:
    """What stays, with the ground for it."""
    kept: list[dict[str, Any]] = [
        {
            "what": "held memories",
            "count": each.memories,
            "ground": f"legal hold {each.hold_id} of {each.placed_at:%Y-%m-%d}",
            "until": "it is released; then they are erased",
        }
        for each in recipients.holds_on(tx, tenant_id, held)
    ]
    return [
        *kept,
        {
            "what": "ids of erased memories, a keyed digest of the name, and the place in the stream",
            "count": None,
            "ground": "so that a restored backup, a late retry or a replay doesn't bring anything back",
            "until": "the tenant is removed",
        },
        {
            "what": "entries of the audit",
            "count": None,
            "ground": "proof of what was done; they hold ids' digests and numbers, no text and no name",
            "until": "the tenant is removed",
        },
    ]


def _recipients(tx: database.Transaction, tenant_id: UUID) -> list[dict[str, Any]]:
    """Every host outside that the tenant's memories were sent to."""
    found = [
        {"host": each.host, "purposes": each.purposes, "calls": each.calls, "first": each.first, "last": each.last}
        for each in recipients.hosts(tx, tenant_id)
    ]
    cold = urlsplit(settings().cold_endpoint or settings().cold_url or "")
    if cold.scheme not in ("", "file"):
        found.append({"host": cold.hostname or cold.scheme, "purposes": ["cold storage"], "calls": None})
    return found


def _backups(now: datetime) -> dict[str, Any]:
    days = settings().backup_days
    return {
        "kept_days": days,
        "newest_affected_expires": (now + timedelta(days=days)).isoformat(),
        "replayed_on_restore": True,
    }


def _elsewhere(now: datetime) -> list[dict[str, str]]:
    """What no query can see, and how and when it goes."""
    later = now + timedelta(hours=settings().idempotency_hours)
    return [
        {
            "where": "deleted rows in PostgreSQL's files and indexes",
            "goes": "by vacuum, which frees their space; the bytes are overwritten as it is used again, or at once by "
            "VACUUM FULL",
        },
        {"where": "PostgreSQL's write-ahead log", "goes": "as it is recycled, and with the backups that keep it"},
        {
            "where": "answers remembered under idempotency keys in Redis",
            "goes": f"by themselves, the last at {later:%Y-%m-%d %H:%M} UTC; they hold digests, so that a retry stores "
            "nothing again",
        },
        {"where": "Redis's append-only file", "goes": "as Redis rewrites it"},
        {
            "where": "vectors of queries in the memory of processes",
            "goes": "some minutes after they were asked; under digests by a key of the process",
        },
        {"where": "logs", "goes": "as you rotate them; they hold ids and numbers, no text and no name"},
        {
            "where": "what was sent to the recipients",
            "goes": "by their own rules: tell them (GDPR Art. 19, 11 CCR 7022)",
        },
        {"where": "what others' memories say of the person", "goes": "if it is erased by itself: it is theirs"},
        {"where": "bodies of jobs and of their results", "goes": "never were: tasks carry ids, and keep no results"},
    ]


@lru_cache(maxsize=1)
def _code() -> str:
    try:
        return version("ebbing")
    except PackageNotFoundError:
        return "unknown"


def report(tenant_id: UUID, erasure_id: UUID) -> dict[str, Any]:
    """An erasure's report, with its dates.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: It isn't done yet.
    """
    erasure = get(tenant_id, erasure_id)
    if erasure.report is None:
        raise Conflict(f"it is {erasure.status}: its report is written once it is done")
    with database.tenant(tenant_id) as tx:
        waiting = set(named.to_rewrite(tx, tenant_id))
    marked = {UUID(each) for step in erasure.plan or () for each in step.get("segments", ())}
    return {
        "erasure_id": str(erasure_id),
        "tenant_id": str(tenant_id),
        "kind": erasure.kind,
        "status": erasure.status,
        "requested_by": erasure.requested_by,
        "hidden": erasure.hidden,
        "clocks": {
            "requested_at": erasure.requested_at,
            "confirm_by": confirm_by(erasure.kind, erasure.requested_at),
            "due_at": erasure.due_at,
            "grace_until": erasure.erase_after,
            "started_at": erasure.started_at,
            "finished_at": erasure.finished_at,
            "verified_at": erasure.verified_at,
        },
        "steps": erasure.executed,
        "segments_to_rewrite": len(marked & waiting),
        **erasure.report,
    }
