"""Store tombstones, which identify late data about erased subjects, and the ledger of erasures.

The ledger and the digest key are stored in the key store's schema, which dumps of the data don't include. After a
restore from a backup, the ledger lists the data that must be erased again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.late_arrivals import NameDigest
from app.store.core.binary_arrays import Uuids, driver_connection


def digest_key(tx: Connection, tenant_id: UUID, fresh: bytes) -> bytes:
    """Return the key for a tenant's digests of subjects and threads; store `fresh` as the key if there is none."""
    values = {"tenant": tenant_id, "key": fresh}
    tx.execute(_ADD_KEY, values)
    return bytes(tx.execute(_KEY, values).scalar_one())


_ADD_KEY: Final = text("""
INSERT INTO ebbing_keys.digest_keys (tenant_id, key) VALUES (:tenant, :key) ON CONFLICT DO NOTHING
""")
_KEY: Final = text("SELECT key FROM ebbing_keys.digest_keys WHERE tenant_id = :tenant")


def add(tx: Connection, tenant_id: UUID, erasure_id: UUID, names: Mapping[str, bytes], cut: str) -> None:
    """Add tombstones: from now on, arriving data about these subjects or threads is dropped up to the stream position.

    Args:
        names: Digests by `subject` or `thread`.
        cut: Last stream position that the erasure covers.
    """
    for what, digest in names.items():
        values = {
            "tenant": tenant_id,
            "what": what,
            "digest": digest,
            "cut": cut,
            "cut_ms": int(cut.partition("-")[0]),
            "erasure_id": erasure_id,
        }
        tx.execute(_ADD, values)


_ADD: Final = text("""
INSERT INTO tombstones AS known (tenant_id, what, digest, cut, cut_ms, erasure_id)
VALUES (:tenant, :what, :digest, :cut, :cut_ms, :erasure_id)
ON CONFLICT (tenant_id, what, digest) DO UPDATE
SET cut = excluded.cut, cut_ms = excluded.cut_ms, erasure_id = excluded.erasure_id, made_at = excluded.made_at
WHERE known.cut_ms <= excluded.cut_ms
""")


def latest_cut_ms(tx: Connection, tenant_id: UUID) -> int | None:
    """Return the time of the tenant's latest watermark in milliseconds since 1970; None without tombstones."""
    found: int | None = tx.execute(_LATEST, {"tenant": tenant_id}).scalar()
    return found


_LATEST: Final = text("SELECT max(cut_ms) FROM tombstones WHERE tenant_id = :tenant")


def find_cuts(tx: Connection, tenant_id: UUID, digests: Collection[bytes]) -> dict[NameDigest, str]:
    """Return the last position that the erasure covers, for each of these subjects or threads that was erased."""
    rows = driver_connection(tx).execute(_FIND_CUTS, {"tenant": tenant_id, "digests": list(digests)})
    return {(what, bytes(digest)): cut for what, digest, cut in rows}


_FIND_CUTS: Final = """
SELECT what, digest, cut FROM tombstones
WHERE tenant_id = %(tenant)s AND what IN ('subject', 'thread') AND digest = ANY (%(digests)s)
"""


def enter_in_ledger(
    tx: Connection,
    tenant_id: UUID,
    entries: Mapping[UUID, Sequence[UUID]],
    names: Mapping[str, bytes],
    cut: str,
    *,
    whole_tenant: bool = False,
) -> None:
    """Record a planned erasure in the ledger, which restores of the data don't overwrite, and advance the data's mark.

    The transaction is the tenant's.

    A second call for an erasure adds its new memories, such as memories that a hold protected until then, to the entry
    and moves the entry to the end of the ledger: a backup made between the calls has to replay the entry again.

    Args:
        entries: The memories by erasure: one erasure, or the deletions of a batch.
        names: Digest of the subject or thread that is erased completely, by `subject` or `thread`.
        cut: The erasure's watermark.
        whole_tenant: The erasure deletes the tenant; its entry lists no memories.
    """
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "erasure_ids": Uuids(list(entries)),
        "memory_ids": [f"{{{','.join(map(str, ids))}}}" for ids in entries.values()],
        "subject": names.get("subject"),
        "thread": names.get("thread"),
        "cut": cut,
        "whole_tenant": whole_tenant,
    }
    connection = driver_connection(tx)
    connection.execute(_LOCK_MARK)
    if connection.execute(_LEDGER, values).rowcount:
        # The new mark depends on the entries of all tenants; row-level security would hide other tenants' entries.
        connection.execute(_BIND, {"tenant": ""})
        connection.execute(_MARK, values)
        connection.execute(_BIND, {"tenant": str(tenant_id)})


# Serialise ledger writes: otherwise a dump could contain the mark of a later entry without the work of an earlier,
# still uncommitted one.
_LOCK_MARK: Final = "SELECT FROM ledger_mark FOR UPDATE"
_BIND: Final = "SELECT set_config('ebbing.tenant', %(tenant)s, true)"
# Don't advance the mark past earlier entries that still have to be replayed.
_MARK: Final = """
UPDATE ledger_mark AS mark SET seq = greatest(mark.seq, own.seq)
FROM (
  SELECT max(seq) AS seq FROM ebbing_keys.erasure_ledger
  WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(erasure_ids)s)
) AS own
WHERE NOT EXISTS (
  SELECT FROM ebbing_keys.erasure_ledger AS other
  WHERE other.seq > mark.seq AND other.seq < own.seq
    AND NOT (other.tenant_id = %(tenant)s AND other.erasure_id = ANY (%(erasure_ids)s)))
"""
_LEDGER: Final = """
INSERT INTO ebbing_keys.erasure_ledger AS known (tenant_id, erasure_id, subject, thread, memory_ids, cut,
  whole_tenant)
SELECT %(tenant)s, id, %(subject)s::bytea, %(thread)s::bytea, CAST(memory_ids AS uuid[]), %(cut)s, %(whole_tenant)s
FROM unnest(%(erasure_ids)s, %(memory_ids)s::text[]) AS given (id, memory_ids)
ON CONFLICT (tenant_id, erasure_id) DO UPDATE
SET seq = DEFAULT,
  memory_ids = ARRAY(SELECT DISTINCT id FROM unnest(known.memory_ids || excluded.memory_ids) AS id ORDER BY id)
WHERE NOT known.memory_ids @> excluded.memory_ids
"""


def erased_ids(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> list[UUID]:
    """Return the memories that the ledger lists for an erasure or for the deletions of a batch, in id order."""
    return list(tx.execute(_ERASED_IDS, {"tenant": tenant_id, "erasure_id": erasure_id}).scalar_one())


_ERASED_IDS: Final = text("""
SELECT ARRAY(
  SELECT DISTINCT unnest(memory_ids) FROM ebbing_keys.erasure_ledger
  WHERE tenant_id = :tenant AND (erasure_id = :erasure_id OR erasure_id IN (
    SELECT erasure_id FROM erasures WHERE tenant_id = :tenant AND batch_id = :erasure_id))
  ORDER BY 1)
""")


def names_of(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> dict[str, bytes]:
    """Return the digests in an erasure's ledger entry by `subject` or `thread`; empty without an entry."""
    row = tx.execute(_NAMES_OF, {"tenant": tenant_id, "erasure_id": erasure_id}).one_or_none()
    columns = {} if row is None else {"subject": row.subject, "thread": row.thread}
    return {what: bytes(digest) for what, digest in columns.items() if digest is not None}


_NAMES_OF: Final = text("""
SELECT subject, thread FROM ebbing_keys.erasure_ledger WHERE tenant_id = :tenant AND erasure_id = :erasure_id
""")
