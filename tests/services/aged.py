"""A tenant with memories of any age, and a database clock that tests set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import Event
from app.domain.policy.policy import Policy
from app.domain.tiers.decay_tier import DECAY_TIERS, TierThresholds
from app.domain.tiers.protection import Protection
from app.services.strength import memory_strength
from app.store.core import database
from app.store.core.binary_arrays import driver_connection
from app.store.strength import states
from tests.service import Service

START = datetime(2026, 1, 1, tzinfo=UTC)


def days(number: float) -> datetime:
    """Return the moment this many days after `START`."""
    return START + timedelta(days=number)


def fading(policy: Policy) -> Policy:
    """Return the policy without the default salience protection, so that decay alone decides."""
    protection, tiers = policy.protection, policy.tiers
    if protection.salience_above == Protection().salience_above:
        protection = replace(protection, salience_above=1.0)
    if tiers.deleted_salience_below == TierThresholds().deleted_salience_below:
        tiers = replace(tiers, deleted_salience_below=1.0)
    return policy.model_copy(update={"protection": protection, "tiers": tiers})


class Aged:
    """A tenant with backdated memories; its clock starts at `START`."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch, policy: Policy | None = None) -> None:
        self.service = service
        self.tenant_id = service.tenant(fading(policy or Policy())).tenant_id
        self.now = START
        self._given = 0
        service.rows("UPDATE policies SET effective_at = %s", START - timedelta(days=10_000))
        monkeypatch.setattr(database, "now", lambda _: self.now)

    def remember(self, *created: float, **columns: Any) -> list[UUID]:
        """Insert memories created on these days; each column takes one value for all, or a list with one per memory."""
        self._given = max(self._given, self.count())  # ids of deleted memories aren't reused
        first = (0xABCD << 112) + self._given
        self._given += len(created)
        ids = [UUID(int=first + place) for place in range(len(created))]
        values = {"salience": 0.5, **columns}
        version = self.service.one("SELECT max(version) FROM policies WHERE tenant_id = %s", self.tenant_id)
        rows = []
        for place, (memory_id, day) in enumerate(zip(ids, created, strict=True)):
            own = {name: value[place] if isinstance(value, list) else value for name, value in values.items()}
            moments = dict.fromkeys(("created_at", "accessed_at", "anchored_at"), days(day).isoformat())
            rows.append({"memory_id": str(memory_id), "policy_version": version, **moments, **own})
        names = ", ".join(rows[0])
        self.service.rows(
            "INSERT INTO memories (tenant_id, memory_id, seq, text, created_at) "
            "SELECT %s, memory_id, 1, 'x', created_at FROM jsonb_to_recordset(%s) "
            "AS given (memory_id uuid, created_at timestamptz)",
            self.tenant_id,
            msgspec.json.encode(rows).decode(),
        )
        self.service.rows(
            f"INSERT INTO memory_state (tenant_id, {names}) "  # noqa: S608 - names of columns
            f"SELECT %s, {names} FROM jsonb_populate_recordset(NULL::memory_state, %s)",
            self.tenant_id,
            msgspec.json.encode(rows).decode(),
        )
        return ids

    def count(self) -> int:
        """Return the number of memories."""
        found: int = self.service.one("SELECT count(*) FROM memory_state")
        return found

    def decide(self, policy: Policy, day: float) -> int:
        """Store a policy version effective from this day, and return its number."""
        version: int = self.service.one(
            "INSERT INTO policies (tenant_id, version, body, effective_at) "
            "SELECT tenant_id, max(version) + 1, %s, %s FROM policies WHERE tenant_id = %s GROUP BY tenant_id "
            "RETURNING version",
            fading(policy).model_dump_json(),
            days(day),
            self.tenant_id,
        )
        return version

    def change(self, ids: Sequence[UUID], **columns: Any) -> None:
        """Change inputs of strength at the clock's time, as the services do."""
        with database.tenant(self.tenant_id) as tx, memory_strength.preserve_strength(tx, self.tenant_id, ids):
            for name, value in columns.items():
                driver_connection(tx).execute(
                    f"UPDATE memory_state SET {name} = %s WHERE memory_id = ANY (%s)".encode(),  # noqa: S608 - a column
                    (value, list(ids)),
                )

    def use(self, ids: Sequence[UUID], at: datetime | None = None) -> None:
        """Record a use of each memory at `at` (default: the clock's time), written at the clock's time."""
        now = self.now.timestamp()
        with database.tenant(self.tenant_id) as tx:
            times = memory_strength.load_timeline(tx, self.tenant_id)
            era = times.at(now)
            held = memory_strength.advance_to_era(states.lock(tx, self.tenant_id, ids), times, now)
            event = Event(at=(at or self.now).timestamp(), now=now)
            after = replace(held, state=era.dynamics.reinforce(held.state, event))
            memory_strength.write_uses(tx, self.tenant_id, after, era, now)

    def strengths(self, *ids: UUID, at: datetime | None = None) -> Floats:
        """Return the strengths of these memories (default: all, in id order) at `at` or the clock's time."""
        now = (at or self.now).timestamp()
        with database.tenant(self.tenant_id) as tx:
            times = memory_strength.load_timeline(tx, self.tenant_id)
            held = states.read(tx, self.tenant_id, ids or self._ids())
        era = times.at(now)
        return memory_strength.evaluate_strength(
            era, memory_strength.advance_to_era(held, times, now).state, now
        ).strength

    def tiers(self) -> list[str]:
        """Return the tier that the last sweep wanted for each memory, in id order."""
        return self._column("wanted_tier")

    def due(self) -> list[datetime | None]:
        """Return when each memory is due for its next sweep, in id order; None if never."""
        found = self.service.rows(
            "SELECT CASE WHEN isfinite(next_due_at) THEN next_due_at END FROM memory_state ORDER BY memory_id"
        )
        return [moment for (moment,) in found]

    def anchors(self) -> list[tuple[Any, ...]]:
        """Return the anchor, decay inputs and policy version of each memory, in id order."""
        return self.service.rows(
            "SELECT anchored_at, level, retrieval, stability, policy_version FROM memory_state ORDER BY memory_id"
        )

    def events(self, kind: str = "wanted_tier") -> list[tuple[Any, ...]]:
        """Return memory, moment, before, after and strength of each event of this kind, oldest first."""
        return self.service.rows(
            "SELECT memory_id, at, before, after, strength FROM memory_events WHERE kind = %s ORDER BY at, memory_id",
            kind,
        )

    def _ids(self) -> list[UUID]:
        return self._column("memory_id")

    def _column(self, name: str) -> list[Any]:
        statement = f"SELECT {name} FROM memory_state WHERE tier <> 'deleted' ORDER BY memory_id"  # noqa: S608 - a column
        return [value for (value,) in self.service.rows(statement)]


def place(tier: str) -> int:
    """Return the number that stands for a tier in an event."""
    return DECAY_TIERS.index(tier)


@pytest.fixture
def aged(service: Service, monkeypatch: pytest.MonkeyPatch) -> Aged:
    return Aged(service, monkeypatch)
