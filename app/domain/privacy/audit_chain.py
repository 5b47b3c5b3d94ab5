"""The hash chain of the audit log: each entry's hash covers the entry and the hash of its predecessor.

A chain alone doesn't reveal that its last entries are missing, or that all of it was rewritten. The number and
hash of the last entry are also stored separately (the head), which reveals missing last entries. An anchor, a position
recorded elsewhere, reveals a rewritten chain.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple
from uuid import UUID

import msgspec

Action = Literal[
    "tenant_made",
    "key_made",
    "key_revoked",
    "policy_set",
    "letters_replayed",
    "letters_discarded",
    "job_started",
    "hold_placed",
    "hold_released",
    "hold_corrected",
    "quarantine_placed",
    "quarantine_lifted",
    "memories_quarantined",
    "tier_moved",
    "memories_deleted",
    "memories_restored",
    "memories_superseded",
    "supersession_rejected",
    "erasure_requested",
    "erasure_cancelled",
    "memories_erased",
    "erasure_verified",
    "memories_merged",
    "merge_undone",
    "merge_rejected",
    "expiry_noticed",
    "memories_expired",
    "export_requested",
    "export_fetched",
    "export_removed",
    "tenant_dumped",
    "import_started",
    "import_ended",
    "request_answered",
    "erasure_replayed",
    "memory_anonymised",
    "memory_promoted",
    "memory_demoted",
    "operator_acted",
    "identity_checked",
    "request_extended",
    "extension_notified",
    "request_partly_answered",
    "retention_set",
    "retention_removed",
    "texts_reviewed",
    "request_recorded",
    "receipt_confirmed",
    "webhook_created",
    "webhook_changed",
    "webhook_deleted",
    "webhook_disabled",
    "webhook_replayed",
    "webhook_secret_rotated",
]

SYSTEM: Final = "system"
"""Actor of automatic actions, such as nightly maintenance."""
CLI: Final = "cli"
"""Actor with direct database access on the service's machine."""

NOTHING: Final = bytes(32)
"""Previous hash of the first entry."""

Detail = int | str | bool | Sequence[str] | None

_FORM: Final = "ebbing-audit-1"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Ids, times and fixed words match; a sentence, a name with a space or an e-mail address doesn't.
_WORD: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
_WHOLE_MAX: Final = 2**53


class ChainPosition(NamedTuple):
    """Position in the chain: an entry's number and its hash, which covers all earlier entries."""

    seq: int
    hash: bytes


START: Final = ChainPosition(0, NOTHING)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An audit entry.

    Attributes:
        seq: 1 for a tenant's first entry.
        at: Time of the action, by the database's clock.
        actor: Id of the API key or operator that performed the action, `system` or `cli`.
        action: An `Action`, possibly of another version.
        subject: Keyed digest of the subject, if there is one.
        items: Number of items affected.
        digest: `digest_ids` of the items' ids, if they have any.
        details: Numbers, ids and fixed words.
        previous: Hash of the preceding entry.
        hash: Hash over all other fields, set by `seal_entry`.
    """

    tenant_id: UUID
    seq: int
    at: datetime
    actor: str
    action: str
    subject: bytes | None
    items: int
    digest: bytes | None
    details: Mapping[str, Detail]
    previous: bytes
    hash: bytes = b""

    @property
    def place(self) -> ChainPosition:
        """Position of the entry in the chain."""
        return ChainPosition(self.seq, self.hash)


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """The first invalid entry: its number and the reason."""

    seq: int
    why: str


def canonical_bytes(entry: AuditEntry) -> bytes:
    """Return the canonical bytes of an entry without `hash` and `previous`: equal entries have equal bytes."""
    fields = (
        _FORM,
        entry.tenant_id,
        entry.seq,
        (entry.at - _EPOCH) // timedelta(microseconds=1),
        entry.actor,
        entry.action,
        entry.subject and entry.subject.hex(),
        entry.items,
        entry.digest and entry.digest.hex(),
        entry.details,
    )
    return msgspec.json.encode(fields, order="sorted")


def seal_entry(entry: AuditEntry) -> AuditEntry:
    """Return the entry with its hash: SHA-256 over the previous hash and the canonical bytes."""
    return replace(entry, hash=hashlib.sha256(entry.previous + canonical_bytes(entry)).digest())


def digest_ids(ids: Iterable[UUID]) -> bytes:
    """Return SHA-256 over the sorted, unique ids, so that their order doesn't change the digest."""
    return hashlib.sha256(b"".join(sorted({item.bytes for item in ids}))).digest()


def subject_digest(key: bytes, subject: str) -> bytes:
    """Return the keyed digest of a subject, which can't be guessed without the key."""
    return hmac.digest(key, subject.encode(), "sha256")


def check_details(details: Mapping[str, Detail]) -> dict[str, Detail]:
    """Return the details if they contain only whole numbers, ids and words.

    Raises:
        ValueError: A value could be memory content; the message doesn't contain the value.
    """
    for name, value in details.items():
        if not all(map(_is_harmless, value if isinstance(value, list | tuple) else (value,))):
            message = f"{name!r} of an audit entry is neither a whole number nor a word"
            raise ValueError(message)
    return dict(details)


def _is_harmless(value: object) -> bool:
    if isinstance(value, str):
        return is_word(value)
    return value is None or (isinstance(value, int) and abs(value) < _WHOLE_MAX)


def is_word(value: str) -> bool:
    """Return whether an audit entry may contain this string: an id, a time or a fixed word."""
    return _WORD.fullmatch(value) is not None


def find_broken(entries: Iterable[AuditEntry], after: ChainPosition) -> tuple[ChainPosition, BrokenEntry | None]:
    """Verify a section of a chain.

    Args:
        entries: Entries of the section, in order.
        after: Last position of the preceding section.

    Returns:
        The last valid position, and the first invalid entry, if any.
    """
    place = after
    for entry in entries:
        fault = _find_fault(entry, place)
        if fault is not None:
            return place, fault
        place = entry.place
    return place, None


def _find_fault(entry: AuditEntry, before: ChainPosition) -> BrokenEntry | None:
    if entry.seq != before.seq + 1:
        return BrokenEntry(before.seq + 1, "it is missing")
    if not hmac.compare_digest(entry.previous, before.hash):
        return BrokenEntry(entry.seq, "its stored previous hash doesn't match the preceding entry")
    if not hmac.compare_digest(seal_entry(entry).hash, entry.hash):
        return BrokenEntry(entry.seq, "it was altered after it was written")
    return None


def check_end(place: ChainPosition, head: ChainPosition, last_seq: int) -> BrokenEntry | None:
    """Return the fault at the end of a chain whose entries are valid so far, or None.

    Args:
        place: Position of the last valid entry. The caller has verified only entries up to the head.
        head: Stored end of the chain.
        last_seq: Highest number of any stored entry.
    """
    if place.seq < head.seq:
        return BrokenEntry(place.seq + 1, "it is missing at the end of the chain")
    if place.hash != head.hash:
        return BrokenEntry(head.seq, "its hash doesn't match the stored end of the chain")
    if last_seq > head.seq:
        return BrokenEntry(head.seq + 1, "it lies beyond the stored end of the chain, so the service didn't write it")
    return None


def format_anchor(place: ChainPosition) -> str:
    """Return a position as text, to be recorded elsewhere: `12:` and 64 hexadecimal digits."""
    return f"{place.seq}:{place.hash.hex()}"


def read_anchor(text: str) -> ChainPosition | None:
    """Return the position of a recorded anchor, or None if the text isn't an anchor."""
    match = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    return ChainPosition(int(match[1]), bytes.fromhex(match[2])) if match else None
