"""Writers and readers of one feed at the same time: each reader gets each change once, in the order of each memory."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from app.domain.changes.types import UPDATED
from app.services.changes import change_feed
from app.store.changes import feed
from app.store.changes.feed import Change
from app.store.core import database
from tests.service import Service

START = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS, READERS, MEMORIES = 8, 3, 60

INSERT = text(
    "INSERT INTO memories (tenant_id, memory_id, seq, text, created_at) VALUES (:tenant, :memory, 1, 'x', now())"
)
LOCK = text("SELECT FROM memories WHERE tenant_id = :tenant AND memory_id = ANY (:ids) ORDER BY memory_id FOR UPDATE")
RAISE = text(
    "UPDATE memories SET text_version = text_version + 1 "
    "WHERE tenant_id = :tenant AND memory_id = ANY (:ids) RETURNING memory_id, text_version"
)
TAKE_ID = text("SELECT pg_current_xact_id()")


class Abandoned(Exception):
    """A writer that rolls back."""


@dataclass
class Reader:
    """A reader of the feed: it stores changes and its cursor together, as an application would."""

    seed: int
    cursor: int = 0
    changes: list[Change] = field(default_factory=list)
    restarts: int = 0

    def read_all(self, tenant_id: UUID, is_over: Callable[[], bool]) -> None:
        """Read until nothing comes any more; now and then forget a page that was read, as after a crash."""
        chance = random.Random(self.seed)
        while True:
            over = is_over()
            page = change_feed.read_page(tenant_id, self.cursor, None, chance.randint(1, 300))
            if chance.random() < 0.1:
                self.restarts += 1
                continue
            self.changes += page.changes
            self.cursor = page.cursor
            if not page.changes:
                threading.Event().wait(0.005)
            if over and not page.changes and not self._is_behind(tenant_id):
                return

    def _is_behind(self, tenant_id: UUID) -> bool:
        return change_feed.has_news(tenant_id, self.cursor)


def write(tenant_id: UUID, memory_ids: list[UUID], wanted: int, seed: int) -> int:
    """Change memories in transactions of several kinds until `wanted` changes are recorded; return their number."""
    chance, written = random.Random(seed), 0
    while written < wanted:
        ids = sorted(chance.sample(memory_ids, chance.randint(1, 20)))
        with suppress(Abandoned):
            _change(tenant_id, ids, chance)
            written += len(ids)
    return written


def _change(tenant_id: UUID, ids: list[UUID], chance: random.Random) -> None:
    values = {"tenant": tenant_id, "ids": ids}
    with database.tenant(tenant_id) as tx:
        if chance.random() < 0.5:
            tx.execute(TAKE_ID)  # transaction ids are then in another order than the locks
        tx.execute(LOCK, values)
        versions: dict[int, list[UUID]] = defaultdict(list)
        for memory_id, version in tx.execute(RAISE, values):
            versions[version].append(memory_id)
        for version, changed in versions.items():
            feed.record(tx, tenant_id, UPDATED, changed, START + timedelta(seconds=version))
        if chance.random() < 0.2:
            threading.Event().wait(chance.random() * 0.02)  # commits later than others that began later
        if chance.random() < 0.1:
            raise Abandoned


def run(tenant_id: UUID, total: int) -> tuple[int, list[Reader]]:
    """Let writers record at least `total` changes beside readers; return the number recorded, and the readers."""
    memory_ids = [uuid4() for _ in range(MEMORIES)]
    with database.tenant(tenant_id) as tx:
        tx.execute(INSERT, [{"tenant": tenant_id, "memory": each} for each in memory_ids])
    readers = [Reader(seed) for seed in range(READERS)]
    with ThreadPoolExecutor(WRITERS + READERS) as pool:
        writing = [pool.submit(write, tenant_id, memory_ids, total // WRITERS, seed) for seed in range(WRITERS)]
        reading = [
            pool.submit(reader.read_all, tenant_id, lambda: all(each.done() for each in writing)) for reader in readers
        ]
        written = sum(each.result() for each in writing)
        for each in reading:
            each.result()
    return written, readers


def check(written: int, readers: list[Reader]) -> None:
    for reader in readers:
        assert [change.cursor for change in reader.changes] == list(range(1, written + 1))
        assert reader.changes == readers[0].changes
        versions: dict[str, list[float]] = defaultdict(list)
        for change in reader.changes:
            versions[change.id].append((change.at - START).total_seconds())
        for each in versions.values():
            assert each == [float(number + each[0]) for number in range(len(each))]
    assert sum(reader.restarts for reader in readers) > 0


@pytest.mark.long
def test_each_reader_gets_each_change_once_in_the_order_of_each_memory(service: Service) -> None:
    service.configure(database_pool_size=WRITERS + READERS)
    database.close()
    check(*run(service.tenant().tenant_id, 6_000))


def test_a_few_writers_and_readers(service: Service) -> None:
    service.configure(database_pool_size=WRITERS + READERS)
    database.close()
    check(*run(service.tenant().tenant_id, 400))
