"""The audit's chain: each entry is sealed by a hash over itself and the hash of the one before.

What a chain alone can't tell: that its last entries are missing, or that all of it was written anew. For the first
its head is kept beside it; for the second somebody has to have noted a place of it elsewhere, an anchor.
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
    "request_answered",
    "erasure_replayed",
    "memory_anonymised",
    "operator_acted",
]

SYSTEM: Final = "system"
"""Who acts where nobody has asked: the nights."""
CLI: Final = "cli"
"""Who acts directly in the database, on the machine of the service."""

NOTHING: Final = bytes(32)
"""What the first entry has for the hash of the one before."""

Detail = int | str | bool | Sequence[str] | None

_FORM: Final = "ebbing-audit-1"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Ids, times and fixed words fit; a sentence, a name with a space or an e-mail address doesn't.
_WORD: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
_WHOLE_MAX: Final = 2**53


class Place(NamedTuple):
    """An entry's number and hash: all that is before hangs on it."""

    seq: int
    hash: bytes


START: Final = Place(0, NOTHING)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was done, by whom, and to how many.

    Attributes:
        seq: 1 for a tenant's first.
        at: By the database's clock.
        actor: Id of the key that asked for it, `system` or `cli`.
        action: An `Action`; those of other versions too.
        subject: Keyed digest of the subject, where it was about one.
        items: How many it was done to.
        digest: `digest_of` their ids, where they have any.
        details: Numbers, ids and fixed words.
        previous: Hash of the entry before.
        hash: `sealed` over all of these.
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
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.seq, self.hash)


@dataclass(frozen=True, slots=True)
class Broken:
    """The first entry that isn't as it was written: its number, and what is wrong."""

    seq: int
    why: str


def canonical(entry: Entry) -> bytes:
    """The bytes of all that an entry says, its hash left out: equal entries have equal bytes."""
    said = (
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
    return msgspec.json.encode(said, order="sorted")


def sealed(entry: Entry) -> Entry:
    """The entry with its hash: SHA-256 over the hash before and the canonical bytes."""
    return replace(entry, hash=hashlib.sha256(entry.previous + canonical(entry)).digest())


def digest_of(ids: Iterable[UUID]) -> bytes:
    """SHA-256 over ids in their order as numbers, so that it says which they were and not in which order they came."""
    return hashlib.sha256(b"".join(sorted({each.bytes for each in ids}))).digest()


def subject_digest(key: bytes, subject: str) -> bytes:
    """What stands for a subject: without the key, guessing is no way to find out whom it means."""
    return hmac.digest(key, subject.encode(), "sha256")


def checked(details: Mapping[str, Detail]) -> dict[str, Detail]:
    """The details as they are, if they hold nothing but whole numbers, ids and words.

    Raises:
        ValueError: One of them could be content; it isn't told.
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
    """Whether it may stand in an entry: an id, a time or a fixed word."""
    return _WORD.fullmatch(value) is not None


def first_broken(entries: Iterable[Entry], after: Place) -> tuple[Place, Broken | None]:
    """How far a stretch of a chain holds.

    Args:
        entries: In order.
        after: Where the stretch before has ended.

    Returns:
        The last place that holds, and the first entry that doesn't.
    """
    place = after
    for entry in entries:
        wrong = _wrong(entry, place)
        if wrong is not None:
            return place, wrong
        place = entry.place
    return place, None


def _wrong(entry: Entry, before: Place) -> Broken | None:
    if entry.seq != before.seq + 1:
        return Broken(before.seq + 1, "it is missing")
    if not hmac.compare_digest(entry.previous, before.hash):
        return Broken(entry.seq, "it doesn't follow the entry before, as that is now")
    if not hmac.compare_digest(sealed(entry).hash, entry.hash):
        return Broken(entry.seq, "it was altered after it was written")
    return None


def at_end(place: Place, head: Place, last_seq: int) -> Broken | None:
    """What is wrong where the entries end, those before being well.

    Args:
        place: The last entry up to the head's number.
        head: Where the chain says that it ends.
        last_seq: The highest number among all entries.
    """
    if place.seq < head.seq:
        return Broken(place.seq + 1, "it is missing, at the end of the chain")
    if place.hash != head.hash:
        return Broken(head.seq, "it isn't the one that was written last")
    if last_seq > head.seq:
        return Broken(head.seq + 1, "it wasn't entered by the service")
    return None


def anchor_of(place: Place) -> str:
    """A place in words, to be noted elsewhere: `12:` and 64 hexadecimal digits."""
    return f"{place.seq}:{place.hash.hex()}"


def read_anchor(text: str) -> Place | None:
    """The place that was noted; None where it is none."""
    found = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    return Place(int(found[1]), bytes.fromhex(found[2])) if found else None
