"""An erasure of somebody: until all of it is hidden, and until all of it is verified gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

from app.domain.hold import Meant
from app.domain.jobs import Job
from app.services import erasing, erasures, tenants
from app.services.erasures import ERASE, HIDE, Asked
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.place import Place
from ops.bench.search import fill

ERASED, OTHERS = 10_000, 50_000


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Seconds until a person's memories are hidden, out of the indexes, and verified gone, beside others'."""
    erased, others, rounds = plan.size(ERASED, 500), plan.size(OTHERS, 2_000), plan.size(3, 1)
    hidden, taken_out, gone = [], [], []
    for number in range(rounds):
        place.empty()
        tenant_id = tenants.create(f"privacy {number}")[0].tenant_id
        ids = fill(place, tenant_id, erased + others)
        about = {"tenant": tenant_id, "ids": ids[:: (erased + others) // erased][:erased]}
        place.owner.execute(
            "UPDATE memories SET subject = CASE WHEN memory_id = ANY (%(ids)s) THEN 'ann' ELSE 'bob' END "
            "WHERE tenant_id = %(tenant)s",
            about,
        )
        place.owner.execute("VACUUM ANALYZE memories")
        started = time.perf_counter()
        asked = erasures.request(tenant_id, Asked(Meant(subject="ann"), "gdpr", 0), "bench")
        hidden.append(time.perf_counter() - started)
        if asked.hidden != erased:
            raise RuntimeError(f"{asked.hidden} memories are hidden")
        taken_out.append(_took(tenant_id, HIDE, asked.erasure_id))
        gone.append(_took(tenant_id, ERASE, asked.erasure_id))
        if erasures.get(tenant_id, asked.erasure_id).status != "verified":
            raise RuntimeError("it isn't verified")
    beside = f"{erased:,} memories beside {others:,}"
    yield Figure(f"hidden when it is answered, {beside}", "s", hidden, goal=Goal(most=1))
    yield Figure("out of the indexes and of neighbours' context", "s", taken_out)
    yield Figure("erased and verified, keys included", "s", gone, goal=Goal(most=10))
    place.empty()


def _took(tenant_id: UUID, kind: str, erasure_id: UUID) -> float:
    """Seconds of carrying out one of its jobs."""
    step = erasures.step if kind == HIDE else erasing.step
    state: dict[str, Any] = {}
    finished = False
    started = time.perf_counter()
    while not finished:
        done = step(Job(uuid4(), tenant_id, kind, {"erasure_id": str(erasure_id)}, state, None, 0))
        if done.failure:
            raise RuntimeError(done.failure)
        state, finished = done.state, done.finished
    return time.perf_counter() - started
