"""Store each tenant's share in the shared PCA bases: the vectors of its sample that the latest draw has used.

The rows of a tenant's sample that were used store the id of the draw, as does the basis fitted on them. A share is
complete while all these rows exist. Only a tenant's latest share is stored. A shared basis older than this share may
have been fitted on any of the tenant's vectors; a newer basis was fitted on none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.tiers.pca import Vectors
from app.store.core.binary_arrays import decode_vectors, driver_connection, fetch_value
from app.store.tiers.pca_bases import SHARED, BasisInfo, Draw


@dataclass(frozen=True, slots=True)
class Share:
    """A tenant's latest share in a shared basis of a space.

    Attributes:
        share_id: The draw of the shared sample.
        drawn_at: A time before any vector of the draw was read.
        is_incomplete: Whether vectors of the share may have been deleted before the time given to `read`.
    """

    share_id: UUID
    drawn_at: datetime
    is_incomplete: bool


def draw_share(tx: Connection, tenant_id: UUID, space_id: int, limit: int, draw: Draw) -> Vectors:
    """Draw vectors from a tenant's sample of a space for a shared basis, record them as its share, and return them.

    Vectors that another transaction is deleting are omitted.
    """
    values = {
        "tenant": tenant_id,
        "space": space_id,
        "limit": limit,
        "share": draw.draw_id,
        "drawn_at": draw.drawn_at,
    }
    return decode_vectors(fetch_value(tx, _DRAW, values, binary=True))


_DRAW: Final = """
WITH drawn AS (
  UPDATE pca_samples SET share_id = %(share)s
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM pca_samples WHERE tenant_id = %(tenant)s AND space_id = %(space)s
    ORDER BY random() LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
  RETURNING vector
), recorded AS (
  INSERT INTO pca_shares (tenant_id, space_id, share_id, samples, drawn_at)
  SELECT %(tenant)s, %(space)s, %(share)s, count(*), %(drawn_at)s FROM drawn HAVING count(*) > 0
  ON CONFLICT (tenant_id, space_id) DO UPDATE
  SET share_id = excluded.share_id, samples = excluded.samples, drawn_at = excluded.drawn_at, checked_at = NULL
)
SELECT string_agg(halfvec_send(vector), '') FROM drawn
"""


def read(tx: Connection, tenant_id: UUID, space_id: int, before: datetime) -> Share | None:
    """Return a tenant's latest share in a shared basis of a space, or None if it has none.

    The share is complete if it was drawn after `before`, if all its vectors existed at a check after `before`, or if
    they all exist now.
    """
    values = {"tenant": tenant_id, "space": space_id, "before": before}
    row = driver_connection(tx).execute(_READ, values).fetchone()
    return None if row is None else Share(*row)


_LOST: Final = """
samples > (
    SELECT count(*) FROM pca_samples AS sample
    WHERE sample.tenant_id = %(tenant)s AND sample.space_id = share.space_id AND sample.share_id = share.share_id)
"""
_READ: Final = f"""
SELECT share_id, drawn_at, greatest(drawn_at, checked_at) < %(before)s AND {_LOST}
FROM pca_shares AS share WHERE tenant_id = %(tenant)s AND space_id = %(space)s
"""  # noqa: S608 - constants


def check_complete(tx: Connection, tenant_id: UUID, now: datetime) -> None:
    """Set `checked_at` of the tenant's shares whose vectors all exist, so that later edits don't make a basis outdated.

    Args:
        now: The time to record, read after the deletions and before this call.
    """
    driver_connection(tx).execute(_CHECK, {"tenant": tenant_id, "now": now})


_CHECK: Final = f"""
UPDATE pca_shares AS share SET checked_at = %(now)s WHERE tenant_id = %(tenant)s AND NOT ({_LOST})
"""  # noqa: S608 - constants


def list_outdated(
    tx: Connection, space_id: int, first_seconds: float, before: datetime, share: Share | None
) -> list[BasisInfo]:
    """Return shared bases of a space that may have been fitted on a tenant's vectors deleted before the given time.

    Bases made by Ebbing versions that didn't store the draw are included regardless of `before` and `share`.

    Args:
        tx: A transaction of the nil tenant.
        first_seconds: When the first deleted memory arrived, in seconds since 1970; older bases are omitted.
        share: The tenant's latest share.
    """
    values = {
        "shared": SHARED,
        "space": space_id,
        "first": first_seconds,
        "before": before,
        "share": share.share_id if share else None,
        "drawn_at": share.drawn_at if share else None,
        "is_incomplete": share.is_incomplete if share else False,
    }
    return [BasisInfo(*row) for row in driver_connection(tx).execute(_OUTDATED, values).fetchall()]


_OUTDATED: Final = """
SELECT basis_id, space_id, variance_kept, samples, made_at FROM pca_bases
WHERE tenant_id = %(shared)s AND space_id = %(space)s AND made_at >= to_timestamp(%(first)s)
  AND (draw_id IS NULL OR (made_at < %(before)s
    AND CASE WHEN draw_id = %(share)s::uuid THEN %(is_incomplete)s ELSE made_at < %(drawn_at)s::timestamptz END))
ORDER BY basis_id
"""
