"""End leases and delays that are much too long because the database's clock was set back.

After a step back of an hour, for example, an earlier lease would block its work for an hour too long. A worker whose
lease was ended notices this when it finishes the work, as after any expired lease. A job that has started is continued
even if its `not_before` is in the future again.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

LONGEST_SECONDS: Final = 3600
"""Longer than any lease and any delay before a retry; only a job without a claim may wait longer, for `not_before`."""


def end_overlong(tx: Connection) -> int:
    """End leases and delays longer than `LONGEST_SECONDS`, so that their work can be claimed; return their number."""
    return sum(tx.execute(statement, {"longest": LONGEST_SECONDS}).rowcount for statement in _END)


_END = (
    text("""
UPDATE jobs SET
  claimed_until = CASE status WHEN 'running' THEN now() ELSE greatest(not_before, now()) END,
  claim = CASE status WHEN 'running' THEN claim END
WHERE status IN ('queued', 'running') AND claimed_until > now() + make_interval(secs => :longest)
  AND (claim IS NOT NULL OR claimed_until > greatest(not_before, now()) + make_interval(secs => :longest))
"""),
    text("""
UPDATE tenant_work SET claimed_until = now() WHERE claimed_until > now() + make_interval(secs => :longest)
"""),
    text("""
UPDATE rating_turns SET claimed_until = now() WHERE claimed_until > now() + make_interval(secs => :longest)
"""),
)
