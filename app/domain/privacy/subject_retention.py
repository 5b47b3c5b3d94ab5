"""A retention period that a tenant sets for a subject, for all memories about the subject or for one category."""

from __future__ import annotations

from typing import Annotated

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import LABEL_MAX_CHARACTERS, KeepDays
from app.domain.privacy.legal_hold import TEXT, StorableName


@precompile
class NewRetention(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Set or remove the retention period of a subject.

    Attributes:
        subject: The subject's name.
        keep_days: Days from each memory's acceptance, more than 0, up to 36,500; null removes the period.
        category: Only memories with this category, given by the caller; case is ignored. All memories if omitted.
    """

    subject: StorableName
    keep_days: KeepDays | None
    category: Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_MAX_CHARACTERS, pattern=TEXT)] | None = None
