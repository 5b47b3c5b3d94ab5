"""Select candidates for consolidation: groups of similar memories that contain at least one new memory.

A memory counts as new once when it passes the age up to which young memories are protected, once when it becomes old,
and after each edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from app.domain.consolidation import clustering
from app.domain.consolidation.clustering import ComparedMemories
from app.domain.consolidation.group_types import Group
from app.domain.consolidation.nearest_neighbours import Ids, Nearest
from app.domain.consolidation.parameters import Consolidation
from app.domain.ingest.ids import first_uuid
from app.store.consolidation import merge_candidates
from app.store.consolidation.merge_candidates import CandidateMarks
from app.store.core import database
from app.store.core.database import Transaction
from app.store.embedding import embedding_spaces

__all__ = ["CandidateMarks", "CandidateSlice", "find_groups"]

SLICE: Final = 1000
"""Number of new memories compared per slice."""
PIECE: Final = 4096
"""Number of memories whose vectors are loaded at a time for comparison with the new ones."""
BREADTH: Final = 2
"""Oversampling factor: neighbours fetched by cosine per neighbour selected by the more specific grouping distance."""
_FIRST: Final = datetime(1970, 1, 2, tzinfo=UTC)  # ids can't encode earlier times
EDIT_SETTLES: Final = timedelta(hours=1)
"""Settling time of an edit: by then it is committed and its memory is embedded again."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CandidateSlice:
    """The result of one slice.

    Attributes:
        groups: Disjoint groups, each containing a new memory.
        new: Number of new memories compared.
        marks: Watermarks to store in the transaction that records the groups' outcome.
        finished: Whether no new memories are left as of the run's time.
    """

    groups: list[Group]
    new: int
    marks: CandidateMarks
    finished: bool


def find_groups(tenant_id: UUID, as_of: datetime, marks: CandidateMarks, rules: Consolidation) -> CandidateSlice:
    """Group up to `SLICE` new memories with their neighbours.

    All are active, embedded in the searched space, created by callers and older than `keep_days`; memories under legal
    hold are included. A memory is new once when it reaches that age, once when it is older than `summarise_after_days`,
    and one hour after each edit.

    Args:
        as_of: Time of the run.
        marks: Watermarks of the previous slice.
    """
    as_of = max(as_of, _FIRST)
    young = _id_bound(as_of, rules.keep_days)
    until = as_of - EDIT_SETTLES
    if marks.old is None or marks.edited_at is None:  # first run: these are already new as settled memories
        old = _id_bound(as_of, max(rules.keep_days, rules.summarise_after_days))
        marks = replace(marks, old=marks.old or old, edited_at=marks.edited_at or until)
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if there is None:
            return CandidateSlice([], 0, marks, finished=True)
        space_id = there.searched.space_id
        new, marks, finished = _next_memories(tx, tenant_id, space_id, as_of, marks, rules)
        compared = merge_candidates.read(tx, tenant_id, space_id, new, new)
        near = _nearest(tx, tenant_id, space_id, compared, young, rules) if compared.ids else np.empty(0, "S16")
        if near.size:
            every = np.union1d(near, _packed(compared.ids))
            compared = merge_candidates.read(tx, tenant_id, space_id, every, compared.ids)
    return CandidateSlice(_grouped(tenant_id, compared, rules), int(compared.is_new.sum()), marks, finished)


def _id_bound(as_of: datetime, days: float) -> UUID:
    """Return the exclusive upper bound of the ids of memories accepted at least this many days earlier."""
    return first_uuid(max(int((as_of.timestamp() - days * 86_400) * 1000), 0))


def _next_memories(
    tx: Transaction, tenant_id: UUID, space_id: int, as_of: datetime, marks: CandidateMarks, rules: Consolidation
) -> tuple[list[UUID], CandidateMarks, bool]:
    """Return the next new memories without duplicates, the advanced watermarks, and whether no more are left."""
    young = _id_bound(as_of, rules.keep_days)
    old = _id_bound(as_of, max(rules.keep_days, rules.summarise_after_days))
    settled = merge_candidates.list_accepted(tx, tenant_id, space_id, after=marks.settled, before=young, limit=SLICE)
    if len(settled) == SLICE:
        return settled, replace(marks, settled=settled[-1]), False
    marks, left = replace(marks, settled=max(marks.settled, young)), SLICE - len(settled)
    aged = merge_candidates.list_accepted(tx, tenant_id, space_id, after=marks.old or old, before=old, limit=left)
    if len(aged) == left:
        return _unique(settled, aged), replace(marks, old=aged[-1]), False
    marks, left = replace(marks, old=max(marks.old or old, old)), left - len(aged)
    until = as_of - EDIT_SETTLES
    edits = merge_candidates.list_edited(tx, tenant_id, space_id, marks, until=until, before=young, limit=left)
    if edits:
        edited_id, edited_at = edits[-1]
        marks = replace(marks, edited_at=edited_at, edited_id=edited_id)
    return _unique(settled, aged, [memory_id for memory_id, _ in edits]), marks, len(edits) < left


def _unique(*ids: list[UUID]) -> list[UUID]:
    return list(dict.fromkeys(memory_id for some in ids for memory_id in some))


def _nearest(
    tx: Transaction, tenant_id: UUID, space_id: int, new: ComparedMemories, before: UUID, rules: Consolidation
) -> Ids:
    """Return the existing memories that are nearest neighbours of a new one and above the cosine threshold."""
    rows: dict[str | None, list[int]] = {}
    for row, subject in enumerate(new.subjects):
        rows.setdefault(subject, []).append(row)
    nearest = Nearest(new.vectors, BREADTH * rules.neighbours, clustering.cosine_above(rules))
    there = merge_candidates.list_neighbour_candidates(tx, tenant_id, list(rows), before=before)
    own = _packed(new.ids)
    for piece in _pieces([(subject, ids[~np.isin(ids, own)]) for subject, ids in there]):
        every = np.concatenate([ids for _, ids in piece])
        found, vectors = merge_candidates.read_vectors(tx, tenant_id, space_id, every)
        for subject, ids in piece:
            which = np.flatnonzero(np.isin(found, ids)) if len(piece) > 1 else np.arange(len(found))
            if which.size:
                nearest.compare(np.array(rows[subject]), found[which], vectors[which] if len(piece) > 1 else vectors)
    return nearest.matched_ids()


def _pieces(there: Sequence[tuple[str | None, Ids]]) -> Iterator[list[tuple[str | None, Ids]]]:
    """Split ids into batches of `PIECE`, combining small subjects and dividing large ones."""
    piece: list[tuple[str | None, Ids]] = []
    room = PIECE
    for subject, ids in there:
        rest = ids
        while rest.size:
            piece.append((subject, rest[:room]))
            taken = piece[-1][1].size
            rest, room = rest[taken:], room - taken
            if not room:
                yield piece
                piece, room = [], PIECE
    if piece:
        yield piece


def _packed(ids: Sequence[UUID]) -> NDArray[np.bytes_]:
    return np.frombuffer(b"".join(memory_id.bytes for memory_id in ids), "S16")


def _grouped(tenant_id: UUID, compared: ComparedMemories, rules: Consolidation) -> list[Group]:
    if clustering.applied_method(rules, len(compared.ids)) != rules.method:
        log.warning("too_many_for_hdbscan", tenant=str(tenant_id), memories=len(compared.ids))
    return clustering.group_memories(compared, rules)
