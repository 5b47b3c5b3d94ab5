"""Run a tenant's nightly maintenance: a job that executes `STEPS` in order, all as of the same time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from app import metrics
from app.domain.jobs import Job, Step
from app.errors import stored_name
from app.services.night.steps import STEPS
from app.services.transient_errors import is_transient
from app.settings import settings
from app.store.core import database
from app.store.jobs import schedules

KIND: Final = "night"
STEP_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


@dataclass
class _NightState:
    """Progress of a nightly run, stored as job state; `app.store.jobs.schedules` reads these fields by name.

    Attributes:
        as_of: The time that the whole run uses as now.
        ends_at: Deadline at which the run is cut short.
        left: Names of the remaining steps, the current one first.
        step: The current step. After the end, the step in which the run was cut short, or None if it wasn't.
        inner: State of the current step.
        done: Number of items that the current step has processed.
        failed: Error types by failed step.
        cut_short: The first step that didn't finish before the deadline; None if the run wasn't cut short.
        seconds: Time spent in the current step, in seconds.
    """

    as_of: str
    ends_at: str
    left: list[str]
    step: str | None
    inner: dict[str, Any]
    done: int
    failed: dict[str, str]
    cut_short: str | None = None
    seconds: float = 0.0


def run_job_slice(job: Job) -> Step:
    """Run a few seconds of a nightly run.

    A failed step is recorded and the remaining steps still run; transient errors are raised so that the job retries.
    """
    with database.tenant(job.tenant_id) as tx:
        now = database.now(tx)
        night_state = _NightState(**job.state) if job.state else _start_run(tx, job, now)
    night_state.left = [name for name in night_state.left if name in STEPS]  # omit steps that this version doesn't know
    if not night_state.left:
        return _finish_run(night_state)
    name = night_state.left[0]
    if night_state.step != name:
        _start_step(night_state, name)
    if now >= datetime.fromisoformat(night_state.ends_at):
        night_state.cut_short = name
        return _finish_run(night_state, f"cut short in step {name}: the next nightly run starts with this step")
    started = time.monotonic()
    result = _try_step(job, name, night_state)
    night_state.seconds += time.monotonic() - started
    if isinstance(result, str):
        metrics.record_job(name, night_state.seconds, well=False)
        night_state.failed[name] = result
        return _next_step(night_state, Step(0, {}, finished=True, notes=(f"{name} failed: {result}",)))
    night_state.inner, night_state.done = result.state, night_state.done + result.done
    counts = {f"{name}.{counter}": count for counter, count in result.counts.items()}
    step_notes = tuple(f"{name}: {note}" for note in result.notes)
    if not result.finished:
        return Step(
            result.done, vars(night_state), finished=False, counts={name: result.done, **counts}, notes=step_notes
        )
    metrics.record_job(name, night_state.seconds, well=True)
    ended = Step(
        result.done,
        {},
        finished=True,
        counts={name: result.done, **counts},
        notes=(*step_notes, f"{name}: {night_state.done}"),
    )
    return _next_step(night_state, ended)


def _start_run(tx: database.Transaction, job: Job, now: datetime) -> _NightState:
    names = list(job.parameters.get("steps", STEPS))
    cut_short = schedules.cut_short(tx, job.tenant_id, KIND)
    # Start with the step that was cut short: otherwise, steps after a step that takes whole nights would never run.
    if cut_short in names[1:]:
        names = names[names.index(cut_short) :] + names
    as_of = job.parameters.get("as_of", now.isoformat())
    ends_at = now + timedelta(hours=settings().night_hours)
    return _NightState(as_of, ends_at.isoformat(), names, None, {}, 0, {})


def _start_step(place: _NightState, name: str) -> None:
    place.step, place.inner, place.done, place.seconds = name, {}, 0, 0.0


def _try_step(job: Job, name: str, place: _NightState) -> Step | str:
    """Run a slice of the step; return its result, or the name of the error that made it fail."""
    deadline = time.monotonic() + STEP_SECONDS
    try:
        return STEPS[name](job.tenant_id, datetime.fromisoformat(place.as_of), place.inner, deadline)
    except Exception as error:
        if is_transient(error):
            raise
        log.exception("night_step_failed", job=str(job.job_id), tenant=str(job.tenant_id), step=name)
        return stored_name(error)


def _next_step(place: _NightState, did: Step) -> Step:
    """Advance to the next step, or finish the run after the last step; return the result of the step that has ended."""
    place.left = place.left[1:]
    if not place.left:
        return _finish_run(place, *did.notes, done=did.done, counts=did.counts)
    _start_step(place, place.left[0])
    return Step(did.done, vars(place), finished=False, counts=did.counts, notes=did.notes)


def _finish_run(place: _NightState, *notes: str, done: int = 0, counts: dict[str, int] | None = None) -> Step:
    place.step = place.cut_short
    failure = ", ".join(f"{name}: {error}" for name, error in place.failed.items()) or None
    metrics.count("runs_failed" if failure else "runs_done")
    return Step(done, vars(place), finished=True, counts=counts or {}, notes=notes, failure=failure)
