"""A tenant with memories inserted directly into the tables, for tests of indexing and search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Column, Connection, func, insert, select, text, update

from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest, SearchResult
from app.services.embedding.embed import embed_memories
from app.services.enrichment.index import index_memories
from app.services.search.search import search
from app.settings import settings
from app.store.core import database
from app.store.tables import memories, memory_state, memory_words

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


@dataclass
class Shelf:
    """Memories of one tenant, named by short keys; their `seq` follows the order of `put` calls."""

    tenant_id: UUID = field(default_factory=uuid4)
    ids: dict[str, UUID] = field(default_factory=dict)

    def put(self, key: str, said: str, **columns: Any) -> None:
        """Store a memory without indexing it."""
        self.ids[key] = uuid4()
        row = {
            "tenant_id": self.tenant_id,
            "memory_id": self.ids[key],
            "seq": len(self.ids),
            "external_id": key,
            "text": said,
            "created_at": NOON,
        } | columns
        with self.transaction() as tx:
            tx.execute(insert(memories).values(row))
            began = row["created_at"]
            born = {"created_at": began, "accessed_at": began, "anchored_at": began}
            tx.execute(insert(memory_state).values(tenant_id=self.tenant_id, memory_id=self.ids[key], **born))

    def edit(self, key: str, **columns: Any) -> None:
        """Change a memory's columns, and increment its text version."""
        changes = columns | {"text_version": memories.c.text_version + 1}
        with self.transaction() as tx:
            tx.execute(update(memories).where(memories.c.memory_id == self.ids[key]).values(changes))

    def index(self, *keys: str, policy: Policy | None = None) -> int:
        """Index these memories, or all."""
        return index_memories(self.tenant_id, self._chosen(keys), policy)

    def embed(self, *keys: str) -> int:
        """Embed these memories, or all."""
        return embed_memories(self.tenant_id, self._chosen(keys))

    def search(self, query: str, policy: Policy | None = None, **fields: Any) -> list[SearchResult]:
        return search(self.tenant_id, SearchRequest(query, **fields), policy)

    def search_ids(self, query: str, **fields: Any) -> list[str]:
        """Return the external ids of the memories found, best first."""
        return [result.external_id or "" for result in self.search(query, **fields)]

    def rows(self, statement: str, **values: Any) -> list[Any]:
        with self.transaction() as tx:
            return list(tx.execute(text(statement), values).all())

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with database.tenant(self.tenant_id) as tx:
            yield tx

    def words(self, key: str) -> set[str]:
        """Return all words of a memory's row: its own and its neighbours'."""
        return self._lexemes(key, memory_words.c.words)

    def own_words(self, key: str) -> set[str]:
        return self._lexemes(key, memory_words.c.own)

    def counts(self) -> dict[str, int]:
        """Return the stored number of memories per word; the empty word counts all memories."""
        return dict(map(tuple, self.rows("SELECT word, documents FROM words")))

    def true_counts(self) -> dict[str, int]:
        """Return the number of memories per word, counted from their own words."""
        counted = self.rows("SELECT unnest(tsvector_to_array(own)) AS word, count(*) FROM memory_words GROUP BY 1")
        total = self.rows("SELECT '', count(*) FROM memory_words HAVING count(*) > 0")
        return dict(map(tuple, counted + total))

    def _lexemes(self, key: str, column: Column[Any]) -> set[str]:
        wanted = select(func.tsvector_to_array(column)).where(memory_words.c.memory_id == self.ids[key])
        with self.transaction() as tx:
            return set(tx.execute(wanted).scalar_one_or_none() or [])

    def _chosen(self, keys: tuple[str, ...]) -> list[UUID]:
        return [self.ids[key] for key in keys or self.ids]


@pytest.fixture
def shelf(database_url: str) -> Iterator[Shelf]:
    """An empty tenant in a database of its own."""
    with standing_on(database_url):
        yield Shelf()


@contextmanager
def standing_on(database_url: str) -> Iterator[None]:
    """Point the service at this database within this block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EBBING_DATABASE_URL", database_url)
        settings.cache_clear()
        database.close()
        yield
        database.close()
    settings.cache_clear()
