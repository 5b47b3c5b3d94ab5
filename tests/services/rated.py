"""A tenant with rule-based scores, and a fake provider that rates its memories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from app.clients.llm.model_clients import model_clients
from app.services.enrichment import rating_log
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.store.memories.memories import StoredMemory
from tests.provider import model
from tests.provider.server import FakeProvider, provider
from tests.service import Service, Tenant


@dataclass
class Rated:
    """A tenant, and the fake provider that rates its memories."""

    service: Service
    fake: FakeProvider
    tenant: Tenant

    def send(self, *sent: str | dict[str, Any], tenant: Tenant | None = None) -> list[UUID]:
        """Store memories, run every stage except the rating, and return the ids."""
        ids = self.service.send((tenant or self.tenant).tenant_id, *sent)
        self.service.work()
        return ids

    def stored(self, memory_id: UUID, tenant: Tenant | None = None) -> StoredMemory:
        found = lookup.get((tenant or self.tenant).tenant_id, memory_id)
        assert not isinstance(found, Pending)
        return found

    def sources(self, *ids: UUID) -> list[str | None]:
        """Return the source of each memory's salience."""
        return [self.stored(memory_id).salience_source for memory_id in ids]

    def lapse(self) -> None:
        """Expire all delays and leases, and forget the provider's health."""
        self.service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
        model_clients.close()

    def asked(self) -> list[list[str]]:
        """Return the texts of each call, in the order of the calls."""
        return [[each["text"] for each in model.memories(body["messages"])] for body in self.fake.control.bodies]

    def shown(self) -> list[list[str]]:
        """Return the lines of each call, in the order of the calls; context lines begin with "> "."""
        return [
            ["> " + line["context"] if "context" in line else line["text"] for line in model.lines(body["messages"])]
            for body in self.fake.control.bodies
        ]

    def asks(self) -> list[int]:
        """Return how often a model was asked about each memory with a rule-based score, in id order."""
        return [asks for (asks,) in self.service.rows("SELECT asks FROM scores ORDER BY memory_id")]

    def turn(self) -> tuple[bool, float] | None:
        """Return whether the tenant's turn is claimed, and the seconds until it may be; None without a turn."""
        found = self.service.rows(
            "SELECT claim IS NOT NULL, greatest(extract(epoch FROM claimed_until - now()), 0)::float "
            "FROM rating_turns WHERE tenant_id = %s",
            self.tenant.tenant_id,
        )
        return None if not found else tuple(found[0])


@pytest.fixture
def rated(service: Service) -> Iterator[Rated]:
    rating_log.last_lines.clear()
    with provider() as fake:
        # One call at a time makes the order of the calls predictable.
        service.configure(openai_base_url=fake.url, llm_concurrency=1)
        yield Rated(service, fake, service.tenant())
