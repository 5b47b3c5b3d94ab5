"""A tenant whose archived memories are due for cold storage, with a local store and a master key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.clients.object_store import cold_store
from app.services.tiers import cold_storage, sweep
from tests.service import Service
from tests.services.aged import Aged, aged

__all__ = ["aged", "chilled"]

MASTER_KEY = "a master key of tests, as long as it must be"
LONG = "The first sentence is short. " + "The second one is long, and it continues without an end. " * 60
HELD = "text, entities, metadata"


class Chilled:
    """A tenant with archived memories and a local cold store."""

    def __init__(self, aged: Aged, folder: Path) -> None:
        self.aged = aged
        self.service: Service = aged.service
        self.tenant_id = aged.tenant_id
        self.folder = folder

    def remember(self, *texts: str, subject: str | None = None, ages: float = -40) -> list[UUID]:
        """Store archived memories that decay wants in cold storage."""
        ids = self.aged.remember(*[ages] * len(texts), tier="archived", salience=0.6)
        for memory_id, text in zip(ids, texts, strict=True):
            self.service.rows(
                "UPDATE memories SET text = %s, subject = %s, entities = %s, metadata = %s, tags = %s "
                "WHERE memory_id = %s",
                text,
                subject,
                ["Ann"],
                '{"n": 1.50, "deep": [null]}',
                ["trip"],
                memory_id,
            )
        sweep.sweep(self.tenant_id)
        return ids

    def cool(self) -> int:
        """Move every due memory to cold storage, and return their number."""
        return sum(iter(lambda: cold_storage.move_segment(self.tenant_id)[1], 0))

    def rows(self, *ids: UUID) -> list[tuple[Any, ...]]:
        """Return the columns that a move to cold storage cuts and a restore brings back."""
        return self.service.rows(
            f"SELECT {HELD} FROM memories WHERE memory_id = ANY (%s) ORDER BY memory_id",  # noqa: S608 - constants
            list(ids),
        )

    def tiers(self, *ids: UUID) -> list[str]:
        found = self.service.rows(
            "SELECT tier FROM memory_state WHERE memory_id = ANY (%s) ORDER BY memory_id", list(ids)
        )
        return [tier for (tier,) in found]

    def segments(self) -> list[tuple[str, int, int]]:
        """Return status, number of records and number of live records of each segment, oldest first."""
        return self.service.rows("SELECT status, records, live FROM segments ORDER BY created_at, segment_id")

    def objects(self) -> list[Path]:
        """Return the files of the tenant's segments."""
        return sorted(path for path in self.folder.glob(f"segments/{self.tenant_id}/*"))

    def keys(self) -> tuple[int, int]:
        """Return the number of owner keys and of record keys."""
        owners = "SELECT count(*) FROM ebbing_keys.owner_keys WHERE tenant_id = %s"
        records = "SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s"
        return self.service.one(owners, self.tenant_id), self.service.one(records, self.tenant_id)

    def whole(self, about: str = "") -> None:
        """Assert that each memory is complete in exactly one place and segment rows match; `about` is the message."""
        wrong = self.service.rows(
            "SELECT memory_id FROM memory_state AS state WHERE tenant_id = %s AND "
            "(tier = 'cold') <> EXISTS (SELECT FROM cold_memories AS cold JOIN segments USING (tenant_id, segment_id) "
            "JOIN ebbing_keys.record_keys USING (tenant_id, key_id) "
            "WHERE cold.memory_id = state.memory_id AND status = 'written')",
            self.tenant_id,
        )
        assert wrong == [], about
        counted = self.service.rows(
            "SELECT segment_id FROM segments WHERE tenant_id = %s AND status = 'written' AND live <> "
            "(SELECT count(*) FROM cold_memories AS cold WHERE cold.segment_id = segments.segment_id)",
            self.tenant_id,
        )
        assert counted == [], about


@pytest.fixture
def chilled(aged: Aged, tmp_path: Path) -> Iterator[Chilled]:
    folder = tmp_path / "cold"
    aged.service.configure(cold_url=folder.as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    yield Chilled(aged, folder)
    cold_store.cache_clear()
