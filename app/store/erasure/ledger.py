"""The ledger of erasures against this database: which of its entries an older copy of the data has yet to follow.

Entries lie in the key store's schema, apart from dumps of the data; the data's mark says up to which it has done what
they say. Marks and entries grow in the order of commits, so a dump has a mark that is true of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from app.domain.privacy.erasure import Named
from app.store.core.packed import Uuids, driver

PAGE: Final = 5000


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the data has followed the ledger.

    Attributes:
        mark: Up to which entry it has.
        newest: The ledger's last entry; 0 where there is none.
        waiting: Entries after the mark.
        requests: How many requests of erasures, legal holds, and ends of either it doesn't know; less than 0 where it
            knows of more.
    """

    mark: int
    newest: int
    waiting: int
    requests: int

    @property
    def is_behind(self) -> bool:
        """Whether there is something to replay."""
        return self.waiting > 0 or self.requests > 0


@dataclass(frozen=True, slots=True)
class Entered:
    """What was to be erased, and up to which place of the stream.

    Attributes:
        digests: Of the subject or the thread, where it was of all of one.
        memory_ids: What was found then.
    """

    seq: int
    tenant_id: UUID
    erasure_id: UUID
    digests: dict[Named, bytes]
    memory_ids: list[UUID]
    cut: str


def standing(tx: Connection) -> Standing | None:
    """How far the data has followed the ledger; None where either isn't there."""
    if not tx.execute(_ARE_THERE).scalar():
        return None
    return Standing(*tx.execute(_STANDING).one())


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


def following(tx: Connection, seq: int) -> Entered | None:
    """The first entry after one."""
    row = tx.execute(_FOLLOWING, {"seq": seq}).one_or_none()
    if row is None:
        return None
    named: dict[Named, bytes | None] = {"subject": row.subject, "thread": row.thread}
    digests = {what: bytes(digest) for what, digest in named.items() if digest is not None}
    return Entered(row.seq, row.tenant_id, row.erasure_id, digests, list(row.memory_ids or ()), row.cut)


_FOLLOWING: Final = text("""
SELECT seq, tenant_id, erasure_id, subject, thread, memory_ids, cut FROM ebbing_keys.erasure_ledger
WHERE seq > :seq ORDER BY seq LIMIT 1
""")


def advance(tx: Connection, seq: int) -> None:
    """Note that what an entry says is done, and all before it."""
    tx.execute(_ADVANCE, {"seq": seq})


_ADVANCE: Final = text("UPDATE ledger_mark SET seq = greatest(seq, :seq)")


def set_back(tx: Connection) -> None:
    """Let the marks be at the end of ledger and requests, where these are older than the data knows."""
    tx.execute(_SET_BACK)


_SET_BACK: Final = text("""
UPDATE ledger_mark SET seq = least(seq, (SELECT coalesce(max(seq), 0) FROM ebbing_keys.erasure_ledger)),
  requests = least(requests, (SELECT seq FROM ebbing_keys.request_mark))
""")


def digest_key(tx: Connection, tenant_id: UUID) -> bytes | None:
    """The key of a tenant's digests; None where the key store has none."""
    key = tx.execute(_KEY, {"tenant": tenant_id}).scalar()
    return None if key is None else bytes(key)


_KEY: Final = text("SELECT key FROM ebbing_keys.digest_keys WHERE tenant_id = :tenant")


def names(tx: Connection, tenant_id: UUID, what: Named) -> Iterator[str]:
    """Return every subject, or thread, of a tenant's recorded searches and memories, hidden and deleted ones too."""
    after: str | None = None
    while True:
        found = tx.execute(_NAMES[what], {"tenant": tenant_id, "after": after, "limit": PAGE}).scalars().all()
        yield from found
        if len(found) < PAGE:
            return
        after = found[-1]


def _names(*sources: str) -> TextClause:
    """Return SQL for the names in these columns, each `table.column`, in pages."""
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
    """What came in and could not be stored, one by one: each may have some megabytes."""
    letter_ids = tx.execute(_LETTERS, {"tenant": tenant_id}).scalars().all()
    for letter_id in letter_ids:
        yield bytes(tx.execute(_LETTER, {"tenant": tenant_id, "letter_id": letter_id}).scalar() or b"")


_LETTERS: Final = text("SELECT letter_id FROM dead_letters WHERE tenant_id = :tenant AND payload IS NOT NULL")
_LETTER: Final = text("SELECT payload FROM dead_letters WHERE tenant_id = :tenant AND letter_id = :letter_id")


def still_there(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Those of these memories that the data has, in id order."""
    found = driver(tx).execute(_STILL_THERE, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [memory_id for (memory_id,) in found]


_STILL_THERE: Final = """
SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) ORDER BY memory_id
"""
