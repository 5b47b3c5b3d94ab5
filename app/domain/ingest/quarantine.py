"""A requested quarantine: everything that an API key or a source wrote in a period, hidden until it is lifted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec

from app.domain.ingest.memory import Moment, check_moment
from app.domain.ingest.sources import Source, Writer
from app.domain.privacy.legal_hold import TEXT
from app.errors import FieldError, Invalid

KEY_ID_MAX_CHARACTERS = 64


class NewQuarantine(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A quarantine of what an API key or a source wrote.

    Attributes:
        key_id: Everything that this API key wrote or changed.
        source: Everything of this source; not together with `key_id`.
        after: Only what was written at this time or later.
        before: Only what was written before this time; default: now. It must not be in the future.
        confirm: Hide the memories; without it, they are only counted.
    """

    key_id: Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_ID_MAX_CHARACTERS, pattern=TEXT)] | None = None
    source: Source | None = None
    after: Moment | None = None
    before: Moment | None = None
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions of a quarantine: a key or a source, and the period, whose end is exclusive."""

    key_id: str | None
    source: Source | None
    after: datetime | None
    before: datetime

    def match_arrival(self, writer: Writer, accepted_ms: int) -> bool:
        """Return whether memories that arrive from a writer may match.

        In a quarantine of a source, memories of any writer may match: a memory's source can be lower than its writer's.
        """
        accepted = accepted_ms / 1000
        if accepted >= self.before.timestamp() or (self.after is not None and accepted < self.after.timestamp()):
            return False
        return self.source is not None or writer.key_id == self.key_id


def read_terms(given: NewQuarantine, now: datetime) -> Terms:
    """Return the conditions of a requested quarantine.

    Raises:
        Invalid: There is neither a key nor a source, or both, or the period is empty or ends in the future.
    """
    if (given.key_id is None) == (given.source is None):
        raise Invalid(errors=[FieldError("key_id", "give either key_id or source")])
    for name, moment in (("after", given.after), ("before", given.before)):
        if moment is not None:
            check_moment(moment, name)
    before = now if given.before is None else given.before
    if before > now:
        limit = now.isoformat(timespec="seconds")
        raise Invalid(errors=[FieldError("before", "must not be in the future", before.isoformat(), limit)])
    if given.after is not None and given.after >= before:
        raise Invalid(errors=[FieldError("after", "must be earlier than `before`", given.after.isoformat())])
    return Terms(given.key_id, given.source, given.after, before)
