"""Store the PCA bases that reduce archived vectors, and the samples on which they are fitted.

A basis never changes. It is retained while vectors reduced by it exist; newer vectors use a newer basis. The nil
tenant's bases are shared by tenants with too few vectors for a basis of their own.

Each draw of a sample has an id, which the sample's rows and the basis fitted on them store. A basis is complete while
all rows of its draw exist: deleting or editing a memory deletes its row, and a later draw replaces all rows. The draw
is committed before the fit, so a row deleted during the fit also makes the basis incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from app.domain.tiers.pca import PcaBasis, Vectors
from app.store.core.binary_arrays import Uuids, decode_vectors, driver_connection, fetch_column, fetch_value

SHARED: Final = UUID(int=0)
"""The nil tenant, whose bases are shared by all tenants."""


@dataclass(frozen=True, slots=True)
class BasisInfo:
    """A basis without its matrix.

    Attributes:
        space_id: The embedding space of its vectors.
        variance_kept: Share of the variance that is retained, 0 to 1.
        samples: Number of vectors on which it was fitted.
        made_at: A time before any of these vectors was read.
    """

    basis_id: int
    space_id: int
    variance_kept: float
    samples: int
    made_at: datetime


class Draw(NamedTuple):
    """Identity of a draw of a sample, and a time before any of its vectors was read."""

    draw_id: UUID
    drawn_at: datetime


def read_newest(tx: Connection, tenant_id: UUID, space_id: int) -> BasisInfo | None:
    """Return a tenant's newest basis for a space, which reduces new vectors; None if it has none."""
    row = driver_connection(tx).execute(_NEWEST, {"tenant": tenant_id, "space": space_id}).fetchone()
    return None if row is None else BasisInfo(*row)


_NEWEST: Final = """
SELECT basis_id, space_id, variance_kept, samples, made_at FROM pca_bases
WHERE tenant_id = %(tenant)s AND space_id = %(space)s ORDER BY basis_id DESC LIMIT 1
"""


def list_known(tx: Connection, tenant_id: UUID, basis_ids: Sequence[int]) -> dict[int, BasisInfo]:
    """Return those of these bases that the tenant owns, by id."""
    rows = driver_connection(tx).execute(_KNOWN, {"tenant": tenant_id, "ids": list(basis_ids)}).fetchall()
    return {row[0]: BasisInfo(*row) for row in rows}


_KNOWN: Final = """
SELECT basis_id, space_id, variance_kept, samples, made_at FROM pca_bases
WHERE tenant_id = %(tenant)s AND basis_id = ANY (%(ids)s)
"""


def read(tx: Connection, tenant_id: UUID, basis_ids: Sequence[int]) -> dict[int, PcaBasis]:
    """Read bases by id; missing and malformed ones are omitted."""
    rows = driver_connection(tx).execute(_READ, {"tenant": tenant_id, "ids": list(basis_ids)}, binary=True).fetchall()
    found: dict[int, PcaBasis] = {}
    for basis_id, matrix, mean, variance_kept, samples in rows:
        if mean and matrix and len(mean) % 4 == 0 and len(matrix) % len(mean) == 0:
            about = np.frombuffer(mean, "<f4")
            axes = np.frombuffer(matrix, "<f4").reshape(-1, about.size)
            found[basis_id] = PcaBasis(axes, about, variance_kept, samples)
    return found


_READ: Final = """
SELECT basis_id, matrix, mean, variance_kept, samples FROM pca_bases
WHERE tenant_id = %(tenant)s AND basis_id = ANY (%(ids)s)
"""


def lock_fitting(tx: Connection, owner: UUID) -> None:
    """Lock the fitting of a tenant's own basis, or of shared ones, until the transaction ends.

    The caller draws the sample in other transactions, which commit first, and adds the basis in this one. A basis is
    therefore only added under the lock that its sample was drawn under. The transaction may be idle during the fit.
    """
    driver_connection(tx).execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (_lock_name(owner),))
    driver_connection(tx).execute(_MAY_BE_IDLE)


def try_lock_fitting(tx: Connection, owner: UUID) -> bool:
    """Lock like `lock_fitting`, or return False if another transaction has the lock."""
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%(name)s, 0))"
    is_locked = bool(fetch_value(tx, query, {"name": _lock_name(owner)}))
    driver_connection(tx).execute(_MAY_BE_IDLE)
    return is_locked


_MAY_BE_IDLE: Final = "SET LOCAL idle_in_transaction_session_timeout = '10min'"


def wait_for_fit(tx: Connection, owner: UUID) -> None:
    """Wait until the fit of the tenant's own basis, or of a shared one, that is in progress has committed or failed."""
    driver_connection(tx).execute("SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))", (_lock_name(owner),))


def _lock_name(owner: UUID) -> str:
    return "ebbing shared basis" if owner == SHARED else f"ebbing bases {owner}"


def add(tx: Connection, tenant_id: UUID, space_id: int, basis: PcaBasis, draw: Draw) -> int:
    """Insert a basis, which becomes the newest of its space. Return its id.

    Args:
        draw: The draw of its sample. `made_at` becomes the time of the draw.
    """
    values = {
        "tenant": tenant_id,
        "space": space_id,
        "matrix": basis.matrix.astype("<f4").tobytes(),
        "mean": basis.mean.astype("<f4").tobytes(),
        "kept": basis.variance_kept,
        "samples": basis.samples,
        "draw": draw.draw_id,
        "drawn_at": draw.drawn_at,
    }
    return int(fetch_value(tx, _ADD, values))


_ADD: Final = """
INSERT INTO pca_bases (tenant_id, space_id, matrix, mean, variance_kept, samples, draw_id, made_at)
VALUES (%(tenant)s, %(space)s, %(matrix)s, %(mean)s, %(kept)s, %(samples)s, %(draw)s, %(drawn_at)s) RETURNING basis_id
"""


def drop_unused(tx: Connection, tenant_id: UUID) -> int:
    """Delete a tenant's bases that no vector uses, except the newest of each space. Return the number deleted."""
    driver_connection(tx).execute(_LOCK, {"tenant": tenant_id, "ids": list_ids(tx, tenant_id)})
    return driver_connection(tx).execute(_DROP_UNUSED, {"tenant": tenant_id}).rowcount


_DROP_UNUSED: Final = """
DELETE FROM pca_bases AS basis WHERE tenant_id = %(tenant)s
  AND EXISTS (
    SELECT FROM pca_bases AS newer WHERE newer.tenant_id = %(tenant)s AND newer.space_id = basis.space_id
      AND newer.basis_id > basis.basis_id)
  AND NOT EXISTS (
    SELECT FROM archived_memories AS archived WHERE archived.tenant_id = %(tenant)s
      AND archived.space_id = basis.space_id AND archived.basis_id = basis.basis_id)
"""


def list_incomplete(tx: Connection, tenant_id: UUID, before: datetime) -> list[BasisInfo]:
    """Return a tenant's bases that may have been fitted on vectors deleted before the given time.

    A basis is omitted if its sample was drawn after `before`, if all its vectors existed at a check after `before`, or
    if they all exist now. Vectors deleted after such a check, for example by an edit, don't matter for `before`. The
    samples of superseded bases aren't stored, so a superseded basis without such a check is included. Zero vectors
    aren't counted, because bases are never fitted on them.

    The previous version of the service stores no draws, and its `made_at` is later than the draw: its bases are always
    included.
    """
    rows = driver_connection(tx).execute(_SPOILT, {"tenant": tenant_id, "before": before}).fetchall()
    return [BasisInfo(*row) for row in rows]


# Of a basis: whether it is the newest of its space and all vectors of its sample exist.
_IS_COMPLETE: Final = """
NOT EXISTS (
    SELECT FROM pca_bases AS newer WHERE newer.tenant_id = %(tenant)s AND newer.space_id = basis.space_id
      AND newer.basis_id > basis.basis_id)
  AND samples <= (
    SELECT count(*) FROM pca_samples AS sample
    WHERE sample.tenant_id = %(tenant)s AND sample.space_id = basis.space_id AND sample.draw_id = basis.draw_id
      AND l2_norm(vector) > 0)
"""
_SPOILT: Final = f"""
SELECT basis_id, space_id, variance_kept, samples, made_at FROM pca_bases AS basis
WHERE tenant_id = %(tenant)s AND (draw_id IS NULL
  OR (greatest(made_at, checked_at) < %(before)s AND NOT ({_IS_COMPLETE})))
ORDER BY basis_id
"""  # noqa: S608 - constants


def check_complete(tx: Connection, tenant_id: UUID, now: datetime) -> None:
    """Set `checked_at` of the tenant's bases whose vectors all exist, so that later edits don't make them outdated.

    Args:
        now: The time to record, read after the deletions and before this call.
    """
    driver_connection(tx).execute(_CHECK, {"tenant": tenant_id, "now": now})


_CHECK: Final = f"""
UPDATE pca_bases AS basis SET checked_at = %(now)s WHERE tenant_id = %(tenant)s AND {_IS_COMPLETE}
"""  # noqa: S608 - constants


def list_ids(tx: Connection, tenant_id: UUID) -> list[int]:
    """Return the ids of a tenant's bases."""
    return fetch_column(tx, _IDS, {"tenant": tenant_id})


_IDS: Final = "SELECT basis_id FROM pca_bases WHERE tenant_id = %(tenant)s"


def drop_bases(tx: Connection, tenant_id: UUID, basis_ids: Sequence[int]) -> int:
    """Delete the tenant's bases among these that none of its own vectors uses. Return the number deleted."""
    driver_connection(tx).execute(_LOCK, {"tenant": tenant_id, "ids": list(basis_ids)})
    return driver_connection(tx).execute(_DROP, {"tenant": tenant_id, "ids": list(basis_ids)}).rowcount


# Waits for transactions that write vectors reduced by these bases; the next statement sees what they have committed.
_LOCK: Final = "SELECT FROM pca_bases WHERE tenant_id = %(tenant)s AND basis_id = ANY (%(ids)s) FOR UPDATE"
_DROP: Final = """
DELETE FROM pca_bases AS basis WHERE tenant_id = %(tenant)s AND basis_id = ANY (%(ids)s)
  AND NOT EXISTS (
    SELECT FROM archived_memories AS archived WHERE archived.tenant_id = %(tenant)s
      AND archived.space_id = basis.space_id AND archived.basis_id = basis.basis_id)
"""


def retain(tx: Connection, tenant_id: UUID, basis_id: int) -> bool:
    """Keep a tenant's own basis from being deleted until the transaction ends; return False if it is gone."""
    return driver_connection(tx).execute(_RETAIN, {"tenant": tenant_id, "id": basis_id}).rowcount > 0


_RETAIN: Final = "SELECT FROM pca_bases WHERE tenant_id = %(tenant)s AND basis_id = %(id)s FOR KEY SHARE"


def share_shared_basis(tx: Connection, basis_id: int) -> None:
    """Keep a shared basis from being deleted until the transaction ends; the caller then checks that it still exists.

    Row-level security hides the basis from the tenants that use it, so an advisory lock replaces the row lock.
    """
    statement = "SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))"
    driver_connection(tx).execute(statement, (_use_name(basis_id),))


def lock_shared_bases(tx: Connection, basis_ids: Sequence[int]) -> None:
    """Wait until no transaction uses these shared bases for new vectors, and keep others from using them."""
    for basis_id in sorted(basis_ids):
        driver_connection(tx).execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (_use_name(basis_id),))
    driver_connection(tx).execute(_MAY_BE_IDLE)


def _use_name(basis_id: int) -> str:
    return f"ebbing use of basis {basis_id}"


def count_sample(tx: Connection, tenant_id: UUID, space_id: int) -> int:
    """Count the vectors in a tenant's sample of a space."""
    return int(fetch_value(tx, _COUNT_SAMPLE, {"tenant": tenant_id, "space": space_id}))


_COUNT_SAMPLE: Final = "SELECT count(*) FROM pca_samples WHERE tenant_id = %(tenant)s AND space_id = %(space)s"


def count_vectors(tx: Connection, tenant_id: UUID, space_id: int, most: int) -> int:
    """Count a tenant's vectors in a space, up to `most`."""
    return int(fetch_value(tx, _COUNT, {"tenant": tenant_id, "space": space_id, "most": most}))


_COUNT: Final = """
SELECT count(*) FROM (
  SELECT FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s LIMIT %(most)s
) AS found
"""


def draw_subjects(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> list[tuple[UUID, str | None]]:
    """Return randomly drawn memories with a vector in a space, each with its subject."""
    values = {"tenant": tenant_id, "space": space_id, "limit": limit}
    return driver_connection(tx).execute(_SUBJECTS, values, binary=True).fetchall()


_SUBJECTS: Final = """
SELECT drawn.memory_id, (
  SELECT subject FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = drawn.memory_id)
FROM (
  SELECT memory_id FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s
  ORDER BY random() LIMIT %(limit)s
) AS drawn
"""


def replace_sample(
    tx: Connection, tenant_id: UUID, space_id: int, memory_ids: Sequence[UUID], draw_id: UUID
) -> Vectors:
    """Replace a tenant's sample of a space with these memories' vectors, as far as they still exist, and return it.

    Vectors that another transaction is deleting are omitted: it couldn't see the new rows of the sample. Deletions that
    begin later wait until this transaction ends, and then find the rows.
    """
    values = {"tenant": tenant_id, "space": space_id, "ids": Uuids(memory_ids), "draw": draw_id}
    driver_connection(tx).execute(_FORGET_SAMPLE, values)
    driver_connection(tx).execute(_DRAW_SAMPLE, values)
    return read_sample(tx, tenant_id, space_id, len(memory_ids))


_FORGET_SAMPLE: Final = "DELETE FROM pca_samples WHERE tenant_id = %(tenant)s AND space_id = %(space)s"
_DRAW_SAMPLE: Final = """
INSERT INTO pca_samples (tenant_id, space_id, memory_id, subject, vector, draw_id)
SELECT %(tenant)s, %(space)s, known.memory_id, (
    SELECT subject FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = known.memory_id),
  known.embedding, %(draw)s
FROM embeddings AS known
WHERE known.tenant_id = %(tenant)s AND known.space_id = %(space)s AND known.memory_id = ANY (%(ids)s)
FOR KEY SHARE OF known SKIP LOCKED
"""


def redraw_sample(tx: Connection, tenant_id: UUID, space_id: int, draw_id: UUID) -> Vectors:
    """Give the remaining rows of a tenant's sample of a space the id of a new draw, and return their vectors.

    Rows that another transaction is deleting are omitted.
    """
    values = {"tenant": tenant_id, "space": space_id, "draw": draw_id}
    return decode_vectors(fetch_value(tx, _REDRAW, values, binary=True))


_REDRAW: Final = """
WITH drawn AS (
  UPDATE pca_samples SET draw_id = %(draw)s
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM pca_samples WHERE tenant_id = %(tenant)s AND space_id = %(space)s
    FOR UPDATE SKIP LOCKED))
  RETURNING vector
)
SELECT string_agg(halfvec_send(vector), '' ORDER BY random()) FROM drawn
"""


def read_sample(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> Vectors:
    """Return a tenant's sample of a space, or a random part of it, in random order, shape (n, dimensions)."""
    values = {"tenant": tenant_id, "space": space_id, "limit": limit}
    return decode_vectors(fetch_value(tx, _SAMPLE, values, binary=True))


_SAMPLE: Final = """
SELECT string_agg(halfvec_send(vector), '') FROM (
  SELECT vector FROM pca_samples WHERE tenant_id = %(tenant)s AND space_id = %(space)s
  ORDER BY random() LIMIT %(limit)s
) AS drawn
"""


def draw_tenants(tx: Connection, space_id: int, limit: int | None) -> list[UUID]:
    """Return the tenants whose searches use a space, in random order; all of them if `limit` is None."""
    return fetch_column(tx, _TENANTS_IN, {"space": space_id, "limit": limit}, binary=True)


_TENANTS_IN: Final = """
SELECT tenant_id FROM tenant_spaces WHERE space_id = %(space)s ORDER BY random() LIMIT %(limit)s::bigint
"""
