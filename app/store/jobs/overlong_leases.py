"""End leases and delays that a step of the database's clock has made much longer than any is meant to last.

After a step back, a lease taken before it would hold its work for as long as the step. A worker that still has such a
lease notices at its end that it has lost it, as after any expired lease.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

LONGEST_SECONDS: Final = 3600
"""Longer than any lease and any delay before a retry; only a job's own `not_before` may be later."""


def end_overlong(tx: Connection) -> int:
    """Make the work of such leases claimable now; return the number of leases and delays that end."""
    return sum(tx.execute(statement, {"longest": LONGEST_SECONDS}).rowcount for statement in _END)


_END = (
    text("""
UPDATE jobs SET claimed_until = greatest(not_before, now())
WHERE status IN ('queued', 'running')
  AND claimed_until > greatest(not_before, now()) + make_interval(secs => :longest)
"""),
    text("""
UPDATE tenant_work SET claimed_until = now() WHERE claimed_until > now() + make_interval(secs => :longest)
"""),
    text("""
UPDATE rating_turns SET claimed_until = now() WHERE claimed_until > now() + make_interval(secs => :longest)
"""),
)
