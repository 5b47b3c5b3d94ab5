"""A job's lease is short, and its worker renews it for as long as a step lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from app.domain.jobs import Job, Step
from app.services.jobs import lease, queue, runner
from app.store.core import database
from app.store.jobs import jobs
from tests.service import Service
from tests.services.job_kinds import set_kind
from tests.waiting import until

MODEL: dict[str, object] = {"openai_api_key": "key", "llm_timeout_seconds": 100, "llm_tries": 3}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew leases often, and send no messages."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr("app.queues.enqueue", lambda *_, **__: None)


def run_during_step(service: Service, monkeypatch: pytest.MonkeyPatch, check: Callable[[UUID], object]) -> UUID:
    """Run a job of one step, which calls `check` with the job's id."""

    def step(job: Job) -> Step:
        check(job.job_id)
        return Step(1, {}, finished=True)

    set_kind(monkeypatch, "test", step)
    job_id = queue.create(service.tenant().tenant_id, "test", {})
    runner.run_slice(job_id)
    return job_id


def renewers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lease"]


def test_a_step_that_lasts_keeps_its_lease(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = "SELECT claimed_until FROM jobs"

    def check(job_id: UUID) -> None:
        before = service.one(ends)
        until(lambda: service.one(ends) > before, "the lease isn't renewed")
        service.rows("UPDATE jobs SET claimed_until = now() - interval '1 second'")
        until(lambda: service.one("SELECT claimed_until > now() FROM jobs"), "a late renewal doesn't count")
        runner.run_slice(job_id)
        assert service.one("SELECT attempts FROM jobs") == 1, "another worker has claimed the job"

    run_during_step(service, monkeypatch, check)
    assert service.rows("SELECT status, done, claimed_until FROM jobs") == [("done", 1, None)]
    assert not renewers()


def test_a_lost_claim_is_not_renewed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = uuid4()

    def check(job_id: UUID) -> None:
        service.rows("UPDATE jobs SET claim = %s, claimed_until = now()", taken)
        before = service.one("SELECT claimed_until FROM jobs")
        until(lambda: not renewers(), "the renewals go on")
        assert service.one("SELECT claimed_until FROM jobs") == before
        with database.shared() as tx:
            assert jobs.renew_claim(tx, job_id, taken, lease.LEASE_SECONDS), "the other worker renews it"

    run_during_step(service, monkeypatch, check)
    assert service.rows("SELECT status, claim FROM jobs") == [("running", taken)]


def test_a_failed_renewal_is_repeated(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    renew, failures = jobs.renew_claim, iter((ConnectionError(), ConnectionError()))

    def fail_twice(*given: object) -> bool:
        for error in failures:
            raise error
        return renew(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs, "renew_claim", fail_twice)

    def check(_: UUID) -> None:
        before = service.one("SELECT claimed_until FROM jobs")
        until(lambda: service.one("SELECT claimed_until FROM jobs") > before, "the lease isn't renewed")

    run_during_step(service, monkeypatch, check)
    assert next(failures, None) is None


def test_a_lease_does_not_depend_on_how_long_a_model_may_take(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a worker's death, all jobs of its lane wait until the lease ends."""
    service.configure(**MODEL)
    leases: list[bool] = []
    within = "SELECT claimed_until <= clock_timestamp() + make_interval(secs => %s) FROM jobs"
    run_during_step(service, monkeypatch, lambda _: leases.append(service.one(within, lease.LEASE_SECONDS)))
    assert leases == [True]
    assert lease.LEASE_SECONDS > 3 * 5, "a lease outlasts three failed renewals"
