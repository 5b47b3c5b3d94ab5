"""Queue the tenants whose memories only the rules have scored: one row per tenant, claimed with a lease.

Like `tenant_work`, the table `rating_turns` contains no memory content and has no row-level security.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.enrichment.work_queue import NIL


@dataclass(frozen=True, slots=True)
class RatingTurn:
    """A tenant whose memories this worker may rate until the lease ends.

    Attributes:
        wanted: Value of the row's request counter when it was claimed; scoring by rules increments it.
        are_several: Other tenants wait for their turn.
    """

    claim_id: UUID
    tenant_id: UUID
    wanted: int
    are_several: bool = False


def add(tx: Connection, tenant_id: UUID) -> None:
    """Queue a tenant for rating, in the transaction that scored its memories; simulated tenants are never queued."""
    tx.execute(_ADD, {"tenant": tenant_id})


_ADD = text("""
INSERT INTO rating_turns (tenant_id)
SELECT :tenant WHERE NOT EXISTS (SELECT FROM tenants WHERE tenant_id = :tenant AND simulated)
ON CONFLICT (tenant_id) DO UPDATE SET wanted = rating_turns.wanted + 1
""")


def claim(tx: Connection, *, claim_id: UUID, after: UUID, lease_seconds: float) -> RatingTurn | None:
    """Claim the turn of the next tenant after `after`, in rotation, so that no tenant starves.

    Only one turn can be claimed at a time, so that a slow model blocks a single worker process and the lane's other
    processes can score by rules.

    Args:
        claim_id: A new id that proves the claim.
        after: The tenant of the last turn; `NIL` at first.
        lease_seconds: Duration of the claim, which the worker renews.

    Returns:
        The turn, or None if no tenant is free or another turn is claimed.
    """
    values = {"claim": claim_id, "after": after, "lease": lease_seconds}
    row = tx.execute(_CLAIM, values).one_or_none()
    if row is None and after != NIL:
        row = tx.execute(_CLAIM, values | {"after": NIL}).one_or_none()
    return None if row is None else RatingTurn(claim_id, row.tenant_id, row.wanted, row.are_several)


_CLAIM = text("""
WITH next AS MATERIALIZED (
  SELECT tenant_id FROM rating_turns
  WHERE claimed_until <= now() AND tenant_id > :after
    AND NOT EXISTS (SELECT FROM rating_turns WHERE claim IS NOT NULL AND claimed_until > now())
  ORDER BY tenant_id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE rating_turns AS turn SET claim = :claim, claimed_until = now() + make_interval(secs => :lease)
FROM next WHERE turn.tenant_id = next.tenant_id
RETURNING turn.tenant_id, turn.wanted, EXISTS (
  SELECT FROM rating_turns AS other WHERE other.claimed_until <= now() AND other.tenant_id <> turn.tenant_id
) AS are_several
""")


def renew(tx: Connection, turn: RatingTurn, lease_seconds: float) -> bool:
    """Extend the lease of a claimed turn from now; return False if the claim is no longer valid."""
    return tx.execute(_RENEW, _key(turn) | {"lease": lease_seconds}).rowcount == 1


_RENEW = text("""
UPDATE rating_turns SET claimed_until = now() + make_interval(secs => :lease)
WHERE tenant_id = :tenant AND claim = :claim
""")


def release(tx: Connection, turn: RatingTurn, delay_seconds: float = 0) -> None:
    """Release the turn; it can be claimed again after `delay_seconds`."""
    tx.execute(_GIVE_BACK, _key(turn) | {"delay": delay_seconds})


_GIVE_BACK = text("""
UPDATE rating_turns SET claim = NULL, claimed_until = now() + make_interval(secs => :delay)
WHERE tenant_id = :tenant AND claim = :claim
""")


def finish_turn(tx: Connection, turn: RatingTurn) -> None:
    """Delete the turn, or release it if the rules have scored more memories since it was claimed."""
    if not tx.execute(_FINISH, _key(turn) | {"wanted": turn.wanted}).rowcount:
        release(tx, turn)


_FINISH = text("DELETE FROM rating_turns WHERE tenant_id = :tenant AND claim = :claim AND wanted = :wanted")


def _key(turn: RatingTurn) -> dict[str, object]:
    return {"tenant": turn.tenant_id, "claim": turn.claim_id}
