"""Summarise what is stored about a subject, list subjects, and find subjects with names like a given one."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.ingest.roles import ROLES
from app.domain.privacy.name_parts.name_matching import SAME_NAME, NearName, match_names, rank_names, reorder_names
from app.domain.privacy.subject_names import fold_name, spelling_variants
from app.errors import FieldError, Invalid
from app.store.core import database
from app.store.core.paging import Page
from app.store.memories import subjects
from app.store.memories.subjects import Hiding, SubjectCount

NAMES_MAX: Final = 200_000
"""Maximum number of subjects that a search compares."""
SECONDS_MAX: Final = 4.0
"""Time after which a search compares no further subjects."""
SPEAKERS_MAX: Final = 50_000
NEAR_MAX: Final = 5
SPELLINGS_MAX: Final = 100
"""Maximum number of other spellings of a name that are compared."""
_NAMES_A_PAGE: Final = 5_000

get = database.in_tenant(subjects.read)
"""Return the counts for a subject."""


@dataclass(frozen=True, slots=True)
class NameSearch:
    """Result of a search for a subject's name.

    Attributes:
        subjects: Subjects with this or a similar name, closest first.
        is_complete: False if the tenant has more subjects than a search compares; then spellings
            that differ only in case are found only if they are usual, such as upper case.
    """

    subjects: list[NearName]
    is_complete: bool


def list_subjects(tenant_id: UUID, after: UUID | None, limit: int) -> Page[SubjectCount]:
    """Return a page of a tenant's subjects in order of their names.

    Args:
        after: Key of the previous page, which is the id of a memory.

    Raises:
        Invalid: That memory was erased.
    """
    with database.tenant(tenant_id) as tx:
        page = subjects.list_subjects(tx, tenant_id, after, limit)
    if page is None:
        raise Invalid(errors=[FieldError("cursor", "refers to a subject that was erased: start from the first page")])
    return page


def search_subjects(tenant_id: UUID, name: str, limit: int) -> NameSearch:
    """Find the subjects with this name or a similar one, ignoring differences of case and Unicode form."""
    folded, by_speaker = fold_name(name), unicodedata.normalize("NFKC", name).strip().lower()
    usual = [variant for order in (name, *reorder_names(name)) for variant in (order, *spelling_variants(order))]
    with database.tenant(tenant_id) as tx:
        variants = [known.subject for known in subjects.count_memories(tx, tenant_id, usual)]
        speakers = []
        if folded not in ROLES:
            speakers = subjects.find_by_speaker(tx, tenant_id, by_speaker, SPEAKERS_MAX)
    names = _NameReader(tenant_id)
    best = rank_names([*match_names(name, chain(variants, names)), *(NearName(each, "speaker") for each in speakers)])
    with database.tenant(tenant_id) as tx:
        counted = {
            known.subject: known.memories
            for known in subjects.count_memories(tx, tenant_id, [each.subject for each in best[: 10 * limit]])
        }
    known_names = (each._replace(memories=counted[each.subject]) for each in best if each.subject in counted)
    return NameSearch(rank_names(known_names)[:limit], names.is_complete)


def find_near(tenant_id: UUID, subject: str | None) -> list[NearName] | None:
    """Return subjects with names like an unknown subject's; None if memories about the subject are stored.

    Args:
        subject: The name; None for a request without a subject, which also returns None.
    """
    if subject is None:
        return None
    with database.tenant(tenant_id) as tx:
        if subjects.is_known(tx, tenant_id, subject):
            return None
    return search_subjects(tenant_id, subject, NEAR_MAX).subjects


def find_other_spellings(tenant_id: UUID, subject: str | None, *, to_erase: bool = False) -> list[NearName]:
    """Return other stored subjects with the same name in another case, Unicode form, spelling or order, closest first.

    An export or erasure of a subject doesn't cover them, although they may be the same person.

    Args:
        subject: The name; None for a request without a subject, which returns nothing.
        to_erase: Only subjects that no open erasure covers completely.
    """
    if subject is None:
        return []
    found = search_subjects(tenant_id, subject, SPELLINGS_MAX).subjects
    others = [each for each in found if each.likeness in SAME_NAME and each.subject != subject]
    if to_erase and others:
        with database.tenant(tenant_id) as tx:
            erased = subjects.list_in_erasure(tx, tenant_id, [each.subject for each in others])
        others = [each for each in others if each.subject not in erased]
    return others[:NEAR_MAX]


class OtherSpellings(NamedTuple):
    """Memories about subjects whose names are other spellings of a name.

    Attributes:
        memories: Number of visible memories.
        subjects: Number of subjects with visible memories.
        complete: False if the tenant has more subjects than a search compares.
        hidden: The erasures and quarantines that hide further memories, with their numbers.
    """

    memories: int
    subjects: int
    complete: bool
    hidden: Sequence[Hiding]


def count_other_spellings(tenant_id: UUID, subject: str, *, but: UUID) -> OtherSpellings:
    """Count the memories about other subjects with this name in another spelling, case or order.

    Args:
        but: Id of an erasure whose hidden memories aren't counted.
    """
    found = search_subjects(tenant_id, subject, SPELLINGS_MAX)
    others = [each.subject for each in found.subjects if each.likeness in SAME_NAME and each.subject != subject]
    with database.tenant(tenant_id) as tx:
        visible = [each.memories - each.hidden for each in subjects.count_memories(tx, tenant_id, others)]
        hidden = subjects.count_hidden(tx, tenant_id, others, but)
    return OtherSpellings(sum(visible), sum(1 for count in visible if count), found.is_complete, hidden)


class _NameReader:
    """Iterates over a tenant's subjects, in short transactions, up to `NAMES_MAX` names or `SECONDS_MAX` seconds.

    Attributes:
        is_complete: False if the iteration stopped early.
    """

    def __init__(self, tenant_id: UUID) -> None:
        self.is_complete = True
        self._tenant_id = tenant_id

    def __iter__(self) -> Iterator[str]:
        after, count, until = None, 0, time.monotonic() + SECONDS_MAX
        while True:
            with database.tenant(self._tenant_id) as tx:
                names = subjects.list_names(tx, self._tenant_id, after, _NAMES_A_PAGE)
            yield from names
            if len(names) < _NAMES_A_PAGE:
                return
            after, count = names[-1], count + len(names)
            if count >= NAMES_MAX or time.monotonic() >= until:
                self.is_complete = False
                return
