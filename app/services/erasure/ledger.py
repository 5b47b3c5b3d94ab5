"""Check whether this database has applied every entry of the erasure ledger; requests are refused until it has.

While entries wait, every request is refused and every worker pauses; accepted data stays in the stream. The check runs
again after the process has opened a connection, since the database may have been restored; otherwise it costs one
comparison.
"""

from __future__ import annotations

from typing import Final

from app.domain.formatting import count_of
from app.errors import NotReplayed
from app.store.core import database
from app.store.erasure import hold_backup, ledger, request_backup
from app.store.erasure.ledger import ReplayStatus

RETRY_SECONDS: Final = 10
NO_KEY_STORE: Final = (
    "the key store is missing (schema ebbing_keys): after a restore, restore its newest dump too, as ops/runbook.md "
    "says, since only it lists the erasures to replay on this copy of the data; a new database needs `ebbing migrate`"
)

_known_clear = -1


standing = database.in_shared(ledger.standing)
"""Return the position up to which the data has applied the ledger; None if the ledger or the data's mark is missing."""


def diagnose(found: ReplayStatus | None) -> str | None:
    """Return the ledger's problem and its remedy, or None if there is no problem."""
    if found is None:
        return NO_KEY_STORE
    if found.is_behind:
        erasures = count_of(found.waiting, "erasure", "erasures")
        others = count_of(max(found.requests, 0), "request or hold", "requests and holds")
        pending = f"{erasures} to replay, and {others} to compare with the key store"
        return f"the data is an older copy, with {pending}: run `ebbing privacy replay`"
    if found.mark > found.newest or found.requests < 0:
        return (
            f"the key store is older than the data (its ledger ends at entry {found.newest}; the data has applied "
            f"entry {found.mark}, and has {-found.requests} more changes to requests and holds): restore its newest "
            "dump; if there is none, run "
            "`ebbing privacy replay --accept-key-store`"
        )
    return None


def is_clear() -> bool:
    """Return True if this process already knows that no entry waits; runs no query."""
    return _known_clear == database.count_opened()


def check() -> None:
    """Check that no ledger entry waits.

    Raises:
        NotReplayed: Entries wait or the ledger is missing; the message says what to do.
    """
    global _known_clear  # noqa: PLW0603 - state of the process
    if is_clear():
        return
    opened = database.count_opened()
    problem = diagnose(standing())
    if problem is not None:
        raise NotReplayed(problem, retry_after_seconds=RETRY_SECONDS)
    _known_clear = opened


def accept_key_store() -> None:
    """Accept a key store that is older than the data, for use when no newer one exists."""
    with database.shared() as tx:
        ledger.set_back(tx)
        tenant_ids = request_backup.tenant_ids(tx)
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as tx:
            hold_backup.compare(tx, tenant_id)
            request_backup.compare(tx, tenant_id)
    with database.shared() as tx:
        request_backup.advance(tx)
