"""Tenants with thousands of memories inserted by SQL: numbers as words, and vectors of eight dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest

from app.domain.jobs import Job
from app.domain.search.candidate_types import Candidate
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest
from app.domain.search.terms import inverse_document_frequency
from app.services.embedding import tenant_indexes
from app.settings import settings
from app.store.core import database
from app.store.search.candidate_selection import SearchProbe, find_candidates
from tests.servers import Servers, new_database

DIMENSIONS = 8
LIMIT = 1000
RANKING = Ranking()
TABLES = ("memories", "memory_state", "memory_words", "embeddings")

_MEMORIES = """
INSERT INTO memories (tenant_id, memory_id, seq, text, subject, tags, created_at)
SELECT %(tenant)s, gen_random_uuid(), n, format('common w%%s u%%s', n %% 60, n), 's' || n / 20,
  CASE WHEN n %% 2 = 0 THEN ARRAY['even'] ELSE '{}' END, now()
FROM generate_series(1, %(count)s) AS n
"""
_STATE = """
INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at)
SELECT tenant_id, memory_id, now(), now(), now() FROM memories WHERE tenant_id = %(tenant)s
"""
_WORDS = """
INSERT INTO memory_words (tenant_id, memory_id, text_version, own, words)
SELECT tenant_id, memory_id, 1, to_tsvector('simple', text),
  to_tsvector('simple', concat_ws(' ', text, lag(text) OVER (ORDER BY seq), lead(text) OVER (ORDER BY seq)))
FROM memories WHERE tenant_id = %(tenant)s
"""
_COUNT = """
INSERT INTO words (tenant_id, word, documents) VALUES (%(tenant)s, '', %(count)s)
ON CONFLICT (tenant_id, word) DO UPDATE SET documents = excluded.documents
"""
_VECTORS = """
INSERT INTO embeddings (tenant_id, space_id, memory_id, text_version, embedding)
SELECT tenant_id, %(space)s, memory_id, 1, l2_normalize(ARRAY(
  SELECT random(-1.0, 1.0) FROM generate_series(1, %(dimensions)s) WHERE seq > 0)::vector)::halfvec
FROM memories WHERE tenant_id = %(tenant)s
"""


@dataclass
class Crowd:
    """A database with tenants of many memories each."""

    owner: psycopg.Connection[tuple[Any, ...]]
    space: int

    def tenant(self, count: int) -> UUID:
        """Insert a tenant with this many indexed and embedded memories, without dedicated indexes."""
        tenant = uuid4()
        values = {"tenant": tenant, "count": count, "space": self.space, "dimensions": DIMENSIONS}
        for statement in (_MEMORIES, _STATE, _WORDS, _COUNT, _VECTORS):
            self.owner.execute(statement.encode(), values)
        self.owner.execute("INSERT INTO tenant_spaces (tenant_id, space_id) VALUES (%(tenant)s, %(space)s)", values)
        return tenant

    def large(self, count: int = 3000) -> UUID:
        """Insert a tenant like `tenant`, with the dedicated indexes that the job builds."""
        tenant = self.tenant(count)
        self.maintain_indexes(tenant)
        return tenant

    @staticmethod
    def maintain_indexes(tenant: UUID) -> None:
        """Run the index maintenance job of a tenant to its end."""
        job = Job(uuid4(), tenant, tenant_indexes.KIND, {}, {}, None, 0)
        while not tenant_indexes.run_job_slice(job).finished:
            pass

    def probe(self, *words: str, among: int | None = None, seed: int = 0, total: int = 3000) -> SearchProbe:
        """Return a query for these words, each in a sixtieth of the memories, and for a random vector."""
        vector = np.random.default_rng(seed).normal(size=DIMENSIONS).astype(np.float32)
        lexemes = {word: inverse_document_frequency(1 if word[0] == "u" else total // 60, total) for word in words}
        return SearchProbe(lexemes, self.space, vector / np.linalg.norm(vector), among)


def candidates_of(tenant: UUID, probe: SearchProbe, request: SearchRequest | None = None) -> list[Candidate]:
    """Return the candidates of a search in a tenant."""
    with database.tenant(tenant) as tx:
        return find_candidates(tx, tenant, probe, request or SearchRequest("x"), RANKING).candidates


class LargeTenant(NamedTuple):
    """A database with one tenant of 3,000 memories and its dedicated indexes."""

    crowd: Crowd
    tenant: UUID


@contextmanager
def opened(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Yield the owner's connection; meanwhile the service uses this database, where a thousand memories are many."""
    monkeypatch.setenv("EBBING_DATABASE_URL", database_url)
    monkeypatch.setenv("EBBING_SEARCH_EXACT_ROWS", str(LIMIT))
    settings.cache_clear()
    database.close()
    with psycopg.connect(database_url, autocommit=True) as owner:
        yield owner
    database.close()
    settings.cache_clear()


@contextmanager
def _crowd_in(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    """Yield a database without tenants that has one space for vectors."""
    with opened(database_url, monkeypatch) as owner:
        row = owner.execute(
            "INSERT INTO embedding_spaces (model, dimensions, normalised, embedder) VALUES ('test', 8, true, 'local') "
            "RETURNING space_id"
        ).fetchone()
        assert row is not None
        yield Crowd(owner, row[0])


@pytest.fixture
def crowd(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    """An empty database with a size limit at which a thousand memories count as many."""
    with _crowd_in(database_url, monkeypatch) as made:
        yield made


@pytest.fixture(scope="session")
def large_tenant_template(servers: Servers, template: str) -> Iterator[tuple[str, int, UUID]]:
    """A database with a large tenant, which `large_tenant` copies, its space and its tenant.

    Building the tenant's indexes takes ten times as long as copying them. Automatic vacuuming would gather statistics
    in the meantime, which some tests must not have.
    """
    with new_database(servers.database_url, template) as url:
        # The environment is restored before the tests run: other tests of this session need it as it was.
        with pytest.MonkeyPatch.context() as monkeypatch, _crowd_in(url, monkeypatch) as made:
            for name in TABLES:
                made.owner.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = off)".encode())
            tenant = made.large()
        yield urlsplit(url).path.strip("/"), made.space, tenant


@pytest.fixture
def large_tenant(
    servers: Servers, large_tenant_template: tuple[str, int, UUID], monkeypatch: pytest.MonkeyPatch
) -> Iterator[LargeTenant]:
    """A new copy of the database with a large tenant."""
    name, space, tenant = large_tenant_template
    with new_database(servers.database_url, name) as url, opened(url, monkeypatch) as owner:
        yield LargeTenant(Crowd(owner, space), tenant)
