"""Find subjects in whose texts a name or address of a person is mentioned, by rules and without a model.

A mention is a proposal: another person may have the name. Nothing is erased or exported because of it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.privacy.identities.mentions import MentionFinder
from app.domain.privacy.parameters import IdentityKind
from app.store.core import database
from app.store.memories import mentioned_names

ROWS_MAX: Final = 50_000
"""Maximum number of memories whose texts are compared, latest first."""
SECONDS_MAX: Final = 4.0
_PAGE: Final = 5_000


class SubjectMentions(NamedTuple):
    """A subject whose texts mention a name or an address.

    Attributes:
        kind: `person_name` or `street_address`: what most of these texts mention.
        memories: Number of memories about the subject that mention it.
    """

    subject: str | None
    kind: IdentityKind
    memories: int


@dataclass(frozen=True, slots=True)
class MentionSearch:
    """Subjects with mentions, most mentions first.

    Attributes:
        is_complete: False if the tenant has more memories than a search compares.
    """

    subjects: list[SubjectMentions]
    is_complete: bool


def find_mentions(tenant_id: UUID, name: str, *, but: str | None = None) -> MentionSearch:
    """Return the subjects in whose texts rules detect this name or address; None stands for memories without a subject.

    Args:
        name: A name of a person, or a street address.
        but: Subject whose own memories are omitted.
    """
    finder, tally = MentionFinder(name), Counter[tuple[str | None, IdentityKind]]()
    if not finder.words:
        return MentionSearch([], is_complete=True)
    after, count, until = None, 0, time.monotonic() + SECONDS_MAX
    while True:
        with database.tenant(tenant_id) as tx:
            page = mentioned_names.read_page(tx, tenant_id, finder.rarest_word, after, _PAGE)
        for subject, text in page.texts:
            if (subject is None or subject != but) and (kind := finder.find(text)) is not None:
                tally[subject, kind] += 1
        after, count = page.last_id, count + _PAGE
        if after is None or count >= ROWS_MAX or time.monotonic() >= until:
            return MentionSearch(_by_subject(tally), is_complete=after is None)


def _by_subject(tally: Counter[tuple[str | None, IdentityKind]]) -> list[SubjectMentions]:
    kinds: dict[str | None, Counter[IdentityKind]] = {}
    for (subject, kind), count in tally.items():
        kinds.setdefault(subject, Counter())[kind] += count
    found = [SubjectMentions(subject, each.most_common(1)[0][0], each.total()) for subject, each in kinds.items()]
    return sorted(found, key=lambda each: (-each.memories, each.subject or ""))
