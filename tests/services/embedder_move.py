"""A service whose embedder is changed, and embedder moves stepped by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.clients.embedding import embedder
from app.clients.embedding.openai_embedder import OpenAIEmbedder
from app.domain.jobs import Job, Step
from app.domain.search.request import SearchRequest
from app.services.embedding import reembed
from app.services.search.search import search
from tests.provider.server import FakeProvider, provider
from tests.service import Service

LOCAL = ("wordllama-l2-supercat+turns", 256)
REMOTE = ("embed-small+passage-1", 64)


@dataclass
class Movers:
    """The service with the bundled embedder, and a fake provider."""

    service: Service
    fake: FakeProvider

    def use(self, embedder: str, model: str = "embed-small", dimensions: int = 64, **more: object) -> None:
        """Simulate a restart with this embedder in the settings."""
        self.service.configure(
            embedder=embedder,
            embedding_model=model,
            embedding_dimensions=dimensions,
            openai_base_url=self.fake.url,
            llm_tries=1,
            **more,
        )
        forget()

    def remember(self, tenant_id: UUID, *memories: str | dict[str, Any]) -> list[UUID]:
        """Store memories, and run every enrichment stage."""
        ids = self.service.send(tenant_id, *memories)
        self.service.work()
        return ids

    def meanings(self, tenant_id: UUID, query: str) -> dict[UUID, float]:
        """Return the vector similarity to the query of each memory found, 0 to 1."""
        found = search(tenant_id, SearchRequest(query, limit=100, explain=True))
        return {result.id: (result.explain or {})["relevance"] for result in found}

    def spaces(self, memory_id: UUID) -> set[tuple[str, int]]:
        """Return the spaces with a vector of the memory's current text."""
        found = self.service.rows(
            "SELECT model, dimensions FROM embeddings JOIN embedding_spaces USING (space_id) "
            "JOIN memories USING (tenant_id, memory_id) "
            "WHERE memory_id = %s AND embeddings.text_version = memories.text_version",
            memory_id,
        )
        return {tuple(row) for row in found}

    def where(self, tenant_id: UUID) -> tuple[tuple[str, int], tuple[str, int] | None]:
        """Return the space in which a tenant is searched, and the target of its move."""
        [(model, dimensions, target, size)] = self.service.rows(
            "SELECT own.model, own.dimensions, target.model, target.dimensions FROM tenant_spaces "
            "JOIN embedding_spaces AS own USING (space_id) "
            "LEFT JOIN embedding_spaces AS target ON target.space_id = target_space_id WHERE tenant_id = %s",
            tenant_id,
        )
        return (model, dimensions), (target, size) if target else None

    def vectors(self, tenant_id: UUID) -> dict[tuple[str, int], int]:
        """Return the number of a tenant's vectors by space."""
        found = self.service.rows(
            "SELECT model, dimensions, count(*) FROM embeddings JOIN embedding_spaces USING (space_id) "
            "WHERE tenant_id = %s GROUP BY 1, 2",
            tenant_id,
        )
        return {(model, dimensions): count for model, dimensions, count in found}


@dataclass
class Move:
    """A move job, stepped by hand."""

    job: Job
    counts: dict[str, int]
    finished: bool = False

    @classmethod
    def read(cls, tenant_id: UUID) -> Move:
        return cls(Job(uuid4(), tenant_id, reembed.KIND, reembed.job_parameters(), {}, None, 0), {})

    def step(self) -> Step:
        """Run one step, and record its outcome."""
        done = reembed.run_job_slice(self.job)
        total = self.job.total if done.total is None else done.total
        self.job = replace(self.job, state=done.state, done=self.job.done + done.done, total=total)
        self.counts = {
            name: self.counts.get(name, 0) + done.counts.get(name, 0) for name in {*self.counts, *done.counts}
        }
        self.finished = done.finished
        return done

    def until(self, phase: str) -> Move:
        while self.job.state.get("phase") != phase:
            self.step()
        return self

    def end(self) -> Move:
        while not self.finished:
            self.step()
        return self


def forget() -> None:
    """Drop the process's embedders, and close their connections."""
    loaded = [
        *embedder._others.values(),
        *([embedder.embedder()] if embedder.embedder.cache_info().currsize else []),
    ]
    for one in loaded:
        if isinstance(one, OpenAIEmbedder):
            one._provider.close()
    embedder.embedder.cache_clear()
    embedder._others.clear()
    embedder._gone.clear()


@contextmanager
def gone(movers: Movers) -> Iterator[None]:
    """Remove the provider from the settings within this block."""
    movers.service.monkeypatch.delenv("EBBING_OPENAI_BASE_URL")
    movers.service.configure()
    forget()
    yield
    movers.service.configure(openai_base_url=movers.fake.url)
    forget()


@pytest.fixture
def movers(service: Service) -> Iterator[Movers]:
    """The service with the bundled embedder, and a fake provider."""
    with provider() as fake:
        ready = Movers(service, fake)
        ready.use("local")
        yield ready
    forget()
