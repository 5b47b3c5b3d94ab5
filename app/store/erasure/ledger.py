"""Compare the erasure ledger with this database, to find the entries that a restored backup still has to replay.

Ledger entries are stored in the key store's schema, which dumps of the data don't include. The data's mark is the
number of the last entry that has been applied to the data. Marks and entry numbers increase in commit order, so the
mark in any dump is correct for that dump.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from app.domain.privacy.erasure import Named
from app.store.core.binary_arrays import Uuids, fetch_column

PAGE: Final = 5000


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """Replay status of the data against the ledger.

    Attributes:
        mark: Number of the last entry that has been applied to the data.
        newest: Number of the ledger's last entry; 0 if the ledger is empty.
        waiting: Number of entries after the mark.
        requests: Number of changes to requests and legal holds that are missing from the data; negative if the data has
            more changes than the key store.
    """

    mark: int
    newest: int
    waiting: int
    requests: int

    @property
    def is_behind(self) -> bool:
        """True if there is anything to replay."""
        return self.waiting > 0 or self.requests > 0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A ledger entry: the data to be erased and the stream watermark (`cut`).

    Attributes:
        digests: Digest of the subject or thread, if the erasure covered all of its data.
        memory_ids: The memories that the erasure found when it was planned.
        whole_tenant: The erasure deleted the tenant, so no memories are listed.
    """

    seq: int
    tenant_id: UUID
    erasure_id: UUID
    digests: dict[Named, bytes]
    memory_ids: list[UUID]
    cut: str
    whole_tenant: bool = False


def standing(tx: Connection) -> ReplayStatus | None:
    """Return the data's replay status, or None if the ledger or the mark doesn't exist."""
    if not tx.execute(_ARE_THERE).scalar():
        return None
    return ReplayStatus(*tx.execute(_STANDING).one())


_ARE_THERE: Final = text("""
SELECT to_regclass('ledger_mark') IS NOT NULL AND to_regclass('ebbing_keys.erasure_ledger') IS NOT NULL
  AND to_regclass('ebbing_keys.request_mark') IS NOT NULL AND to_regclass('ebbing_keys.kept_holds') IS NOT NULL
""")
_STANDING: Final = text("""
SELECT mark.seq, coalesce(max(known.seq), 0), count(*) FILTER (WHERE known.seq > mark.seq),
  (SELECT seq FROM ebbing_keys.request_mark) - coalesce((SELECT requests FROM ledger_mark), 0)
FROM (SELECT coalesce((SELECT seq FROM ledger_mark), 0) AS seq) AS mark
LEFT JOIN ebbing_keys.erasure_ledger AS known ON true
GROUP BY mark.seq
""")


def next_entry(tx: Connection, seq: int) -> LedgerEntry | None:
    """Return the first entry after the entry with this number, or None if there is none."""
    row = tx.execute(_FOLLOWING, {"seq": seq}).one_or_none()
    if row is None:
        return None
    columns: dict[Named, bytes | None] = {"subject": row.subject, "thread": row.thread}
    digests = {what: bytes(digest) for what, digest in columns.items() if digest is not None}
    memory_ids = list(row.memory_ids or ())
    return LedgerEntry(row.seq, row.tenant_id, row.erasure_id, digests, memory_ids, row.cut, row.whole_tenant)


_FOLLOWING: Final = text("""
SELECT seq, tenant_id, erasure_id, subject, thread, memory_ids, cut, whole_tenant FROM ebbing_keys.erasure_ledger
WHERE seq > :seq ORDER BY seq LIMIT 1
""")


def advance(tx: Connection, seq: int) -> None:
    """Record that all ledger entries up to this number have been applied to the data."""
    tx.execute(_ADVANCE, {"seq": seq})


_ADVANCE: Final = text("UPDATE ledger_mark SET seq = greatest(seq, :seq)")


def set_back(tx: Connection) -> None:
    """Lower the data's marks to the key store's last entry and last change if the key store is older than the data."""
    tx.execute(_SET_BACK)


_SET_BACK: Final = text("""
UPDATE ledger_mark SET seq = least(seq, (SELECT coalesce(max(seq), 0) FROM ebbing_keys.erasure_ledger)),
  requests = least(requests, (SELECT seq FROM ebbing_keys.request_mark))
""")


def digest_key(tx: Connection, tenant_id: UUID) -> bytes | None:
    """Return the key for a tenant's digests of names, or None if the key store has none."""
    key = tx.execute(_KEY, {"tenant": tenant_id}).scalar()
    return None if key is None else bytes(key)


_KEY: Final = text("SELECT key FROM ebbing_keys.digest_keys WHERE tenant_id = :tenant")


def names(tx: Connection, tenant_id: UUID, what: Named) -> Iterator[str]:
    """Yield every subject or thread in a tenant's recorded searches and memories (hidden and deleted ones too)."""
    after: str | None = None
    while True:
        page = tx.execute(_NAMES[what], {"tenant": tenant_id, "after": after, "limit": PAGE}).scalars().all()
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1]


def _names(*sources: str) -> TextClause:
    """Return SQL for a page of the distinct values of these columns (`table.column`), in order."""
    pages = " UNION ".join(
        f"(SELECT DISTINCT {column} FROM {table} WHERE tenant_id = :tenant AND {column} IS NOT NULL "  # noqa: S608
        f"AND (CAST(:after AS text) IS NULL OR {column} > :after) ORDER BY {column} LIMIT :limit)"
        for table, column in (source.split(".") for source in sources)
    )
    return text(f"{pages} ORDER BY 1 LIMIT :limit")


_NAMES: Final[dict[Named, TextClause]] = {
    "subject": _names("memories.subject", "recorded_searches.subject"),
    "thread": _names("memories.thread", "recorded_searches.thread"),
}


def letters(tx: Connection, tenant_id: UUID) -> Iterator[bytes]:
    """Yield the payloads of a tenant's dead letters one at a time, because each may have several megabytes."""
    letter_ids = tx.execute(_LETTERS, {"tenant": tenant_id}).scalars().all()
    for letter_id in letter_ids:
        yield bytes(tx.execute(_LETTER, {"tenant": tenant_id, "letter_id": letter_id}).scalar() or b"")


_LETTERS: Final = text("SELECT letter_id FROM dead_letters WHERE tenant_id = :tenant AND payload IS NOT NULL")
_LETTER: Final = text("SELECT payload FROM dead_letters WHERE tenant_id = :tenant AND letter_id = :letter_id")


def still_there(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the memories among these that exist in the data, in id order."""
    return fetch_column(tx, _STILL_THERE, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_STILL_THERE: Final = """
SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) ORDER BY memory_id
"""
