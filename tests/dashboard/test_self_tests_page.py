"""The self-tests page: charts over runs, latency against its target, flagged memories, and a manual run."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec

from app.services.monitoring import status
from app.services.security import operator_log
from app.services.uses import reviews
from app.store.core import database
from app.store.strength import reviews as rows
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.services.backdated import age
from tests.services.due_deletions import worked

Visit = Callable[..., Visitor]


def a_run(
    api: Api,
    days_ago: float,
    *,
    finished: bool = True,
    p95: float = 20.0,
    empty: int | None = None,
    **passed: tuple[int, int],
) -> UUID:
    run_id, at = uuid4(), datetime.now(UTC) - timedelta(days=days_ago)
    results = {kind: {"passed": well, "failed": failed} for kind, (well, failed) in passed.items()}
    if empty is not None:
        results["recall"]["empty"] = empty
    api.service.rows(
        "INSERT INTO self_test_runs (tenant_id, run_id, as_of, seed, target_ms, started_at, finished_at, results, "
        "p50_ms, p95_ms) VALUES (%s, %s, %s, 1, 50, %s, %s, %s, 5, %s)",
        *(api.tenant.tenant_id, run_id, at, at, at if finished else None, msgspec.json.encode(results).decode(), p95),
    )
    return run_id


def test_an_empty_page_says_so(visit: Visit) -> None:
    text = said(visit().page("/tests"))
    assert "No completed runs yet" in text
    assert "No memory is flagged" in text


def test_runs_are_lines_and_rows(api: Api, visit: Visit) -> None:
    a_run(api, 14, application=(10, 10), retrieval_speed=(1, 0))
    a_run(api, 7, application=(15, 5), connection=(2, 0), retrieval_speed=(0, 1), p95=80.0)
    a_run(api, 0, finished=False)
    html = visit("read").page("/tests")
    text = said(html)
    assert "application 75% passed" in text
    assert "coherence – no tests" in text
    assert "p95 80 ms target 50 ms" in text
    assert "running" in text
    assert "2 of 2 15 of 20 – – – above target – 5 80 50" in text
    assert "– 10 of 20 – – – within target – 5 20 50" in text
    lines = dict(re.findall(r'<polyline class="line-(\w+)" fill="none" points="([^"]*)"', html))
    assert len(lines["b"].split()) == 2
    assert "target 50 ms" in text


def test_a_tenant_whose_recall_is_empty_is_seen(api: Api, visit: Visit) -> None:
    a_run(api, 7, application=(19, 1), other_words=(6, 4), recall=(4, 6), empty=3)
    text = said(visit().page("/tests"))
    assert "other words 60% passed" in text
    assert "recall 40% passed" in text
    assert "empty recalls 30% of all recalls" in text
    assert "19 of 20 6 of 10 4 of 10 – – 3 of 10 5 20 50" in text
    assert "Recall returned almost nothing" not in said(visit().page("/"))
    a_run(api, 0, application=(19, 1), other_words=(1, 9), recall=(0, 10), empty=10)
    status.forget()
    assert "empty recalls 100% of all recalls" in said(visit().page("/tests"))
    assert "Recall returned almost nothing in the last self-tests" in said(visit().page("/"))


def test_what_failed_is_flagged_with_why_and_leads_to_its_page(api: Api, visit: Visit) -> None:
    ids = list(map(UUID, api.remember("one", "two", "three")))
    tenant_id = api.tenant.tenant_id
    run_id = a_run(api, 1, application=(0, 2))
    for kind, memory_id, passed in (("application", ids[0], False), ("application", ids[1], True)):
        api.service.rows(
            "INSERT INTO self_tests (tenant_id, run_id, kind, memory_id, passed) VALUES (%s, %s, %s, %s, %s)",
            *(tenant_id, run_id, kind, memory_id, passed),
        )
    with database.tenant(tenant_id) as tx:
        rows.flag_memories(tx, tenant_id, ids, datetime.now(UTC), 1.0)
    reviews.record_review(tenant_id, ids[2], "passed")
    text = said(visit().page("/tests"))
    assert "Flagged 2" in text
    assert f"{ids[0]} application" in text
    assert f"{ids[1]} a review" in text
    assert str(ids[2]) not in text
    api.delete(f"/v1/memories/{ids[0]}")
    assert str(ids[0]) not in visit().page("/tests")


def test_a_run_by_hand(api: Api, visit: Visit) -> None:
    age(api.service, 20, *api.remember("The quiet budget meeting on Monday was about trains"))
    visitor = visit("maintain")
    assert visitor.act("/tests/run") == "/tests?done=tested"
    worked(api.service)
    assert "application 100% passed" in said(visitor.page("/tests"))
    assert [act.act for act in operator_log.list_actions(api.tenant.tenant_id)] == ["run_self_tests"]
    assert visit("read").send("/tests/run").status_code == 403
