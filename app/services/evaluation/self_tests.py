"""Run self-tests: at intervals, query a sample of a tenant's memories and record which are found (seed 004 §4.3).

A memory that passes is strengthened once per run, which doesn't count as a use; a memory that fails is flagged for
review. Half of the memories queried in their own words are also queried by a paraphrase and through recall; these tests
only measure retrieval quality, and neither strengthen nor flag memories. Only numbers are stored, no questions or
answers, so there is no text to erase; a memory's rows are deleted with the memory. The tests call `search` and `recall`
without uses, priming or reranking, and don't count in the metrics of callers' searches.

Everything is evaluated as of the run's time: memories used or changed later are neither sampled nor strengthened. Each
profile strengthens by its own rule for `Event.source` `test`: spec and cmm restore a share of the missing strength,
mnemex raises the multiplier, and memory_decay treats it as a use; recorded uses and their times never change.

A run costs one search per test, one model call per slice of questions if a provider is configured, and one scan of the
tenant's rows to draw the sample.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np

from app import metrics
from app.domain.changes.types import SELF_TEST_FAILED
from app.domain.dynamics.state import Event
from app.domain.dynamics.timeline import Era
from app.domain.evaluation import paraphrased_questions, question_generation, self_test_rules
from app.domain.evaluation.self_test_rules import ASKED, FLAGGING, Kind
from app.domain.jobs import Job, Step
from app.services.evaluation import self_test_kinds
from app.services.storage.memory_write import memory_write
from app.services.strength import memory_strength, rebase
from app.store import self_tests
from app.store.changes import feed
from app.store.core import database
from app.store.core.binary_arrays import round_to_microseconds
from app.store.erasure import requests
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.privacy import holds
from app.store.self_tests import NewTestRun, PlannedTest, SelfTestOutcome, SelfTestRun
from app.store.strength import reviews, states

KIND: Final = "selftest"
STEP_SECONDS: Final = 2.0
SLICE: Final = 20
"""Maximum number of tests per slice; a slice makes at most one model call."""
STALE: Final = timedelta(days=1)
"""Age after which an unfinished run isn't resumed."""
REWORDED: Final[tuple[Kind, ...]] = ("other_words", "recall")
"""Kinds of test that use the same paraphrased question."""
_SPARE: Final = 4
"""Oversampling factor, since no question can be generated for some of the sampled memories."""


def run_job_slice(job: Job) -> Step:
    """Run a requested self-test for a few seconds, whether or not it is due."""
    return run_slice(job.tenant_id, rebase.reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def run_slice_when_due(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Run self-tests in the nightly run if the policy enables them and the last run is old enough."""
    if not state and not _is_due(tenant_id, as_of):
        return Step(0, state, finished=True)
    return run_slice(tenant_id, as_of, state, until)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Start a run, or continue it; the run's rows record which tests are still pending.

    Args:
        as_of: Sample as of this time; None for now. An unfinished run retains its own time.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one slice is always done.
    """
    if not state:
        return _start_run(tenant_id, as_of)
    run_id, processed, counts = UUID(state["run_id"]), 0, Counter[str]()
    while True:
        kind, outcomes = _run_tests(tenant_id, run_id)
        processed += len(outcomes)
        for outcome in outcomes:
            counts[f"{kind}_{'passed' if outcome.passed else 'failed'}"] += 1
            if outcome.brought == 0:
                counts[f"{kind}_empty"] += 1
        if kind is None or time.monotonic() >= until:
            return Step(processed, state, finished=kind is None, counts=dict(counts))


def preview_run(tenant_id: UUID, as_of: datetime | None) -> list[PlannedTest]:
    """Return the tests that a run as of this time would include, without writing anything."""
    with database.tenant(tenant_id) as tx:
        _, tests = _draw_tests(tx, tenant_id, as_of or database.now(tx))
        return tests


list_runs = database.in_tenant(self_tests.list_runs)
"""List runs, newest first, starting after `older_than` (start time and id)."""


def _is_due(tenant_id: UUID, as_of: datetime) -> bool:
    with database.tenant(tenant_id) as tx:
        policy = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp()).policy
        last = self_tests.read_last_run(tx, tenant_id)
    if last is not None and last.finished_at is None:
        return policy.self_tests.enabled
    return self_test_rules.is_due(policy.self_tests, last.as_of if last else None, as_of, policy.time_zone)


def _start_run(tenant_id: UUID, as_of: datetime | None) -> Step:
    """Insert a run with its sample, or return the unfinished run."""
    with database.tenant(tenant_id) as tx:
        as_of = as_of or database.now(tx)
        last = self_tests.read_last_run(tx, tenant_id)
    if last is not None and last.finished_at is None:
        if as_of - last.as_of < STALE:
            return Step(0, {"run_id": str(last.run_id)}, finished=False)
        _finish_run(tenant_id, last)
    with database.tenant(tenant_id) as tx:
        requests.lock_shared(tx, tenant_id)  # prevents a sampled memory from being hidden before its row is inserted
        seed, tests = _draw_tests(tx, tenant_id, as_of)
        if not tests:
            return Step(0, {}, finished=True, notes=("no memory can be tested",))
        target = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp()).policy.self_tests.speed_p95_ms
        run_id = uuid4()
        if not self_tests.start_run(
            tx, tenant_id, NewTestRun(run_id, as_of, seed, target), tests
        ):  # another worker has just begun one
            current_run = self_tests.read_last_run(tx, tenant_id)
            run_id = current_run.run_id if current_run else run_id
    return Step(0, {"run_id": str(run_id)}, finished=False, total=len(tests))


def _draw_tests(tx: database.Transaction, tenant_id: UUID, as_of: datetime) -> tuple[int, list[PlannedTest]]:
    """Return the next run's seed and its tests; memories under legal hold are excluded."""
    last = self_tests.read_last_run(tx, tenant_id)
    seed = self_test_rules.next_seed(tenant_id, last.run_id if last else None)
    era = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp())
    sample_size = era.policy.self_tests.sample
    linked = self_tests.draw_links(tx, tenant_id, as_of, era.version, seed, _SPARE * sample_size)
    single = self_tests.draw_memories(tx, tenant_id, as_of, era.version, seed, _SPARE * sample_size)
    summaries = self_tests.draw_summaries(tx, tenant_id, as_of, era.version, seed, _SPARE * sample_size)
    candidate_ids = list(dict.fromkeys([*(end for link in linked for end in link), *single, *summaries]))
    held_ids = holds.list_by_memory(tx, tenant_id, candidate_ids).keys()
    texts = {
        key: text for key, text in self_tests.read_texts(tx, tenant_id, candidate_ids).items() if key not in held_ids
    }
    askable = [key for key in single if key in texts and question_generation.can_be_asked(texts[key])]
    connection_tests = [
        PlannedTest("connection", to, source) for source, to in linked if source in texts and to in texts
    ]
    coherence_tests = [PlannedTest("coherence", key) for key in summaries if key in texts]
    reworded = askable[: paraphrased_questions.sample_size(sample_size)]
    tests: list[PlannedTest] = [
        *connection_tests[:sample_size],
        *(PlannedTest("application", key) for key in askable[:sample_size]),
        *(PlannedTest(kind, key) for kind in REWORDED for key in reworded),
        *coherence_tests[:sample_size],
    ]
    return seed, tests


def _run_tests(tenant_id: UUID, run_id: UUID) -> tuple[Kind | None, list[SelfTestOutcome]]:
    """Execute a run's next tests, all of one kind, and record their outcomes; finish the run if no test is left."""
    with database.tenant(tenant_id) as tx:
        run = self_tests.get(tx, tenant_id, run_id)
        if run is None or run.finished_at is not None:
            return None, []
        pending_by_kind = ((kind, self_tests.list_pending(tx, tenant_id, run_id, kind, SLICE)) for kind in ASKED)
        kind, tests = next((pending for pending in pending_by_kind if pending[1]), (None, []))
        policy = memory_strength.load_timeline(tx, tenant_id).at(run.as_of.timestamp()).policy
    if kind is None:
        _finish_run(tenant_id, run)
        return None, []
    outcomes = self_test_kinds.TESTS[kind](tenant_id, run, tests, policy)
    return kind, _record_outcomes(tenant_id, run, kind, tests, outcomes)


def _record_outcomes(
    tenant_id: UUID, run: SelfTestRun, kind: Kind, asked: list[PlannedTest], outcomes: list[SelfTestOutcome]
) -> list[SelfTestOutcome]:
    """Write outcomes and their effects on the memories exactly once; return the outcomes that are new."""
    with memory_write(tenant_id, "content") as write:
        tx = write.tx
        # Memories deleted or hidden in the meantime have no row to lock.
        existing_ids = set(states.lock(tx, tenant_id, [entry.memory_id for entry in outcomes]).ids)
        valid = [entry for entry in outcomes if entry.memory_id in existing_ids]
        recorded_ids = self_tests.record_outcomes(tx, tenant_id, run.run_id, kind, valid)
        tested_ids = {entry.memory_id for entry in valid}
        dropped_ids = [entry.memory_id for entry in asked if entry.memory_id not in tested_ids]
        if dropped_ids:
            self_tests.drop_tests(tx, tenant_id, run.run_id, kind, dropped_ids)
        outcomes = [entry for entry in valid if entry.memory_id in recorded_ids]
        era = memory_strength.load_timeline(tx, tenant_id).at(run.as_of.timestamp())
        failed = [entry.memory_id for entry in outcomes if not entry.passed]
        if kind in FLAGGING:
            already_passed = self_tests.list_passed(tx, tenant_id, run.run_id, kind)
            passed = [entry.memory_id for entry in outcomes if entry.passed and entry.memory_id not in already_passed]
            _strengthen_passed(tx, tenant_id, passed, run)
        if failed and kind in FLAGGING:
            reviews.flag_memories(tx, tenant_id, failed, run.as_of, era.policy.review.first_interval_days)
    metrics.count(f"self_tests_{kind}_passed", len(outcomes) - len(failed))
    metrics.count(f"self_tests_{kind}_failed", len(failed))
    if kind == "recall":
        metrics.count("self_tests_recall_empty", sum(entry.brought == 0 for entry in outcomes))
    return outcomes


def _strengthen_passed(tx: database.Transaction, tenant_id: UUID, memory_ids: list[UUID], run: SelfTestRun) -> None:
    """Strengthen memories that passed, as of the run's time; memories used or changed since then remain unchanged."""
    if not memory_ids:
        return
    now = float(round_to_microseconds(run.as_of.timestamp()))
    times = memory_strength.load_timeline(tx, tenant_id)
    era: Era = times.at(now)
    locked = states.lock(tx, tenant_id, memory_ids)
    locked = locked.only(np.flatnonzero((locked.state.anchored_at <= now) & (locked.versions <= era.version)))
    if not locked.ids:
        return
    stored = memory_strength.advance_to_era(locked, times, now)
    tested = replace(stored, state=era.dynamics.reinforce(stored.state, Event(at=now, now=now, source="test")))
    memory_strength.write_uses(tx, tenant_id, tested, era, now)
    before, after = era.dynamics.strength(stored.state, now), era.dynamics.strength(tested.state, now)
    history.add(tx, tenant_id, "test", tested.ids, EventChange(now, before, after, after))


def _finish_run(tenant_id: UUID, run: SelfTestRun) -> None:
    """Record a run's results; retrieval speed is included if any search was timed."""
    with database.tenant(tenant_id) as tx:
        results, latencies_ms = self_tests.read_results(tx, tenant_id, run.run_id)
        p95 = self_test_rules.quantile(latencies_ms, 0.95)
        is_fast = p95 is not None and p95 <= run.target_ms
        if p95 is not None:
            results["retrieval_speed"] = {"passed": int(is_fast), "failed": int(not is_fast)}
        finished = self_tests.finish_run(
            tx, tenant_id, run.run_id, results, self_test_rules.quantile(latencies_ms, 0.5), p95
        )
        if finished and any(result["failed"] for result in results.values()):
            feed.record(tx, tenant_id, SELF_TEST_FAILED, [run.run_id])
    if finished and p95 is not None:
        metrics.count(f"self_tests_retrieval_speed_{'passed' if is_fast else 'failed'}")
