"""First paint of the dashboard's pages with a million memories, as an admin, with every request uncached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import httpx

from app.dashboard.rendering import PAGES, PREFIX
from app.dashboard.sessions import COOKIE
from app.domain.policy.api_keys import SCOPES
from app.services.monitoring.status import FRESH_SECONDS
from app.services.tenants import tenants
from ops.bench import aged
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.place import Place

ROWS = 1_000_000
FLOOR = "GET /readyz"
FIRST = Goal(most=200)


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure the milliseconds from the request to the last byte of each menu page, with images and styles cached."""
    place.empty()
    tenant, key = tenants.create("dashboard", scopes=SCOPES)
    rows = plan.size(ROWS, 10_000)
    aged.fill(place, tenant.tenant_id, rows)
    place.owner.execute(
        "INSERT INTO tenant_counts (tenant_id, slot, active, archived, cold, text_bytes) VALUES (%s, 0, %s, 0, 0, %s)",
        (tenant.tenant_id, rows, rows * 60),
    )
    with place.api() as api, httpx.Client(base_url=api.url, timeout=60, trust_env=False) as http:
        answer = http.post(f"{PREFIX}/log-in", data={"key": key}, headers={"origin": api.url})
        cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
        assert cookie["cookie"].startswith(COOKIE)  # noqa: S101 - otherwise only the log-in page is measured
        pages = [place or "/" for place, _, _ in PAGES]
        for page in pages:  # templates are parsed once
            _get(http, PREFIX + page, cookie)
        floor, *found = plan.rounds(
            partial(_get, http, "/readyz", cookie), *(partial(_get, http, PREFIX + page, cookie) for page in pages)
        )
    for page, took in zip(pages, found, strict=True):
        yield Figure(f"first paint of {PREFIX}{page}, {rows:,} memories", "ms", took, FLOOR, floor, FIRST)
    place.empty()


def _get(http: httpx.Client, path: str, cookie: dict[str, str]) -> float:
    """Return the milliseconds of a request, sent after the previous snapshot of the service has expired.

    Raises:
        RuntimeError: The response is not the page.
    """
    time.sleep(FRESH_SECONDS)
    started = time.perf_counter()
    answer = http.get(path, headers=cookie)
    took = (time.perf_counter() - started) * 1000
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code}")
    return took
