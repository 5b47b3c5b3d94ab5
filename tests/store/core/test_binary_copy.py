"""PostgreSQL reads back exactly the rows that were packed by hand for COPY."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.domain.ingest.ids import memory_uuids
from app.domain.ingest.memory import KINDS, MemoryIn
from app.domain.ingest.roles import ROLES
from app.store.core import database
from app.store.core.binary_copy import PIECE_ROWS, Arrival
from app.store.ingest import envelopes
from tests.examples import draw
from tests.service import Service

TENANT = UUID(int=7)
BASE = UUID(int=1 << 80).bytes
NOW_MS = 1_760_000_000_000
TABLES = ("envelopes", "memories", "memory_state", "tenant_work")

# Any character that a text may contain: no NUL, no lone surrogate.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
LABELS = st.lists(TEXT, max_size=3).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MOMENTS = st.datetimes(
    datetime(1, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
MEMORIES = st.builds(
    MemoryIn,
    text=TEXT,
    subject=st.none() | TEXT,
    thread=st.none() | TEXT,
    speaker=st.none() | TEXT,
    kind=st.none() | st.sampled_from(KINDS),
    occurred_at=st.none() | MOMENTS,
    tags=LABELS,
    categories=LABELS,
    entities=LABELS,
    metadata=st.none() | st.dictionaries(TEXT, JSON, max_size=3),
    salience=st.none() | st.floats(0, 1, width=32),
    multiplier=st.none() | st.floats(0, 2, width=32),
    role=st.none() | st.sampled_from(ROLES),
)

READ = """
SELECT memory_id, text, subject, thread, speaker, memories.kind, occurred_at, tags, categories, entities, metadata,
  salience, salience_source, multiplier, role
FROM memories JOIN memory_state USING (tenant_id, memory_id) WHERE tenant_id = %s ORDER BY memory_id
"""


def store(given: Sequence[MemoryIn], base: bytes = BASE, accepted_ms: int = NOW_MS) -> int:
    with database.drain() as tx:
        return envelopes.copy_fresh(tx, TENANT, [Arrival("1760000000000-0", base, accepted_ms, given)])


@draw(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MEMORIES, min_size=1, max_size=6))
def test_what_is_packed_is_what_is_read_back(service: Service, memories: list[MemoryIn]) -> None:
    for table in TABLES:
        service.rows(f"DELETE FROM {table}")  # noqa: S608 - constants
    assert store(memories) == len(memories)
    found = service.rows(READ, TENANT)
    assert [row[0] for row in found] == [UUID(memory_id) for memory_id in memory_uuids(BASE, len(memories))]
    for row, memory in zip(found, memories, strict=True):
        names = ("text", "subject", "thread", "speaker", "kind", "occurred_at")
        assert row[1:7] == tuple(getattr(memory, name) for name in names)
        assert row[7:10] == (list(memory.tags), list(memory.categories), list(memory.entities))
        assert as_json(row[10]) == as_json(memory.metadata)
        source = None if memory.salience is None else "caller"
        multiplier = 1.0 if memory.multiplier is None else memory.multiplier
        assert row[11:14] == (pytest.approx(memory.salience), source, pytest.approx(multiplier))  # 32-bit columns
        assert row[14] == memory.role


def as_json(value: Any) -> Any:
    """Convert numbers as jsonb does, which doesn't distinguish 1.0 from 1."""
    return None if value is None else json.loads(msgspec.json.encode(value), parse_int=float)


@pytest.mark.parametrize("rows", [1, PIECE_ROWS - 1, PIECE_ROWS, PIECE_ROWS + 1, 4096])
def test_pieces_of_any_size_are_whole(service: Service, rows: int) -> None:
    given = [MemoryIn(text=f"{n}") for n in range(rows)]
    assert store(given) == rows
    assert service.rows("SELECT text FROM memories ORDER BY memory_id") == [(f"{n}",) for n in range(rows)]
    items = service.rows("SELECT cardinality(memory_ids) FROM tenant_work WHERE stage = 'index' ORDER BY work_id")
    assert sum(size for (size,) in items) == rows
    assert max(size for (size,) in items) <= envelopes.WORK_ITEM_MEMORIES


def test_a_moment_of_acceptance_is_kept_to_the_millisecond_and_never_ahead(service: Service) -> None:
    store([MemoryIn(text="past")], accepted_ms=1_234_567_890_123)
    ahead = int((datetime.now(UTC) + timedelta(days=30)).timestamp() * 1000)
    store([MemoryIn(text="ahead")], base=UUID(int=2 << 80).bytes, accepted_ms=ahead)
    found = dict(service.rows("SELECT text, created_at FROM memories"))
    assert found["past"] == datetime(2009, 2, 13, 23, 31, 30, 123_000, UTC)
    assert found["ahead"] <= service.one("SELECT now()")


def test_the_ledger_refuses_what_it_has_and_takes_the_rest(service: Service) -> None:
    other = UUID(int=2 << 80).bytes
    assert store([MemoryIn(text="one")]) == 1
    with database.drain() as tx:
        again = [Arrival("1-0", base, NOW_MS, [MemoryIn(text=f"{base[5]}")]) for base in (BASE, other, other)]
        assert envelopes.copy_fresh(tx, TENANT, again) == 1
        assert envelopes.is_stored(tx, TENANT, other)
        assert not envelopes.is_stored(tx, UUID(int=8), other)
    assert service.one("SELECT count(*) FROM memories") == 2


def test_a_failed_copy_leaves_nothing_not_even_in_the_ledger(service: Service) -> None:
    with pytest.raises(Exception, match="salience"):
        store([MemoryIn(text="good"), MemoryIn(text="bad", salience=7.0)])
    for table in TABLES:
        assert service.one(f"SELECT count(*) FROM {table}") == 0  # noqa: S608 - constants
