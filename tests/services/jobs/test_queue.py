"""Jobs run step by step, each step committed, whatever dies, fails or is cancelled in between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from app.domain.jobs import Job, Step
from app.errors import Conflict, NotFound
from app.services.jobs import queue, runner, schedule
from app.services.monitoring import stats
from app.store.jobs.jobs import LOG_LINES
from tests.service import Service, Tenant
from tests.services.job_kinds import set_kind
from tests.services.nights import purged

AWAY = OperationalError("SELECT", {}, psycopg.OperationalError("the connection is closed"))


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The jobs for which messages were sent."""
    messages: list[UUID] = []

    def enqueue(task: str, argument: UUID, *, expires_seconds: float | None) -> None:
        assert (task, expires_seconds) == ("maintain.job", None)
        messages.append(argument)

    monkeypatch.setattr("app.queues.enqueue", enqueue)
    return messages


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that defines the kind `test` by its step and its clean-up."""

    def kind(step: Callable[[Job], Step], cancelled: Callable[[Job], None] | None = None) -> None:
        set_kind(monkeypatch, "test", step, cancelled)

    kind(count_to(3))
    return kind


def count_to(last: int, seen: list[Job] | None = None) -> Callable[[Job], Step]:
    """Return a step that counts one item per call and finishes at `last`."""

    def step(job: Job) -> Step:
        if seen is not None:
            seen.append(job)
        n = job.state.get("n", 0) + 1
        return Step(1, {"n": n}, n == last, total=last, counts={"odd": n % 2}, notes=(f"item {n}",))

    return step


def fail(error: Exception) -> Callable[[Job], Any]:
    def step(_: Job) -> Any:
        raise error

    return step


def row(service: Service, job_id: UUID, *columns: str) -> tuple[Any, ...]:
    [found] = service.rows(f"SELECT {', '.join(columns)} FROM jobs WHERE job_id = %s", job_id)  # noqa: S608 - constants
    return tuple(found)


def lapse(service: Service) -> None:
    """Expire every lease, message and delay."""
    service.rows("UPDATE jobs SET claimed_until = now() - interval '1 second' WHERE claimed_until IS NOT NULL")


def messages_of(service: Service, job_id: UUID) -> list[str]:
    return [line["message"] for line in row(service, job_id, "log")[0]]


# --- Steps ---


def test_steps_follow_each_other_and_add_up(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    seen: list[Job] = []
    define(count_to(3, seen))
    job_id = queue.create(tenant.tenant_id, "test", {"space": 7})
    assert sent == [job_id]
    runner.run_slice(job_id)
    found = queue.get(tenant.tenant_id, job_id)
    assert (found.status, found.done, found.total, found.counts, found.error) == ("done", 3, 3, {"odd": 2}, None)
    assert found.started_at is not None
    assert found.finished_at is not None
    assert found.log is not None
    assert [line["message"] for line in found.log] == ["item 1", "item 2", "item 3"]
    assert found.log[0]["at"].startswith("20")
    assert [(job.state, job.done, job.total) for job in seen] == [({}, 0, None), ({"n": 1}, 1, 3), ({"n": 2}, 2, 3)]
    assert {(job.job_id, job.tenant_id, job.kind, job.parameters["space"]) for job in seen} == {
        (job_id, tenant.tenant_id, "test", 7)
    }
    runner.run_slice(job_id)
    assert len(seen) == 3, "the job has ended"
    assert service.redis.hget("ebbing:{s0}:counters", "jobs|maintain|done") == b"1"


def test_a_slice_ends_in_time_and_the_job_goes_on_with_the_next(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    service.configure(slice_seconds=0.000001)
    job_id = queue.create(tenant.tenant_id, "test", {})
    for done in (1, 2):
        runner.run_slice(job_id)
        assert row(service, job_id, "status", "done", "attempts") == ("queued", done, 0)
        assert sent == [job_id] * (done + 1)
    runner.run_slice(job_id)
    assert row(service, job_id, "status", "done", "claim", "claimed_until") == ("done", 3, None, None)
    assert len(sent) == 3


def test_the_log_keeps_its_last_lines(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    def step(job: Job) -> Step:
        n = job.done + 150
        return Step(150, {}, finished=n == 300, notes=tuple(f"{line}" for line in range(job.done, n)))

    define(step)
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(job_id)
    assert messages_of(service, job_id) == [f"{line}" for line in range(300 - LOG_LINES, 300)]


def test_a_step_without_notes_leaves_the_log_alone(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    define(lambda _: Step(0, {}, finished=True))
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(job_id)
    assert row(service, job_id, "log", "counts", "total") == ([], {}, None)


# --- Unique jobs ---


def test_a_lone_job_is_there_once_until_it_ends(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: queue.create(tenant.tenant_id, "test", {}), range(8)))
    [first] = found
    assert queue.create(service.tenant().tenant_id, "test", {}) != first, "unique per tenant"
    runner.run_slice(first)
    assert queue.create(tenant.tenant_id, "test", {}) != first
    several = {queue.create(tenant.tenant_id, "test", {}, lone=False) for _ in range(2)}
    assert len(several) == 2


def test_an_unknown_kind_is_not_entered(service: Service, tenant: Tenant) -> None:
    with pytest.raises(KeyError):
        queue.create(tenant.tenant_id, "nonsense", {})
    assert service.one("SELECT count(*) FROM jobs") == 0


def test_a_kind_that_this_version_lacks_fails(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    job_id = queue.create(tenant.tenant_id, "test", {})
    service.rows("UPDATE jobs SET kind = 'of tomorrow'")
    runner.run_slice(job_id)
    assert row(service, job_id, "status", "error") == ("failed", "unknown kind")


# --- Lost messages and workers ---


def test_a_message_that_comes_twice_does_the_work_once(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    seen: list[Job] = []
    counted = count_to(2, seen)

    def step(job: Job) -> Step:
        runner.run_slice(job.job_id)  # concurrently with the job
        return counted(job)

    define(step)
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(job_id)
    runner.run_slice(job_id)
    assert len(seen) == 2
    runner.run_slice(uuid4())
    assert len(seen) == 2


def test_a_job_whose_message_was_lost_is_sent_again(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    job_id = queue.create(tenant.tenant_id, "test", {})
    assert schedule.insert_due_runs([]) == 0, "its message is still pending"
    lapse(service)
    assert schedule.insert_due_runs([]) == 1
    assert schedule.insert_due_runs([]) == 0, "not again with every tick"
    assert sent == [job_id, job_id]


def test_a_job_that_could_not_be_sent_is_sent_by_a_tick(
    service: Service, tenant: Tenant, define: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr("app.queues.enqueue", away)
        job_id = queue.create(tenant.tenant_id, "test", {})
    lapse(service)
    messages: list[tuple[Any, ...]] = []
    monkeypatch.setattr("app.queues.enqueue", lambda *given, **_: messages.append(given))
    assert schedule.insert_due_runs([]) == 1
    assert messages == [("maintain.job", job_id)]


def test_a_job_whose_worker_died_is_taken_up_where_it_was(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    seen: list[Job] = []
    counted = count_to(3, seen)

    def die_in_the_second(job: Job) -> Step:
        if job.done == 1 and len(seen) == 1:
            seen.append(job)
            raise SystemExit
        return counted(job)

    define(die_in_the_second)
    job_id = queue.create(tenant.tenant_id, "test", {})
    with pytest.raises(SystemExit):
        runner.run_slice(job_id)
    assert row(service, job_id, "status", "done") == ("running", 1)
    assert service.one("SELECT claimed_until BETWEEN now() AND now() + interval '61 seconds' FROM jobs")
    runner.run_slice(job_id)
    assert len(seen) == 2, "its lease is still valid"
    lapse(service)
    assert schedule.insert_due_runs([]) == 1
    runner.run_slice(job_id)
    assert row(service, job_id, "status", "done", "counts") == ("done", 3, {"odd": 2})
    assert [job.done for job in seen] == [0, 1, 1, 2]


def test_a_job_that_kills_its_worker_each_time_fails(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    tries: list[Job] = []

    def die(job: Job) -> Step:
        tries.append(job)
        raise SystemExit

    define(die)
    job_id = queue.create(tenant.tenant_id, "test", {})
    for _ in range(3):
        with pytest.raises(SystemExit):
            runner.run_slice(job_id)
        lapse(service)
    runner.run_slice(job_id)
    assert row(service, job_id, "status", "error") == ("failed", runner.KILLED)
    assert len(tries) == 3


def test_a_step_that_outlived_its_lease_counts_for_nothing(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    """Another worker has taken the job over and done the same step."""
    calls: list[int] = []

    def slow(job: Job) -> Step:
        calls.append(job.done)
        if len(calls) == 1:
            lapse(service)
            runner.run_slice(job.job_id)
        return Step(1, {}, finished=True, notes=("once",))

    define(slow)
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(job_id)
    assert calls == [0, 0]
    assert row(service, job_id, "status", "done") == ("done", 1)
    assert messages_of(service, job_id) == ["once"]


# --- Failures ---


def test_a_step_that_fails_three_times_fails_the_job_by_its_errors_type(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    define(fail(ValueError("what a memory says")))
    job_id = queue.create(tenant.tenant_id, "test", {})
    for attempt in (1, 2):
        with pytest.raises(ValueError, match="memory"):
            runner.run_slice(job_id)
        assert row(service, job_id, "status", "attempts") == ("queued", attempt)
        runner.run_slice(job_id)  # too early for a retry
        lapse(service)
    with pytest.raises(ValueError, match="memory"):
        runner.run_slice(job_id)
    found = queue.get(tenant.tenant_id, job_id)
    assert (found.status, found.error, found.finished_at is not None) == ("failed", "ValueError", True)
    assert messages_of(service, job_id) == [
        "try 1 failed: ValueError",
        "try 2 failed: ValueError",
        "failed: ValueError",
    ]
    assert service.redis.hget("ebbing:{s0}:counters", "jobs|maintain|failed") == b"1"
    assert schedule.insert_due_runs([]) == 0


def test_a_step_that_is_done_makes_failures_before_it_good(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    service.configure(slice_seconds=0.000001)
    counted, failures = count_to(4), iter([1, 1, 0, 1, 1, 0, 1, 1, 0, 0])

    def step(job: Job) -> Step:
        if next(failures):
            raise ValueError
        return counted(job)

    define(step)
    job_id = queue.create(tenant.tenant_id, "test", {})
    for _ in range(10):
        with suppress(ValueError):
            runner.run_slice(job_id)
        lapse(service)
    assert row(service, job_id, "status", "done") == ("done", 4)


def test_failures_that_pass_put_a_job_off_and_do_not_count(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    define(fail(AWAY))
    job_id = queue.create(tenant.tenant_id, "test", {})
    for _ in range(6):
        with pytest.raises(OperationalError):
            runner.run_slice(job_id)
        assert row(service, job_id, "status", "attempts") == ("queued", 0)
        assert schedule.insert_due_runs([]) == 0, "no immediate retry"
        lapse(service)
    assert messages_of(service, job_id) == ["put off: OperationalError"]
    define(count_to(1))
    runner.run_slice(job_id)
    assert row(service, job_id, "status") == ("done",)


# --- Turns ---


def test_jobs_take_turns_and_one_is_on_its_way_at_a_time(
    service: Service, sent: list[UUID], define: Callable[..., None]
) -> None:
    """A tick or a nightly run waits for other jobs no longer than one slice."""
    service.configure(slice_seconds=0.000001)
    made = [queue.create(service.tenant().tenant_id, "test", {}) for _ in range(3)]
    assert sent == made[:1]
    for _ in range(9):
        assert schedule.insert_due_runs([]) == 0
        runner.run_slice(sent[-1])
    assert sent == made * 3
    assert {status for (status,) in service.rows("SELECT status FROM jobs")} == {"done"}


def test_messages_that_were_sent_twice_become_one_again(
    service: Service, sent: list[UUID], define: Callable[..., None]
) -> None:
    service.configure(slice_seconds=0.000001)
    define(count_to(20))
    for _ in range(2):
        queue.create(service.tenant().tenant_id, "test", {})
    lapse(service)
    schedule.insert_due_runs([])  # the lane was stuck for so long that the first message seemed lost
    for taken in range(12):
        runner.run_slice(sent[taken])
    assert len(sent) == 13, "twelve were taken, and one more is sent"


def test_a_job_that_is_put_off_holds_up_no_other(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    define(fail(AWAY))
    job_id = queue.create(tenant.tenant_id, "test", {})
    other = queue.create(service.tenant().tenant_id, "test", {})
    with pytest.raises(OperationalError):
        runner.run_slice(job_id)
    assert sent == [job_id, other]


def test_the_lane_counts_jobs_as_waiting(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    job_id = queue.create(tenant.tenant_id, "test", {})
    service.rows("UPDATE jobs SET created_at = now() - interval '9 seconds'")
    lane = stats.tenant_stats(tenant.tenant_id).lanes["maintain"]
    assert lane.depth == 1
    assert lane.oldest_age_seconds >= 9
    assert stats.lane_backlogs()["maintain"].depth == 1
    assert stats.tenant_stats(service.tenant().tenant_id).lanes["maintain"].depth == 0
    runner.run_slice(job_id)
    assert stats.lane_backlogs()["maintain"].depth == 0


# --- Cancelling ---


def test_a_job_is_cancelled_between_two_steps_and_cleans_up(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    counted, cleaned = count_to(9), []

    def step(job: Job) -> Step:
        if job.done == 1:
            assert queue.cancel(tenant.tenant_id, job.job_id).cancel_wanted
        return counted(job)

    define(step, lambda job: cleaned.append(job.done))
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(job_id)
    assert row(service, job_id, "status", "done", "error") == ("cancelled", 2, None)
    assert cleaned == [2]
    assert messages_of(service, job_id)[-1] == "cancelled"
    with pytest.raises(Conflict, match="cancelled"):
        queue.cancel(tenant.tenant_id, job_id)


def test_a_job_that_waits_is_cancelled_at_its_turn(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    define(fail(AWAY))
    job_id = queue.create(tenant.tenant_id, "test", {})
    with pytest.raises(OperationalError):
        runner.run_slice(job_id)
    queue.cancel(tenant.tenant_id, job_id)
    assert sent == [job_id, job_id], "a cancelled job doesn't wait for its delay"
    runner.run_slice(job_id)
    assert row(service, job_id, "status") == ("cancelled",)


def test_a_clean_up_that_fails_is_tried_again(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    define(count_to(1), fail(AWAY))
    job_id = queue.create(tenant.tenant_id, "test", {})
    queue.cancel(tenant.tenant_id, job_id)
    with pytest.raises(OperationalError):
        runner.run_slice(job_id)
    assert row(service, job_id, "status") == ("queued",)
    lapse(service)
    define(count_to(1), lambda _: None)
    runner.run_slice(job_id)
    assert row(service, job_id, "status", "done") == ("cancelled", 0)


def test_only_the_own_tenants_jobs_are_seen_and_cancelled(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    job_id = queue.create(tenant.tenant_id, "test", {})
    other = service.tenant().tenant_id
    for look in (queue.get, queue.cancel):
        with pytest.raises(NotFound):
            look(other, job_id)
    assert queue.list_jobs(other, None, None, None, 10) == []
    assert row(service, job_id, "cancel_wanted") == (False,)


def test_ended_jobs_are_deleted_when_nobody_asks_any_more(
    service: Service, tenant: Tenant, sent: list[UUID], define: Callable[..., None]
) -> None:
    old, new = (queue.create(tenant.tenant_id, "test", {}, lone=False) for _ in range(2))
    waits = queue.create(tenant.tenant_id, "test", {})
    for job_id in (old, new):
        runner.run_slice(job_id)
    service.rows("UPDATE jobs SET created_at = now() - interval '1 year'")
    service.rows("UPDATE jobs SET finished_at = now() - interval '91 days' WHERE job_id = %s", old)
    assert purged(tenant.tenant_id)["jobs"] == 1
    assert {job_id for (job_id,) in service.rows("SELECT job_id FROM jobs")} == {new, waits}
