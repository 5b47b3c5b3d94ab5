"""Label values declared for metrics match the names in the code."""

from __future__ import annotations

from typing import get_args

from app import metrics
from app.domain import jobs, maintenance
from app.queues import LANES
from app.services.jobs.runner import KINDS, _lane
from app.services.night.steps import STEPS
from app.services.tenants.budget import Purpose


def test_jobs_are_the_kinds_and_the_steps_of_nights() -> None:
    assert set(metrics.JOBS) == {*KINDS, *STEPS}


def test_each_kind_of_job_counts_in_a_lane_that_has_jobs() -> None:
    assert {_lane(kind) for kind in KINDS} == set(metrics.JOB_LANES) <= set(LANES)


def test_purposes_are_those_that_are_paid_for() -> None:
    assert set(metrics.LLM_PURPOSES) == set(get_args(Purpose))


def test_the_queue_accepts_the_kinds_that_the_runner_knows() -> None:
    assert KINDS.keys() == jobs.KINDS.keys()
    assert jobs.RIGHTS_KINDS.keys() < jobs.KINDS.keys()


def test_each_kind_of_maintenance_is_a_kind_of_job() -> None:
    assert maintenance.KINDS.keys() < jobs.KINDS.keys()
