"""Run self-tests: at intervals, query a sample of a tenant's memories and record which are found (seed 004 §4.3).

A memory that passes is strengthened once per run, without counting as used; one that fails is flagged for review. Half
of the memories queried in their own words are also queried by a paraphrase, and by recall: these tests only measure
retrieval quality, and neither strengthen nor flag. Only numbers are stored, no questions or answers, so an erasure
finds no words here, and a memory's rows are deleted with it. The searches are those of `search` and `recall`, without
uses, priming or reranking, and don't count in the metrics of callers' searches.

Everything is evaluated as of the run's time: memories used or changed later are neither sampled nor strengthened. Each
profile strengthens by its own rule for `Event.source` `test`: spec and cmm restore a share of the missing strength,
mnemex raises the multiplier, and memory_decay treats it as a use; recorded uses and their times never change.

A run costs one search per test, one model call per slice of questions if there is a provider, and one pass over the
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
from app.domain.dynamics.state import Event
from app.domain.dynamics.timeline import Era
from app.domain.evaluation import paraphrased_questions, question_generation, self_test_rules
from app.domain.evaluation.self_test_rules import ASKED, FLAGGING, Kind
from app.domain.jobs import Job, Step
from app.services.evaluation import self_test_kinds
from app.services.storage.memory_write import memory_write
from app.services.strength import memory_strength, rebase
from app.store import self_tests
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
"""Number of tests per slice, which is one model call."""
STALE: Final = timedelta(days=1)
"""Age after which an unfinished run isn't resumed."""
REWORDED: Final[tuple[Kind, ...]] = ("other_words", "recall")
"""Kinds of test that use the same paraphrased question."""
_SPARE: Final = 4
"""Oversampling factor, since some sampled memories can't be asked about."""


def run_job_slice(job: Job) -> Step:
    """Run a requested self-test for a few seconds, whether or not it is due."""
    return run_slice(job.tenant_id, rebase.reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def run_slice_when_due(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Run self-tests in the nightly run if the policy enables them and the last run is old enough."""
    if not state and not _is_due(tenant_id, as_of):
        return Step(0, state, finished=True)
    return run_slice(tenant_id, as_of, state, until)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue a run; its rows record which tests are still pending.

    Args:
        as_of: Sample as of this time; None for now. An unfinished run retains its own time.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one slice is always done.
    """
    if not state:
        return _start_run(tenant_id, as_of)
    run_id, done, counts = UUID(state["run_id"]), 0, Counter[str]()
    while True:
        kind, outcomes = _run_tests(tenant_id, run_id)
        done += len(outcomes)
        for one in outcomes:
            counts[f"{kind}_{'passed' if one.passed else 'failed'}"] += 1
            if one.brought == 0:
                counts[f"{kind}_empty"] += 1
        if kind is None or time.monotonic() >= until:
            return Step(done, state, finished=kind is None, counts=dict(counts))


def preview_run(tenant_id: UUID, as_of: datetime | None) -> list[PlannedTest]:
    """Return the tests that a run at this time would make, without writing anything."""
    with database.tenant(tenant_id) as tx:
        _, asked = _draw_tests(tx, tenant_id, as_of or database.now(tx))
        return asked


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
        seed, asked = _draw_tests(tx, tenant_id, as_of)
        if not asked:
            return Step(0, {}, finished=True, notes=("there is nothing to ask about",))
        target = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp()).policy.self_tests.speed_p95_ms
        run_id = uuid4()
        if not self_tests.start_run(
            tx, tenant_id, NewTestRun(run_id, as_of, seed, target), asked
        ):  # another worker has just begun one
            under_way = self_tests.read_last_run(tx, tenant_id)
            run_id = under_way.run_id if under_way else run_id
    return Step(0, {"run_id": str(run_id)}, finished=False, total=len(asked))


def _draw_tests(tx: database.Transaction, tenant_id: UUID, as_of: datetime) -> tuple[int, list[PlannedTest]]:
    """Return the next run's seed and its tests; memories under legal hold are excluded."""
    last = self_tests.read_last_run(tx, tenant_id)
    seed = self_test_rules.next_seed(tenant_id, last.run_id if last else None)
    era = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp())
    most = era.policy.self_tests.sample
    linked = self_tests.draw_links(tx, tenant_id, as_of, era.version, seed, _SPARE * most)
    single = self_tests.draw_memories(tx, tenant_id, as_of, era.version, seed, _SPARE * most)
    summaries = self_tests.draw_summaries(tx, tenant_id, as_of, era.version, seed, _SPARE * most)
    every = list(dict.fromkeys([*(end for link in linked for end in link), *single, *summaries]))
    held = holds.list_by_memory(tx, tenant_id, every).keys()
    said = {key: text for key, text in self_tests.read_texts(tx, tenant_id, every).items() if key not in held}
    askable = [key for key in single if key in said and question_generation.can_be_asked(said[key])]
    connections = [PlannedTest("connection", to, source) for source, to in linked if source in said and to in said]
    coherent = [PlannedTest("coherence", key) for key in summaries if key in said]
    reworded = askable[: paraphrased_questions.sample_size(most)]
    asked: list[PlannedTest] = [
        *connections[:most],
        *(PlannedTest("application", key) for key in askable[:most]),
        *(PlannedTest(kind, key) for kind in REWORDED for key in reworded),
        *coherent[:most],
    ]
    return seed, asked


def _run_tests(tenant_id: UUID, run_id: UUID) -> tuple[Kind | None, list[SelfTestOutcome]]:
    """Run a run's next tests, all of one kind, and record their outcomes; finish the run if none is left."""
    with database.tenant(tenant_id) as tx:
        run = self_tests.get(tx, tenant_id, run_id)
        if run is None or run.finished_at is not None:
            return None, []
        found = ((kind, self_tests.list_pending(tx, tenant_id, run_id, kind, SLICE)) for kind in ASKED)
        kind, asked = next((each for each in found if each[1]), (None, []))
        policy = memory_strength.load_timeline(tx, tenant_id).at(run.as_of.timestamp()).policy
    if kind is None:
        _finish_run(tenant_id, run)
        return None, []
    outcomes = self_test_kinds.TESTS[kind](tenant_id, run, asked, policy)
    return kind, _record_outcomes(tenant_id, run, kind, asked, outcomes)


def _record_outcomes(
    tenant_id: UUID, run: SelfTestRun, kind: Kind, asked: list[PlannedTest], outcomes: list[SelfTestOutcome]
) -> list[SelfTestOutcome]:
    """Write outcomes and their effects on the memories exactly once; return the outcomes that are new."""
    with memory_write(tenant_id, "content") as write:
        tx = write.tx
        # Memories deleted or hidden in between have no row to lock.
        there = set(states.lock(tx, tenant_id, [one.memory_id for one in outcomes]).ids)
        done = [one for one in outcomes if one.memory_id in there]
        fresh = self_tests.record_outcomes(tx, tenant_id, run.run_id, kind, done)
        known = {one.memory_id for one in done}
        lost = [one.memory_id for one in asked if one.memory_id not in known]
        if lost:
            self_tests.drop_tests(tx, tenant_id, run.run_id, kind, lost)
        outcomes = [one for one in done if one.memory_id in fresh]
        era = memory_strength.load_timeline(tx, tenant_id).at(run.as_of.timestamp())
        failed = [one.memory_id for one in outcomes if not one.passed]
        if kind in FLAGGING:
            raised = self_tests.list_passed(tx, tenant_id, run.run_id, kind)
            passed = [one.memory_id for one in outcomes if one.passed and one.memory_id not in raised]
            _strengthen_passed(tx, tenant_id, passed, run)
        if failed and kind in FLAGGING:
            reviews.flag_memories(tx, tenant_id, failed, run.as_of, era.policy.review.first_interval_days)
    metrics.count(f"self_tests_{kind}_passed", len(outcomes) - len(failed))
    metrics.count(f"self_tests_{kind}_failed", len(failed))
    if kind == "recall":
        metrics.count("self_tests_recall_empty", sum(one.brought == 0 for one in outcomes))
    return outcomes


def _strengthen_passed(tx: database.Transaction, tenant_id: UUID, memory_ids: list[UUID], run: SelfTestRun) -> None:
    """Strengthen memories that passed, as of the run; memories used or changed since then remain unchanged."""
    if not memory_ids:
        return
    now = float(round_to_microseconds(run.as_of.timestamp()))
    times = memory_strength.load_timeline(tx, tenant_id)
    era: Era = times.at(now)
    locked = states.lock(tx, tenant_id, memory_ids)
    locked = locked.only(np.flatnonzero((locked.state.anchored_at <= now) & (locked.versions <= era.version)))
    if not locked.ids:
        return
    held = memory_strength.advance_to_era(locked, times, now)
    tested = replace(held, state=era.dynamics.reinforce(held.state, Event(at=now, now=now, source="test")))
    memory_strength.write_uses(tx, tenant_id, tested, era, now)
    before, after = era.dynamics.strength(held.state, now), era.dynamics.strength(tested.state, now)
    history.add(tx, tenant_id, "test", tested.ids, EventChange(now, before, after, after))


def _finish_run(tenant_id: UUID, run: SelfTestRun) -> None:
    """Record a run's results; the speed counts if anything was searched for."""
    with database.tenant(tenant_id) as tx:
        results, took = self_tests.read_results(tx, tenant_id, run.run_id)
        p95 = self_test_rules.quantile(took, 0.95)
        is_quick = p95 is not None and p95 <= run.target_ms
        if p95 is not None:
            results["retrieval_speed"] = {"passed": int(is_quick), "failed": int(not is_quick)}
        finished = self_tests.finish_run(tx, tenant_id, run.run_id, results, self_test_rules.quantile(took, 0.5), p95)
    if finished and p95 is not None:
        metrics.count(f"self_tests_retrieval_speed_{'passed' if is_quick else 'failed'}")
