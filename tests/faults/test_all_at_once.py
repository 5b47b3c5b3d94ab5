"""Run every operation that moves, changes or removes memories concurrently on one tenant.

There must be no deadlock, and each memory must be in exactly one place. `--rounds` is the duration in seconds.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from app.clients.object_store import cold_store
from app.domain.policy.api_keys import SCOPES
from app.errors import EbbingError
from app.services.memories import recount
from app.services.security import audit
from app.services.tiers import (
    archive,
    cold_restore,
    cold_storage,
    decay_deletion,
    pca_fitting,
    segment_compaction,
    sweep,
)
from app.services.transient_errors import is_transient
from tests.api.caller import Api
from tests.service import Service, Tenant
from tests.services import archived_memories

MEMORIES = 60
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
IN_PLACES = """
SELECT memory_id, tier, short.memory_id IS NOT NULL, cold.memory_id IS NOT NULL
FROM memory_state AS state
LEFT JOIN archived_memories AS short USING (tenant_id, memory_id)
LEFT JOIN cold_memories AS cold USING (tenant_id, memory_id)
WHERE tenant_id = %s AND tier <> 'deleted'
"""


class Crowd:
    """Threads that each repeat one operation until the time is up.

    Attributes:
        did: Number of runs by operation.
        failed: Errors that no retry covers, and responses of 500 and above.
    """

    def __init__(self, api: Api, tenant: Tenant, ids: list[UUID], seconds: float) -> None:
        self.api, self.tenant, self.ids = api, tenant, ids
        self.until = time.monotonic() + seconds
        self.did: Counter[str] = Counter()
        self.failed: list[str] = []

    def any(self, chance: random.Random) -> UUID:
        return chance.choice(self.ids)

    def ask(self, method: str, path: str, **given: object) -> int:
        answer = self.api.request(method, path, key=self.tenant.key, **given)
        if answer.status_code >= 500:
            self.failed.append(f"{method} {path}: {answer.status_code} {answer.text}")
        self.did[f"{method} {answer.status_code}"] += 1
        return answer.status_code

    def run(self, things: dict[str, Callable[[random.Random], object]]) -> None:
        threads = [threading.Thread(target=self._again, args=thing, name=thing[0]) for thing in things.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _again(self, name: str, do: Callable[[random.Random], object]) -> None:
        chance = random.Random(name)
        while time.monotonic() < self.until:
            try:
                do(chance)
                self.did[name] += 1
            except Exception as error:  # noqa: BLE001 - the test reports any error
                if not isinstance(error, cold_storage.SegmentLost) and not (
                    isinstance(error, EbbingError) and is_transient(error)
                ):
                    self.failed.append(f"{name}: {error!r}")


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Iterator[Api]:
    service.configure(database_pool_size=32)  # no request fails because the connection pool is exhausted
    service.configure(cold_url=tmp_path.as_uri(), master_key="a master key of tests, as long as it must be")
    cold_store.cache_clear()
    with Api(service) as started:
        yield started
    cold_store.cache_clear()


def test_all_at_once(api: Api, rounds: int) -> None:
    service = api.service
    tenant = service.tenant(scopes=SCOPES)
    own = tenant.tenant_id
    reported = [{"text": f"turn {n} of a boat", "thread": f"t{n % 3}", "external_id": f"e{n}"} for n in range(MEMORIES)]
    ids = archived_memories.remember(service, own, *reported)
    service.rows("UPDATE policies SET effective_at = '2000-01-01' WHERE tenant_id = %s", own)
    before = service.one(DEADLOCKS)
    crowd = Crowd(api, tenant, ids, rounds)

    def fade(chance: random.Random) -> None:
        one = crowd.any(chance)
        archived_memories.fade(service, [one], chance.choice((20, 60, 400)))
        service.rows("UPDATE memory_state SET restored_at = NULL, access_count = 0 WHERE memory_id = %s", one)

    def hold(chance: random.Random) -> None:
        body = {"memory_ids": [str(crowd.any(chance))], "reason": "court"}
        answer = api.post("/v1/privacy/holds", json=body, key=tenant.key)
        if answer.status_code == 201:
            crowd.ask("POST", f"/v1/privacy/holds/{answer.json()['id']}/release")

    def send(chance: random.Random) -> None:
        place = chance.randrange(MEMORIES)
        service.send(own, reported[place] | {"text": f"said anew {chance.random()}"}, f"new {chance.random()}")
        service.work()

    def touch(chance: random.Random) -> None:
        crowd.ask("POST", f"/v1/memories/{crowd.any(chance)}/touch", json={})

    crowd.run(
        {
            "fade": fade,
            "sweep": lambda _: sweep.sweep(own),
            "archive": lambda _: archive.move_slice(own, None, None),
            "cold": lambda _: cold_storage.move_segment(own),
            "delete": lambda chance: decay_deletion.delete(own) if chance.random() < 0.1 else None,
            "thaw": lambda chance: cold_restore.restore(own, chance.sample(ids, 5)),
            "compact": lambda _: (
                segment_compaction.compact_segments(own),
                cold_storage.delete(own, segment_compaction._drop_segments(own)),
            ),
            "recount": lambda _: recount.recount_tenant(own),
            "refit": lambda _: pca_fitting.refit_basis(own),
            "verify": lambda _: audit.verify_recent(own),
            "touch": touch,
            "restore": lambda chance: crowd.ask("POST", f"/v1/memories/{crowd.any(chance)}/restore"),
            "edit": lambda chance: crowd.ask(
                "PATCH", f"/v1/memories/{crowd.any(chance)}", json={"text": f"edited {chance.random()}"}
            ),
            "remove": lambda chance: (
                chance.random() < 0.05 and crowd.ask("DELETE", f"/v1/memories/{crowd.any(chance)}")
            ),
            "hold": hold,
            "send": send,
        }
    )
    assert crowd.failed == [], crowd.did
    assert service.one(DEADLOCKS) == before
    places = service.rows(IN_PLACES, own)
    assert [row for row in places if row[2:] != (row[1] == "archived", row[1] == "cold")] == []
    assert not any(recount.recount_tenant(own)), "the tenant's counts were wrong before the recount"
    found = audit.verify(own)
    assert (found.broken, found.finished) == (None, True)
    service.work()
    archived_memories.check(service, [memory_id for memory_id, *_ in places])
