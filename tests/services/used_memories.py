"""A tenant whose memories are used, with helpers to send uses and to read their effects."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest import uses as touch
from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.domain.ingest.uses import OneTouch, Touches, Use
from app.domain.policy.policy import Forgetting, Policy, Reinforcement
from app.services.ingest import drain
from app.services.uses import reinforcement
from app.services.uses.reinforcement import TouchEffect
from tests.service import Service, Tenant


def policy(profile: str = "spec", parameters: dict[str, Any] | None = None, refractory: float = 60) -> Policy:
    forgetting = Forgetting(profile=profile, parameters=parameters or {})
    return Policy(forgetting=forgetting, reinforcement=Reinforcement(refractory_seconds=refractory))


@dataclass
class Row:
    """The stored state of a memory's uses."""

    count: int
    accessed_at: float
    anchored_at: float
    level: float
    multiplier: float
    elsewhere: int
    version: int
    due: str


@dataclass
class Shop:
    """A tenant whose memories are used."""

    service: Service
    tenant: Tenant

    @property
    def tenant_id(self) -> UUID:
        return self.tenant.tenant_id

    def stored(self, *given: str | dict[str, Any], age_days: float = 0) -> list[UUID]:
        """Store memories backdated by this many days, and return their ids."""
        ids = self.service.send(self.tenant_id, *given)
        drain.drain_streams()
        self.service.rows(
            "UPDATE memory_state SET created_at = created_at - %s, accessed_at = accessed_at - %s, "
            "anchored_at = anchored_at - %s WHERE memory_id = ANY (%s)",
            *[timedelta(days=age_days)] * 3,
            ids,
        )
        return ids

    def report_uses(
        self, *uses: UUID | Use, base: bytes | None = None, session: str | None = None, **more: Any
    ) -> bytes:
        """Append touches to the stream, and return their base."""
        base = base or generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
        reported = [each if isinstance(each, Use) else Use(each) for each in uses]
        touches = Touches(reported, touch.session_digest(self.tenant_id, session), **more)
        self.post(touch.encode(touches), base)
        return base

    def post(self, body: bytes, base: bytes, memories: int = 0) -> None:
        self.service.post(self.tenant_id, body, memories=memories, base=base, form="touches")

    def used(self, *uses: UUID | Use, **more: Any) -> None:
        """Append touches to the stream, and apply them."""
        self.report_uses(*uses, **more)
        drain.drain_streams()

    def touch(self, memory_id: UUID, **given: Any) -> TouchEffect:
        given = {"context_tags": (), "session": None, "boost": False, "used_at": None} | given
        body = OneTouch(**given)
        use = Use(memory_id, None if body.used_at is None else body.used_at.timestamp())
        digest = touch.session_digest(self.tenant_id, body.session)
        return reinforcement.touch_memory(
            self.tenant_id, memory_id, Touches([use], digest, body.boost, body.context_tags)
        )

    def row(self, memory_id: UUID) -> Row:
        columns = (
            "access_count, extract(epoch FROM accessed_at)::float8, extract(epoch FROM anchored_at)::float8, level, "
            "multiplier, cross_domain_count, policy_version, next_due_at::text"
        )
        [row] = self.service.rows(f"SELECT {columns} FROM memory_state WHERE memory_id = %s", memory_id)  # noqa: S608 - constants
        return Row(*row)

    def counts(self, *memory_ids: UUID) -> list[int]:
        return [self.row(memory_id).count for memory_id in memory_ids]

    def history(self, memory_id: UUID) -> list[tuple[str, float, float]]:
        """Return kind, strength before and strength after of each event, in the order of entry."""
        return [
            tuple(row)
            for row in self.service.rows(
                "SELECT kind, before, after FROM memory_events WHERE memory_id = %s AND kind <> 'promoted' "
                "ORDER BY event_id",
                memory_id,
            )
        ]

    def metric(self, name: str) -> int:
        """Return the value of a worker counter."""
        return int(self.service.redis.hget("ebbing:{s0}:counters", name) or 0)

    def now(self) -> float:
        """Return the database clock's time."""
        return float(self.service.one("SELECT extract(epoch FROM now())"))


@pytest.fixture
def shop(service: Service) -> Shop:
    return Shop(service, service.tenant())


def shop_of(service: Service, chosen: Policy) -> Shop:
    return Shop(service, service.tenant(chosen))
