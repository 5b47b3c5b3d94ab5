"""The invariant checked after every fault: each accepted memory is stored or pending exactly once, and nothing else is.

Reads the database and Redis directly, not through the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
import redis

from app.clients.redis.connection import BACKLOG, HELD, stream_key
from app.store.enrichment.work_queue import SCORE
from tests.faults.load import Caller
from tests.waiting import until


class Figures(NamedTuple):
    """Final states of some callers' memories, counted."""

    accepted: int = 0
    stored: int = 0
    pending: int = 0
    twice: int = 0
    dead_letters: int = 0

    def plus(self, other: Figures) -> Figures:
        return Figures(*map(sum, zip(self, other, strict=True)))


class Books:
    """Direct read access to the database and the queue, for checks."""

    def __init__(self, database_url: str, redis_url: str) -> None:
        """Take the URL of a superuser, who sees all tenants' rows."""
        self.database_url = database_url
        self.redis_url = redis_url

    def wait_until_settled(self, callers: Sequence[Caller], *, scored: bool = False) -> None:
        """Wait until nothing of these callers is waiting to be stored, indexed, embedded and, if `scored`, scored.

        Memories are searchable before they are scored, and the scoring lane may come last. Fails with the remaining
        work if the backlog hasn't shrunk for as long as `until` waits.
        """
        least = self._left(callers, scored=scored)

        def fewer() -> list[int]:
            left = self._left(callers, scored=scored)
            return [left] if left < least else []

        while least:
            [least] = until(fewer, lambda: f"fewer wait: {[self._details(caller) for caller in callers]}")

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
        """Count a caller's pending requests, and its pending items by stage; `score` only if `scored`."""
        with redis.Redis.from_url(self.redis_url) as queue:
            found = {"drain": queue.xlen(stream_key(caller.tenant_id))}
        rows = self._rows("SELECT stage, count(*) FROM tenant_work WHERE tenant_id = %s GROUP BY stage", caller)
        return found | {str(stage): int(count) for stage, count in rows if scored or stage != SCORE}

    def is_claimed(self, caller: Caller, stage: str) -> bool:
        """Return true if a worker has claimed any of a caller's items of this stage."""
        claimed = "SELECT FROM tenant_work WHERE tenant_id = %s AND claimed_until > now() AND claim IS NOT NULL"
        return bool(self._rows(f"{claimed} AND stage = '{stage}'", caller))

    def entries(self, caller: Caller) -> list[str]:
        """Return the ids of the caller's stream entries, oldest first."""
        with redis.Redis.from_url(self.redis_url) as queue:
            return [entry_id.decode() for entry_id, _ in queue.xrange(stream_key(caller.tenant_id))]

    def stored(self, caller: Caller) -> set[str]:
        """Return the ids of the caller's stored memories."""
        memories = self._rows("SELECT memory_id FROM memories WHERE tenant_id = %s", caller)
        return {str(memory_id) for (memory_id,) in memories}

    def sources(self, callers: Sequence[Caller]) -> set[str]:
        """Return the sources of these callers' salience values."""
        judged = "SELECT DISTINCT salience_source FROM memory_state WHERE tenant_id = %s"
        return {str(source) for caller in callers for (source,) in self._rows(judged, caller)}

    def is_to_be_rated(self, caller: Caller) -> bool:
        """Return true if any of a caller's memories waits for a model's rating."""
        return bool(self._rows("SELECT FROM rating_turns WHERE tenant_id = %s", caller))

    def is_put_off(self, caller: Caller) -> bool:
        """Return true if a caller's ratings are in backoff after a provider failure."""
        put_off = "SELECT FROM rating_turns WHERE tenant_id = %s AND claim IS NULL AND claimed_until > now()"
        return bool(self._rows(put_off, caller))

    def forget_ratings(self) -> None:
        """Delete pending ratings that other tests have left."""
        with psycopg.connect(self.database_url) as tx:
            tx.execute("DELETE FROM rating_turns")

    def end_put_off(self) -> None:
        """End the backoff after provider failures, so that ratings are retried now; live workers keep their leases."""
        with psycopg.connect(self.database_url) as tx:
            tx.execute("UPDATE rating_turns SET claimed_until = now() WHERE claim IS NULL")

    def end_leases(self, callers: Sequence[Caller] = ()) -> None:
        """Expire the leases of these callers' claimed work (of all without callers), as if the workers had died."""
        with redis.Redis.from_url(self.redis_url) as queue:
            held = [caller.tenant_id for caller in callers] or [each.decode() for each in queue.zrange(HELD, 0, -1)]
            for tenant_id in held:
                queue.zadd(HELD, {tenant_id: 0}, xx=True)
        with psycopg.connect(self.database_url) as tx:
            for table in ("tenant_work", "rating_turns"):
                ended = f"UPDATE {table} SET claimed_until = now() WHERE claim IS NOT NULL"  # noqa: S608 - see above
                if callers:
                    tx.execute(f"{ended} AND tenant_id = ANY(%s)".encode(), [[caller.tenant_id for caller in callers]])
                else:
                    tx.execute(ended.encode())

    def lease_seconds(self, caller: Caller, stage: str) -> float:
        """Return the longest time until a lease on the caller's claimed work expires; 0 without a claim."""
        if stage == "drain":
            with redis.Redis.from_url(self.redis_url) as queue:
                seconds, microseconds = queue.time()
                until_ms = queue.zscore(HELD, caller.tenant_id) or 0
            left: float = float(until_ms) / 1000 - seconds - microseconds / 1e6
        else:
            claimed = "SELECT extract(epoch FROM max(claimed_until) - now()) FROM tenant_work WHERE tenant_id = %s"
            [(found,)] = self._rows(f"{claimed} AND claim IS NOT NULL AND stage = '{stage}'", caller)
            left = float(found or 0)
        return max(0.0, left)

    def stored_at(self, caller: Caller) -> list[datetime]:
        """Return when a caller's requests were stored, in order."""
        found = self._rows("SELECT stored_at FROM envelopes WHERE tenant_id = %s ORDER BY stored_at", caller)
        return [at for (at,) in found]

    def dead_letters(self, caller: Caller) -> list[tuple[str, str, int]]:
        """Return stage, reason and attempts of each of the caller's dead letters."""
        found = self._rows(
            "SELECT stage, reason, attempts FROM dead_letters WHERE tenant_id = %s ORDER BY created_at", caller
        )
        return [(str(stage), str(reason), int(attempts)) for stage, reason, attempts in found]

    def check(self, callers: Sequence[Caller], dead_letters: int = 0) -> Figures:
        """Compare accepted memories with stored ones, tenant by tenant, and fail if they differ."""
        total = Figures()
        for caller in callers:
            found = self._figures(caller)
            assert found.twice == 0, found
            assert found.accepted == found.stored + found.pending, found
            assert found.dead_letters == dead_letters, self.dead_letters(caller)
            total = total.plus(found)
        return total

    def check_backlog_is_nought(self) -> None:
        """Check that the backlog counters that control admission are exactly 0 when no requests are pending."""
        with redis.Redis.from_url(self.redis_url) as queue:
            held = {name.decode(): int(count) for name, count in queue.hgetall(BACKLOG).items()}
        assert not any(held.values()), held

    def _figures(self, caller: Caller) -> Figures:
        rows = self._rows("SELECT memory_id, text FROM memories WHERE tenant_id = %s", caller)
        states = {str(one) for (one,) in self._rows("SELECT memory_id FROM memory_state WHERE tenant_id = %s", caller)}
        stored = {str(memory_id): str(text) for memory_id, text in rows}
        assert states == stored.keys()
        assert stored.items() <= caller.accepted.items(), "stored, but never accepted"
        with redis.Redis.from_url(self.redis_url) as queue:
            pending = sum(int(fields[b"n"]) for _, fields in queue.xrange(stream_key(caller.tenant_id)))
        twice = len(rows) - len(set(stored.values()))
        return Figures(len(caller.accepted), len(stored), pending, twice, len(self.dead_letters(caller)))

    def _rows(self, statement: str, caller: Caller) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as tx:
            return tx.execute(statement.encode(), [caller.tenant_id]).fetchall()
