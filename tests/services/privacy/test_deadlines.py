"""Deadlines: segments are rewritten by the date given in the report, and requests close to theirs are reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from app.clients.object_store import ColdStore, FailureKind, StoreFailed
from app.domain.jobs import Job
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import NewRequest
from app.domain.tiers import cold_segment
from app.services.erasure import execution, requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.jobs import queue, runner
from app.services.night import steps
from app.services.privacy import deadlines, request_log
from app.services.tiers import segment_compaction
from app.store.core import database
from app.store.erasure import residue
from app.store.privacy import deadlines as rows
from tests.service import Service
from tests.services.cold_due import Chilled, aged, chilled
from tests.services.due_deletions import worked
from tests.services.erasure.test_erasing import carried_out, erase

__all__ = ["aged", "chilled"]


def erased(chilled: Chilled, *memory_ids: UUID) -> UUID:
    """Erase these memories, and return the erasure's id."""
    erasure_id = erase(chilled.tenant_id, memory_ids=list(memory_ids))
    assert carried_out(chilled.tenant_id, erasure_id) == "verified"
    return erasure_id


def two_segments(chilled: Chilled) -> tuple[list[UUID], list[UUID]]:
    """Store two segments of five memories each; return the ids by segment."""
    first = chilled.remember(*(f"first {n}" for n in range(5)))
    chilled.cool()
    second = chilled.remember(*(f"second {n}" for n in range(5)))
    chilled.cool()
    return first, second


def report(chilled: Chilled, erasure_id: UUID) -> dict[str, Any]:
    return read_report(chilled.tenant_id, erasure_id)


def upkeep(chilled: Chilled) -> list[str]:
    """Run an upkeep job, and return the lines of its log."""
    job_id = queue.create(chilled.tenant_id, segment_compaction.KIND, {}, lone=False)
    runner.run_slice(job_id)
    done = queue.get(chilled.tenant_id, job_id)
    assert done.status == "done", done
    return [line["message"] for line in done.log or []]


def overdue(chilled: Chilled, erasure_id: UUID, days: int) -> None:
    statement = "UPDATE erasures SET rewrite_by = rewrite_by - make_interval(days => %s) WHERE erasure_id = %s"
    chilled.service.rows(statement, days, erasure_id)


# --- Segments ---


def test_the_report_says_by_when_segments_are_rewritten_and_then_when_they_were(chilled: Chilled) -> None:
    first, _ = two_segments(chilled)
    erasure_id = erased(chilled, first[0])
    promised = report(chilled, erasure_id)
    by = promised["clocks"]["finished_at"] + timedelta(days=2)
    assert (promised["clocks"]["rewrite_by"], promised["clocks"]["rewritten_at"]) == (by, None)
    assert promised["segments_to_rewrite"] == 1
    assert upkeep(chilled) == []
    kept = report(chilled, erasure_id)
    assert kept["clocks"]["rewrite_by"] == by
    assert kept["clocks"]["rewritten_at"] is not None
    assert kept["segments_to_rewrite"] == 0


def test_an_erasure_of_nothing_cold_promises_nothing(chilled: Chilled) -> None:
    [warm] = chilled.remember("archived alone")
    erasure_id = erased(chilled, warm)
    assert report(chilled, erasure_id)["clocks"]["rewrite_by"] is None
    assert chilled.service.one("SELECT count(*) FROM jobs WHERE kind = 'compact'") == 0


def test_where_no_night_does_it_a_job_does_before_the_deadline(chilled: Chilled) -> None:
    first, second = two_segments(chilled)
    erasure_id = erased(chilled, first[0])
    erased(chilled, second[0])
    begins = chilled.service.rows("SELECT not_before FROM jobs WHERE kind = 'compact'")
    assert begins[0][0] == report(chilled, erasure_id)["clocks"]["rewrite_by"] - timedelta(hours=6)
    chilled.service.rows("UPDATE jobs SET claimed_until = now() WHERE kind = 'compact'")
    worked(chilled.service)
    assert report(chilled, erasure_id)["segments_to_rewrite"] == 0


def test_those_that_are_due_first_are_rewritten_first(chilled: Chilled, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = two_segments(chilled)
    later, sooner = erased(chilled, first[0]), erased(chilled, second[0])
    overdue(chilled, sooner, 3)
    with database.tenant(chilled.tenant_id) as tx:
        order = rows.to_rewrite(tx, chilled.tenant_id)
    monkeypatch.setattr(cold_segment, "RECORDS", 4)  # one at a time
    segment_compaction.compact_segments(chilled.tenant_id)
    with database.tenant(chilled.tenant_id) as tx:
        assert rows.to_rewrite(tx, chilled.tenant_id) == order[1:]
        rows.mark_rewritten(tx, chilled.tenant_id, database.now(tx))
    assert report(chilled, sooner)["clocks"]["rewritten_at"] is not None
    assert report(chilled, later)["clocks"]["rewritten_at"] is None


def test_what_is_late_is_told_of(chilled: Chilled, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = two_segments(chilled)
    overdue(chilled, erased(chilled, first[0]), 3)
    assert deadlines.deadline_figures().late_rewrites == 1

    def lost(_store: ColdStore, path: str) -> bytes:
        raise StoreFailed(FailureKind.MISSING, path)

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(ColdStore, "get", lost)
        lines = upkeep(chilled)
    assert any("segments of 1 erasures should be rewritten by now" in line for line in lines)
    assert [line["erasures"] for line in logs if line["event"] == "segments_late"] == [1]
    assert not any("should be rewritten" in line for line in upkeep(chilled))
    assert deadlines.deadline_figures().late_rewrites == 0


# --- Requests ---


def entered(service: Service, tenant_id: UUID, **fields: Any) -> UUID:
    return request_log.create(tenant_id, NewRequest(**fields)).request_id


def test_a_request_with_less_than_a_week_left_is_told_of_each_night(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    now = datetime.now(UTC)
    for days in (1, 40):  # of the 45 days that the law allows
        entered(service, tenant_id, nature="correction", law="ccpa", received_at=now - timedelta(days=days))
    entered(service, tenant_id, nature="objection", law="user")
    with capture_logs() as logs:
        steps.STEPS["figures"](tenant_id, now, {}, 0)
    [result] = [line for line in logs if line["event"] == "requests_due"]
    assert (result["requests"], result["log_level"]) == (1, "warning")
    assert 5 <= result["days_left"] <= 6, "five days, and what is left of today"


def test_one_that_is_answered_or_far_off_is_not_told_of(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    long_ago = datetime.now(UTC) - timedelta(days=60)
    done = entered(service, tenant_id, nature="correction", law="gdpr", received_at=long_ago)
    request_log.answer_request(tenant_id, done, "done", None, "key")
    entered(service, tenant_id, nature="access", law="ccpa")
    with capture_logs() as logs:
        deadlines.warn_due_requests(tenant_id)
    assert logs == []


def test_the_figures_are_of_all_tenants(service: Service) -> None:
    assert deadlines.deadline_figures() == rows.DeadlineTotals({}, None, 0, 0)
    long_ago = datetime.now(UTC).replace(hour=12) - timedelta(days=46)
    for nature in ("correction", "correction", "objection"):
        entered(service, service.tenant().tenant_id, nature=nature, law="ccpa", received_at=long_ago)
    found = deadlines.deadline_figures()
    assert found.open == {"correction": 2, "objection": 1}
    assert found.min_days_left is not None
    assert -1 <= found.min_days_left < 0, "overdue since the end of the day before"


def test_what_an_erasure_finds_left_is_a_number_until_it_is_gone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id = service.tenant().tenant_id
    service.send(tenant_id, {"text": "Ann likes tea", "subject": "ann"})
    service.work()
    erasure_id = requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key").erasure_id
    with monkeypatch.context() as patched:
        patched.setattr(residue, "counts", lambda *_: {"memories": 7})
        worked(service)
    assert requests.get(tenant_id, erasure_id).status == "running"
    assert deadlines.deadline_figures().residue == 7
    job = Job(UUID(int=0), tenant_id, "erase", {"erasure_id": str(erasure_id)}, {}, None, 0)
    while not (did := execution.run_slice(job)).finished:
        job = Job(UUID(int=0), tenant_id, "erase", job.parameters, did.state, None, 0)
    assert requests.get(tenant_id, erasure_id).status == "verified"
    assert deadlines.deadline_figures().residue == 0
