"""A tenant whose memories the rules have scored, and a fake provider that rates them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from app.services.enrichment import rate
from app.services.memories import memories
from app.services.memories.memories import Pending
from app.store.memories.memories import Stored
from tests.provider import model
from tests.provider.server import FakeProvider, provider
from tests.service import Service, Tenant


@dataclass
class Rated:
    """What tests of ratings start from."""

    service: Service
    fake: FakeProvider
    tenant: Tenant

    def send(self, *sent: str | dict[str, Any], tenant: Tenant | None = None) -> list[UUID]:
        """Store memories and see them through every stage but the rating. Returns their ids."""
        ids = self.service.send((tenant or self.tenant).tenant_id, *sent)
        self.service.work()
        return ids

    def stored(self, memory_id: UUID, tenant: Tenant | None = None) -> Stored:
        found = memories.get((tenant or self.tenant).tenant_id, memory_id)
        assert not isinstance(found, Pending)
        return found

    def sources(self, *ids: UUID) -> list[str | None]:
        """Who has judged these memories."""
        return [self.stored(memory_id).salience_source for memory_id in ids]

    def lapse(self) -> None:
        """All delays and leases are over, and the process knows nothing of the provider's health."""
        self.service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
        if rate._scorer.cache_info().currsize:
            rate._scorer().close()
        rate._scorer.cache_clear()

    def asked(self) -> list[list[str]]:
        """The texts of each call, in the order of the calls."""
        return [[each["text"] for each in model.memories(body["messages"])] for body in self.fake.control.bodies]

    def asks(self) -> list[int]:
        """How often each memory of the rules is noted as asked about, in id order."""
        return [asks for (asks,) in self.service.rows("SELECT asks FROM scores ORDER BY memory_id")]

    def turn(self) -> tuple[bool, float] | None:
        """Whether the tenant's turn is claimed, and the seconds until it may be; None where there is none."""
        found = self.service.rows(
            "SELECT claim IS NOT NULL, greatest(extract(epoch FROM claimed_until - now()), 0)::float "
            "FROM rating_turns WHERE tenant_id = %s",
            self.tenant.tenant_id,
        )
        return None if not found else tuple(found[0])


@pytest.fixture
def rated(service: Service) -> Iterator[Rated]:
    with provider() as fake:
        # One call at a time, so that the order of the calls is known.
        service.configure(openai_base_url=fake.url, llm_concurrency=1)
        yield Rated(service, fake, service.tenant())
