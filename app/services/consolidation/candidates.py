"""Select candidates for consolidation: groups of similar memories that contain at least one new memory.

A memory counts as new when its age exceeds `keep_days` (up to which young memories are protected), again when its age
exceeds `summarise_after_days`, and again after each edit.
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
"""Settling time of an edit: after this time, the edit is committed and the memory is embedded again."""

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

    All memories of the groups are active, embedded in the tenant's search space, created by callers and older than
    `keep_days`; memories under legal hold are included. An edited memory counts as new `EDIT_SETTLES` after its edit.

    Args:
        as_of: Time of the run.
        marks: Watermarks of the previous slice.
    """
    as_of = max(as_of, _FIRST)
    settled_before = _id_bound(as_of, rules.keep_days)
    edited_until = as_of - EDIT_SETTLES
    if marks.old is None or marks.edited_at is None:  # first run: `marks.settled` covers old and edited ones
        old_before = _id_bound(as_of, max(rules.keep_days, rules.summarise_after_days))
        marks = replace(marks, old=marks.old or old_before, edited_at=marks.edited_at or edited_until)
    with database.tenant(tenant_id) as tx:
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if spaces is None:
            return CandidateSlice([], 0, marks, finished=True)
        space_id = spaces.searched.space_id
        new, marks, finished = _next_memories(tx, tenant_id, space_id, as_of, marks, rules)
        compared = merge_candidates.read(tx, tenant_id, space_id, new, new)
        neighbours = (
            _nearest(tx, tenant_id, space_id, compared, settled_before, rules) if compared.ids else np.empty(0, "S16")
        )
        if neighbours.size:
            all_ids = np.union1d(neighbours, _packed(compared.ids))
            compared = merge_candidates.read(tx, tenant_id, space_id, all_ids, compared.ids)
    return CandidateSlice(_grouped(tenant_id, compared, rules), int(compared.is_new.sum()), marks, finished)


def _id_bound(as_of: datetime, days: float) -> UUID:
    """Return the exclusive upper bound of the ids of memories accepted at least this many days earlier."""
    return first_uuid(max(int((as_of.timestamp() - days * 86_400) * 1000), 0))


def _next_memories(
    tx: Transaction, tenant_id: UUID, space_id: int, as_of: datetime, marks: CandidateMarks, rules: Consolidation
) -> tuple[list[UUID], CandidateMarks, bool]:
    """Return the next new memories without duplicates, the advanced watermarks, and True if no more memories are left.

    Memories past `keep_days` come first, then those past `summarise_after_days`, then edited ones.
    """
    settled_before = _id_bound(as_of, rules.keep_days)
    old_before = _id_bound(as_of, max(rules.keep_days, rules.summarise_after_days))
    settled = merge_candidates.list_accepted(
        tx, tenant_id, space_id, after=marks.settled, before=settled_before, limit=SLICE
    )
    if len(settled) == SLICE:
        return settled, replace(marks, settled=settled[-1]), False
    marks, remaining = replace(marks, settled=max(marks.settled, settled_before)), SLICE - len(settled)
    aged = merge_candidates.list_accepted(
        tx, tenant_id, space_id, after=marks.old or old_before, before=old_before, limit=remaining
    )
    if len(aged) == remaining:
        return _unique(settled, aged), replace(marks, old=aged[-1]), False
    marks, remaining = replace(marks, old=max(marks.old or old_before, old_before)), remaining - len(aged)
    edited_until = as_of - EDIT_SETTLES
    edits = merge_candidates.list_edited(
        tx, tenant_id, space_id, marks, until=edited_until, before=settled_before, limit=remaining
    )
    if edits:
        edited_id, edited_at = edits[-1]
        marks = replace(marks, edited_at=edited_at, edited_id=edited_id)
    return _unique(settled, aged, [memory_id for memory_id, _ in edits]), marks, len(edits) < remaining


def _unique(*ids: list[UUID]) -> list[UUID]:
    return list(dict.fromkeys(memory_id for batch in ids for memory_id in batch))


def _nearest(
    tx: Transaction, tenant_id: UUID, space_id: int, new: ComparedMemories, before: UUID, rules: Consolidation
) -> Ids:
    """Return the ids of existing memories that are among a new memory's nearest and exceed the cosine threshold."""
    rows: dict[str | None, list[int]] = {}
    for row, subject in enumerate(new.subjects):
        rows.setdefault(subject, []).append(row)
    nearest = Nearest(new.vectors, BREADTH * rules.neighbours, clustering.cosine_above(rules))
    existing = merge_candidates.list_neighbour_candidates(tx, tenant_id, list(rows), before=before)
    new_ids = _packed(new.ids)
    for piece in _pieces([(subject, ids[~np.isin(ids, new_ids)]) for subject, ids in existing]):
        piece_ids = np.concatenate([ids for _, ids in piece])
        read_ids, vectors = merge_candidates.read_vectors(tx, tenant_id, space_id, piece_ids)
        for subject, ids in piece:
            selected = np.flatnonzero(np.isin(read_ids, ids)) if len(piece) > 1 else np.arange(len(read_ids))
            if selected.size:
                nearest.compare(
                    np.array(rows[subject]), read_ids[selected], vectors[selected] if len(piece) > 1 else vectors
                )
    return nearest.matched_ids()


def _pieces(there: Sequence[tuple[str | None, Ids]]) -> Iterator[list[tuple[str | None, Ids]]]:
    """Yield batches of `PIECE` ids, grouped by subject; a batch may contain several subjects, or a part of one."""
    piece: list[tuple[str | None, Ids]] = []
    free = PIECE
    for subject, ids in there:
        rest = ids
        while rest.size:
            piece.append((subject, rest[:free]))
            taken = piece[-1][1].size
            rest, free = rest[taken:], free - taken
            if not free:
                yield piece
                piece, free = [], PIECE
    if piece:
        yield piece


def _packed(ids: Sequence[UUID]) -> NDArray[np.bytes_]:
    return np.frombuffer(b"".join(memory_id.bytes for memory_id in ids), "S16")


def _grouped(tenant_id: UUID, compared: ComparedMemories, rules: Consolidation) -> list[Group]:
    if clustering.applied_method(rules, len(compared.ids)) != rules.method:
        log.warning("too_many_for_hdbscan", tenant=str(tenant_id), memories=len(compared.ids))
    return clustering.group_memories(compared, rules)
