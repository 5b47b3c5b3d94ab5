"""Consolidation candidates: each new memory is selected once per reason, with its neighbours, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.domain.consolidation.group_types import Group
from app.domain.consolidation.parameters import Consolidation
from app.domain.ingest.ids import first_uuid
from app.services.consolidation import candidates
from app.services.consolidation.candidates import CandidateSlice
from app.store.consolidation import merge_candidates
from app.store.consolidation.merge_candidates import CandidateMarks
from app.store.core import database
from app.store.core.binary_arrays import Halfvecs, driver_connection
from app.store.embedding import embedding_spaces
from tests.service import Service

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RULES = Consolidation()


class Past:
    """A tenant with memories accepted some days before `NOW`; each vector points in the direction of its angle."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        with database.shared() as tx:
            self.spaces = [embedding_spaces.ensure_space(tx, f"flat {n}", 2, "local").space_id for n in range(2)]
            embedding_spaces.assign_space(tx, self.tenant_id, self.spaces[0])
        self.marks = CandidateMarks()

    def remember(self, days: float, degrees: float | None = 0, *, space: int = 0, **columns: Any) -> UUID:
        """Insert a memory, with a vector unless `degrees` is None."""
        count = self.service.one("SELECT count(*) FROM memories")
        at = NOW - timedelta(days=days)
        memory_id = UUID(int=first_uuid(int(at.timestamp() * 1000)).int + count + 1)
        names, places = "".join(f", {name}" for name in columns), ", %s" * len(columns)
        self.service.rows(
            f"INSERT INTO memories (tenant_id, memory_id, seq, text, created_at{names}) "  # noqa: S608 - names
            f"VALUES (%s, %s, %s, 'x', %s{places})",
            *(self.tenant_id, memory_id, count, at),
            *columns.values(),
        )
        self.service.rows(
            "INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at) "
            "VALUES (%s, %s, %s, %s, %s)",
            *(self.tenant_id, memory_id, at, at, at),
        )
        if degrees is not None:
            self.point(memory_id, degrees, space)
        return memory_id

    def point(self, memory_id: UUID, degrees: float, space: int = 0) -> None:
        angle = np.radians(degrees)
        vector = Halfvecs(np.array([[np.cos(angle), np.sin(angle)]], np.float32))
        with database.tenant(self.tenant_id) as tx:
            driver_connection(tx).execute(
                "INSERT INTO embeddings (tenant_id, memory_id, space_id, text_version, embedding) "
                "SELECT %s, %s, %s, 1, vector FROM unnest(CAST(%s AS halfvec[])) AS vector",
                (self.tenant_id, memory_id, self.spaces[space], vector),
            )

    def put(self, column: str, value: object, memory_id: UUID) -> None:
        """Change a column of a memory or of its state."""
        table = "memory_state" if column == "tier" else "memories"
        self.service.rows(f"UPDATE {table} SET {column} = %s WHERE memory_id = %s", value, memory_id)  # noqa: S608

    def run(self, days: float = 0, rules: Consolidation = RULES) -> CandidateSlice:
        """Run every slice as of this many days after `NOW`, and return the combined result."""
        groups: list[Group] = []
        new = 0
        while True:
            found = candidates.find_groups(self.tenant_id, NOW + timedelta(days=days), self.marks, rules)
            groups, new = groups + found.groups, new + found.new
            with database.tenant(self.tenant_id) as tx:
                merge_candidates.write_marks(tx, self.tenant_id, found.marks)
                self.marks = merge_candidates.read_marks(tx, self.tenant_id)
            assert self.marks == found.marks
            if found.finished:
                return CandidateSlice(groups, new, found.marks, finished=True)

    def grouped(self, days: float = 0, rules: Consolidation = RULES) -> list[list[UUID]]:
        return [group.ids for group in self.run(days, rules).groups]


@pytest.fixture
def past(service: Service) -> Past:
    return Past(service)


def test_a_memory_is_new_when_it_has_come_of_age_and_again_when_it_is_old(past: Past) -> None:
    young = past.remember(3)
    pair = [past.remember(10), past.remember(9.5, 5)]
    assert past.grouped() == [pair]
    assert past.run() == CandidateSlice([], 0, past.marks, finished=True)
    assert past.grouped(days=5) == [[*pair, young]]
    assert [past.run(days).new for days in (6, 19, 21, 26, 28)] == [0, 0, 2, 0, 1]


def test_what_is_old_already_when_consolidation_begins_comes_once(past: Past) -> None:
    pair = [past.remember(50), past.remember(40)]
    assert past.grouped() == [pair]
    assert past.run(days=30).new == 0


def test_an_edited_memory_comes_once_more_when_the_edit_has_settled(past: Past) -> None:
    pair = [past.remember(10), past.remember(9, 90)]
    young = past.remember(2, 180)
    assert past.grouped() == []
    for memory_id in (*pair[1:], young):
        past.put("updated_at", NOW + timedelta(minutes=30), memory_id)
    past.service.rows("DELETE FROM embeddings WHERE memory_id = %s", pair[1])
    past.point(pair[1], 3)
    assert past.run(days=1 / 24).new == 0
    assert past.grouped(days=2 / 24) == [pair]
    assert past.run(days=3 / 24).new == 0


@pytest.mark.parametrize(
    ("column", "value"),
    [("tier", "archived"), ("tier", "cold"), ("deleted_at", NOW), ("made_by", "consolidation")],
)
def test_what_isnt_active_or_no_callers_never_comes(past: Past, column: str, value: object) -> None:
    new, there, gone = past.remember(8), past.remember(100), [past.remember(101), past.remember(8.5)]
    for memory_id in gone:
        past.put(column, value, memory_id)
    assert past.run().groups[0].ids == sorted([there, new])


def test_memories_without_a_vector_in_the_searched_space_never_come(past: Past) -> None:
    new, there = past.remember(8), past.remember(9)
    lacking, elsewhere = past.remember(8.1, None), past.remember(8.2, space=1)
    assert past.grouped() == [[there, new]]
    with database.shared() as tx:
        embedding_spaces.start_move(tx, past.tenant_id, past.spaces[1])
        assert embedding_spaces.complete_move(tx, past.tenant_id, past.spaces[1])
    past.point(new, 90, space=1)
    past.point(lacking, 90, space=1)
    past.marks = CandidateMarks()
    assert past.grouped() == [sorted([lacking, new])], "compared in the space that the tenant has moved to"
    assert elsewhere not in [memory_id for ids in past.grouped(days=30) for memory_id in ids]


def test_subjects_and_tenants_are_never_mixed(past: Past, service: Service) -> None:
    other = Past(service)
    other.remember(8)
    made: dict[str | None, Sequence[UUID]] = {
        subject: [past.remember(days, subject=subject) for days in (60, 50, 8)] for subject in (None, "anna", "bela")
    }
    past.remember(9, subject="alone")
    assert sorted(past.grouped()) == sorted(map(list, made.values()))


def test_old_neighbours_come_with_what_is_new_and_not_by_themselves(past: Past) -> None:
    near, far = [past.remember(60), past.remember(59)], [past.remember(58, 90), past.remember(57, 91)]
    assert past.grouped() == [near, far]
    new = past.remember(8, 10)
    found = candidates.find_groups(past.tenant_id, NOW, CandidateMarks(far[1], far[1], NOW), RULES)
    assert [group.ids for group in found.groups] == [[*near, new]]
    assert found.new == 1


def test_slices_go_on_from_the_marks_and_pieces_find_what_one_piece_finds(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        past.remember(60 - n, 40 * (n % 4), subject=(None, "anna", "bela")[n % 3])
    whole = past.run()
    assert whole.new == 40
    monkeypatch.setattr(candidates, "PIECE", 7)
    past.service.rows("DELETE FROM consolidation_marks")
    past.marks = CandidateMarks()
    assert past.run() == whole
    monkeypatch.setattr(candidates, "SLICE", 9)
    past.service.rows("DELETE FROM consolidation_marks")
    past.marks = CandidateMarks()
    assert past.run().new == 40
    assert past.run().new == 0


def test_marks_never_go_back(past: Past) -> None:
    past.remember(10)
    past.run()
    with database.tenant(past.tenant_id) as tx:
        merge_candidates.write_marks(
            tx, past.tenant_id, CandidateMarks(first_uuid(1), first_uuid(1), NOW - timedelta(days=90))
        )
        assert merge_candidates.read_marks(tx, past.tenant_id) == past.marks


def test_a_tenant_without_vectors_has_nothing_to_group(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    assert candidates.find_groups(tenant_id, NOW, CandidateMarks(), RULES).new == 0


def test_too_many_for_hdbscan_are_linked_and_it_is_said(
    past: Past, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = [past.remember(10), past.remember(9)]
    monkeypatch.setattr("app.domain.consolidation.clustering.HDBSCAN_MAX", 1)
    assert past.grouped(rules=Consolidation(method="hdbscan")) == [pair]
    assert "too_many_for_hdbscan" in capsys.readouterr().out
