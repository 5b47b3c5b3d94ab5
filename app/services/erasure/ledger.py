"""Whether this copy of the data has followed the ledger of erasures: until it has, nobody sees it.

While entries wait, every request is refused and every worker waits; what was accepted stays in the stream. It is asked
once for each connection that the process opens, since a restored database is another one: on the hot path it costs a
comparison.
"""

from __future__ import annotations

from typing import Final

from app.errors import NotReplayed
from app.store.core import database
from app.store.erasure import kept_holds, kept_requests
from app.store.erasure import ledger as rows
from app.store.erasure.ledger import Standing

RETRY_SECONDS: Final = 10
NO_KEY_STORE: Final = (
    "the key store is missing (schema ebbing_keys): after a restore, restore its newest dump too, as ops/runbook.md "
    "says, since it alone tells which erasures this copy of the data must follow; a new database needs `ebbing migrate`"
)

_known_clear = -1


def standing() -> Standing | None:
    """How far the data has followed the ledger; None where either isn't there."""
    with database.shared() as tx:
        return rows.standing(tx)


def remedy(found: Standing | None) -> str | None:
    """What is wrong with it, and what to do; None where all is well."""
    if found is None:
        return NO_KEY_STORE
    if found.is_behind:
        what = f"erasures to replay: {found.waiting}, requests and holds to compare: {max(found.requests, 0)}"
        return f"{what}: the data is an older copy: run `ebbing privacy replay`"
    if found.mark > found.newest or found.requests < 0:
        return (
            f"the key store is older than the data: its ledger ends at {found.newest}, the data knows {found.mark} and "
            f"{-found.requests} more requests and holds: restore its newest dump; where there is none, run "
            "`ebbing privacy replay --accept-key-store`"
        )
    return None


def is_clear() -> bool:
    """Whether it is known that nothing waits; asks nobody."""
    return _known_clear == database.opened()


def check() -> None:
    """See that nothing waits.

    Raises:
        NotReplayed: Something does; says what to do.
    """
    global _known_clear  # noqa: PLW0603 - what the process knows
    if is_clear():
        return
    before = database.opened()
    wrong = remedy(standing())
    if wrong is not None:
        raise NotReplayed(wrong, retry_after_seconds=RETRY_SECONDS)
    _known_clear = before


def accept_key_store() -> None:
    """Let the data follow a key store that is older than itself, since there is no newer one."""
    with database.shared() as tx:
        rows.set_back(tx)
        tenant_ids = kept_requests.tenant_ids(tx)
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as tx:
            kept_holds.compare(tx, tenant_id)
            kept_requests.compare(tx, tenant_id)
    with database.shared() as tx:
        kept_requests.advance(tx)
