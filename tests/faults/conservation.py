"""The rule that every fault is judged by: what was accepted is stored or waits, once, and nothing else is.

Read from the database and from Redis themselves, not through the service.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
import redis

from app.clients.redis.redis import BACKLOG, stream_key
from app.store.enrichment.work import SCORE
from tests.faults.load import Caller
from tests.waiting import POLL_SECONDS

SETTLE_SECONDS = 30


class Figures(NamedTuple):
    """What became of the memories of some callers."""

    accepted: int = 0
    stored: int = 0
    pending: int = 0
    twice: int = 0
    dead_letters: int = 0

    def plus(self, other: Figures) -> Figures:
        return Figures(*map(sum, zip(self, other, strict=True)))


class Books:
    """The database and the queue, as an auditor sees them."""

    def __init__(self, database_url: str, redis_url: str) -> None:
        """Take the URL of a superuser, who sees all tenants' rows."""
        self.database_url = database_url
        self._redis_url = redis_url

    def wait_until_settled(
        self, callers: Sequence[Caller], seconds: float = SETTLE_SECONDS, *, scored: bool = False
    ) -> None:
        """Wait until nothing of these callers waits to be stored, indexed, embedded, and scored where that is asked.

        Nobody waits for scores to find a memory, and their lane may come last. Fails when nothing has become less
        for so many seconds, and says what is left.
        """
        least, deadline = self._left(callers, scored=scored), time.monotonic() + seconds
        while least:
            assert time.monotonic() < deadline, f"{least} wait: {[self._details(caller) for caller in callers]}"
            time.sleep(POLL_SECONDS)
            left = self._left(callers, scored=scored)
            if left < least:
                least, deadline = left, time.monotonic() + seconds

    def _left(self, callers: Sequence[Caller], *, scored: bool) -> int:
        return sum(sum(self.waiting(caller, scored=scored).values()) for caller in callers)

    def _details(self, caller: Caller) -> dict[str, Any]:
        claims = self._rows(
            "SELECT stage, attempts, claimed_until > now(), count(*) FROM tenant_work WHERE tenant_id = %s "
            "GROUP BY 1, 2, 3",
            caller,
        )
        return {**self.waiting(caller), "stage, attempts, claimed, items": claims}

    def waiting(self, caller: Caller, *, scored: bool = True) -> dict[str, int]:
        """What of a caller's waits: requests to be stored, and items of enrichment by stage, `score` if asked."""
        with redis.Redis.from_url(self._redis_url) as queue:
            found = {"drain": queue.xlen(stream_key(caller.tenant_id))}
        rows = self._rows("SELECT stage, count(*) FROM tenant_work WHERE tenant_id = %s GROUP BY stage", caller)
        return found | {str(stage): int(count) for stage, count in rows if scored or stage != SCORE}

    def is_claimed(self, caller: Caller, stage: str) -> bool:
        """Whether a worker has any of a caller's items of this stage in hand."""
        claimed = "SELECT FROM tenant_work WHERE tenant_id = %s AND claimed_until > now() AND claim IS NOT NULL"
        return bool(self._rows(f"{claimed} AND stage = '{stage}'", caller))

    def entries(self, caller: Caller) -> list[str]:
        """Ids of the caller's entries in its stream, oldest first."""
        with redis.Redis.from_url(self._redis_url) as queue:
            return [entry_id.decode() for entry_id, _ in queue.xrange(stream_key(caller.tenant_id))]

    def stored(self, caller: Caller) -> set[str]:
        """Ids of the memories that are there."""
        memories = self._rows("SELECT memory_id FROM memories WHERE tenant_id = %s", caller)
        return {str(memory_id) for (memory_id,) in memories}

    def sources(self, callers: Sequence[Caller]) -> set[str]:
        """Who has judged what these callers' memories are worth."""
        judged = "SELECT DISTINCT salience_source FROM memory_state WHERE tenant_id = %s"
        return {str(source) for caller in callers for (source,) in self._rows(judged, caller)}

    def is_to_be_rated(self, caller: Caller) -> bool:
        """Whether any of a caller's memories waits for a model's rating."""
        return bool(self._rows("SELECT FROM rating_turns WHERE tenant_id = %s", caller))

    def is_put_off(self, caller: Caller) -> bool:
        """Whether a caller's ratings wait for a provider that has failed."""
        put_off = "SELECT FROM rating_turns WHERE tenant_id = %s AND claim IS NULL AND claimed_until > now()"
        return bool(self._rows(put_off, caller))

    def forget_ratings(self) -> None:
        """Let nothing be rated that other tests have left."""
        with psycopg.connect(self.database_url) as tx:
            tx.execute("DELETE FROM rating_turns")

    def let_time_pass(self) -> None:
        """End what ratings were put off for, and the leases on them."""
        with psycopg.connect(self.database_url) as tx:
            tx.execute("UPDATE rating_turns SET claimed_until = now()")

    def dead_letters(self, caller: Caller) -> list[tuple[str, str, int]]:
        """Stage, reason and attempts of each."""
        found = self._rows(
            "SELECT stage, reason, attempts FROM dead_letters WHERE tenant_id = %s ORDER BY created_at", caller
        )
        return [(str(stage), str(reason), int(attempts)) for stage, reason, attempts in found]

    def check(self, callers: Sequence[Caller], dead_letters: int = 0) -> Figures:
        """Hold what was accepted against what is there, tenant by tenant; fails where they differ."""
        total = Figures()
        for caller in callers:
            found = self._figures(caller)
            assert found.twice == 0, found
            assert found.accepted == found.stored + found.pending, found
            assert found.dead_letters == dead_letters, self.dead_letters(caller)
            total = total.plus(found)
        return total

    def check_backlog_is_nought(self) -> None:
        """When nobody's request waits, the counts by which the door is guarded are exactly 0."""
        with redis.Redis.from_url(self._redis_url) as queue:
            held = {name.decode(): int(count) for name, count in queue.hgetall(BACKLOG).items()}
        assert not any(held.values()), held

    def _figures(self, caller: Caller) -> Figures:
        rows = self._rows("SELECT memory_id, text FROM memories WHERE tenant_id = %s", caller)
        states = {str(one) for (one,) in self._rows("SELECT memory_id FROM memory_state WHERE tenant_id = %s", caller)}
        stored = {str(memory_id): str(text) for memory_id, text in rows}
        assert states == stored.keys()
        assert stored.items() <= caller.accepted.items(), "stored, but never accepted"
        with redis.Redis.from_url(self._redis_url) as queue:
            pending = sum(int(fields[b"n"]) for _, fields in queue.xrange(stream_key(caller.tenant_id)))
        twice = len(rows) - len(set(stored.values()))
        return Figures(len(caller.accepted), len(stored), pending, twice, len(self.dead_letters(caller)))

    def _rows(self, statement: str, caller: Caller) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as tx:
            return tx.execute(statement.encode(), [caller.tenant_id]).fetchall()
