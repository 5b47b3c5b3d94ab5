"""No field of the policy is without effect: each one, changed alone, changes a result, or a test shows its effect.

`PROBES` compute results from a policy without a service. A field that none of them covers needs a line in `SHOWN`, with
the test that shows its effect: a new field without either fails here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from pydantic import ValidationError

from app.domain.consolidation.clustering import ComparedMemories, group_memories
from app.domain.consolidation.group_decision import Members, decide_group
from app.domain.dynamics.state import DAY_SECONDS, new
from app.domain.evaluation.self_test_rules import is_due
from app.domain.ingest.memory import KINDS
from app.domain.policy.policy import Policy
from app.domain.privacy.retention import PersonalData, compute_expiry
from app.domain.recall.conversation_features import read_form
from app.domain.recall.threshold import best_threshold, relevance_threshold
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.scoring import blend_scores
from app.domain.search.signals import compute_parts
from app.domain.strength import importance, review
from app.domain.strength.counted_uses import OrderedUses, UseTimes, effective_uses
from app.domain.tiers.decay_tier import CurrentStrength, next_due_at
from app.domain.tiers.tier_decision import decide_tiers, fixed_due_at, fresh_facts
from app.services.consolidation.merge_plan import merge_rules
from tests.alternatives import leaves, merged, nested, others
from tests.domain.dynamics.batches import START

TESTS = Path(__file__).parents[2]
ROWS = 1_000
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)

SHOWN: dict[str, str] = {
    "language": "services/enrichment/test_index.py::test_the_language_is_the_policys",
    "time_zone": "services/enrichment/test_index.py::test_the_date_follows_the_time_zone_of_the_policy",
    "night.starts_at": "services/jobs/test_schedule.py::test_another_hour_moves_the_next_night_at_once",
    "night.jitter_seconds": "services/jobs/test_schedule.py::test_each_tenant_has_its_night_in_its_own_time",
    "night.catch_up_hours": "services/jobs/test_schedule.py::test_a_night_missed_for_too_long_is_noted_and_skipped",
    "ranking.context": "services/search/test_search.py::test_weights_are_the_policys",
    "ranking.rerank": "services/search/test_rerank.py::test_the_policy_may_ask_for_it_and_the_search_may_refuse",
    "budget.tokens": "services/tenants/test_budget.py::test_a_tenants_own_limit_counts_where_it_is_smaller",
    "budget.cost": "services/tenants/test_field_effects.py::test_a_limit_of_cost_stops_a_tenant",
    "privacy.identities": "privacy/test_identities.py::test_a_year_of_talk_loses_nothing_by_names_and_addresses",
    "promotion.keeps": "domain/tiers/test_promoted.py::test_001_a_promoted_memory_is_retained_where_the_policy_says_so",
    "protection.keep_chance_above": (
        "services/tiers/test_keep_calibration.py::test_a_change_of_protection_is_decided_again_by_the_next_sweep"
    ),
    "tiers.deleted_keep_chance_below": (
        "domain/tiers/test_keep_rule.py::test_a_higher_threshold_archives_more_but_deletes_no_more"
    ),
    "tiers.target_active_share": (
        "services/tiers/test_keep_calibration.py::test_the_night_finds_the_threshold_of_the_target_share"
    ),
    "forgetting.learned": (
        "services/tenants/test_learned_rates.py::test_the_night_learns_as_the_policy_says_and_once_a_week"
    ),
    "forgetting.by_content": "domain/strength/test_profile_hints.py::test_mnemex_weighs_by_topic",
    "forgetting.by_category": "domain/strength/test_profile_hints.py::test_mnemex_paces_by_category",
    "recall.sources": "api/memories/test_sources.py::test_the_policy_restricts_recall_to_sources",
    "changes.keep_days": "services/changes/test_reported_changes.py::test_a_night_removes_expired_changes",
    "decay_from": "api/memories/test_live.py::test_what_fades_from_when_it_happened_is_under_its_policy_even_then",
    "protection.never_forget_tags": "services/tenants/test_field_effects.py::test_tags_and_categories_protect",
    "protection.never_forget_categories": "services/tenants/test_field_effects.py::test_tags_and_categories_protect",
    "privacy.further": "services/tiers/test_expiry.py::"
    "test_a_category_of_the_callers_ends_to_the_second_whatever_speaks_for_it",
    "privacy.regions": "services/tiers/test_expiry.py::"
    "test_numbers_are_read_as_those_of_the_time_zones_country_or_the_policys",
    "consolidation.at_night": "services/consolidation/test_consolidation_run.py::"
    "test_a_night_that_is_not_for_it_does_it_where_there_is_much",
    "consolidation.paused": "services/tiers/test_tier_moves.py::"
    "test_paused_nothing_is_merged_by_itself_and_by_hand_it_is",
    "consolidation.memories_above": "services/consolidation/test_consolidation_run.py::"
    "test_a_night_that_is_not_for_it_does_it_where_there_is_much",
    "reinforcement.by_observation": "services/uses/test_observations.py::test_observations_may_be_ignored",
    "reinforcement.by_search": "api/memories/test_uses.py::test_the_policy_decides_where_the_search_does_not",
    "reinforcement.by_search_share": "api/memories/test_uses.py::"
    "test_the_policy_says_how_near_the_best_a_result_is_used",
    "ranking.in_context": "services/recall/test_importance_in_context.py::test_the_context_reorders_a_search",
    "recall.by": "services/recall/test_importance_in_context.py::"
    "test_a_recall_is_ordered_by_relevance_or_by_importance",
    "recall.most": "services/recall/test_recall.py::test_relevance_is_above_the_bar_and_the_policy_moves_it",
    "recall.review_boost": "services/recall/test_recall.py::"
    "test_what_is_due_for_review_comes_before_what_is_as_relevant_and_no_irrelevant_comes_up",
    "recall.cues": "services/recall/test_recall_cues.py::test_the_policy_can_do_without",
    "recall.token_budget": "services/tenants/test_field_effects.py::test_a_recalls_budget_is_the_policys",
    "self_tests.sample": "services/evaluation/test_self_tests.py::"
    "test_a_dry_run_names_what_the_next_run_asks_and_writes_nothing",
    "self_tests.found_within": "services/evaluation/test_self_tests.py::"
    "test_memories_that_are_much_alike_fail_for_each_other",
    "self_tests.speed_p95_ms": "services/evaluation/test_self_tests.py::"
    "test_speed_is_that_of_the_searches_against_the_policys_target",
    "self_tests.by_model": "services/tenants/test_field_effects.py::test_questions_may_do_without_a_model",
    "supersession.corrections": "services/enrichment/test_corrections.py::test_a_policy_without_them_has_none",
    "supersession.asked_a_night": "services/consolidation/test_contradictions.py::"
    "test_without_a_model_or_where_the_policy_wants_none_nothing_is_asked",
    "supersession.approve": "services/consolidation/test_contradictions.py::"
    "test_the_policy_may_approve_but_for_what_is_protected",
    "quota_bytes": "services/memories/test_recount.py::test_a_quota_is_told_and_nothing_is_refused",
    "quota_near": "services/tenants/test_field_effects.py::test_a_quota_is_near_from_the_policys_share",
    "history_days": "services/tenants/test_field_effects.py::test_a_history_lasts_as_long_as_the_policy_says",
    "record_searches": "api/memories/test_search_records.py::test_without_consent_nothing_is_recorded",
    "record_searches_days": "api/memories/test_search_records.py::"
    "test_records_expire_after_the_policys_days_and_without_consent",
}
"""Tests below `tests` that show the effect of a field on a running service, by field."""


def tiers(policy: Policy) -> Iterator[Any]:
    """Yield the tiers of memories of all ages, strengths, kinds and marks, and the next time each may change."""
    random = np.random.default_rng(1)
    now = START + 500 * DAY_SECONDS
    created = now - random.choice([3, 6.9, 30, 89, 95, 200, 400], ROWS) * DAY_SECONDS
    state = new(created, salience=random.random(ROWS) ** 2, kind=random.integers(0, len(KINDS), ROWS))
    state = replace(state, access_count=random.choice([0, 1, 2, 3, 30, 60, 120], ROWS).astype(np.float64))
    seen = CurrentStrength(random.random(ROWS) ** 6, random.random(ROWS) ** 2)
    facts = replace(fresh_facts(created), kinds=random.integers(-1, len(KINDS), ROWS).astype(np.int8))
    yield decide_tiers(policy.rules, facts, state, now, seen).tiers
    yield fixed_due_at(policy.rules, facts, now, seen)
    yield next_due_at(policy.thresholds, policy.importance, policy.model, state, now, seen)


def important(policy: Policy) -> Iterator[Any]:
    """Yield importance with and without a context, and what decays by it."""
    random = np.random.default_rng(2)
    state = new(START + random.uniform(0, 90, ROWS) * DAY_SECONDS, salience=random.random(ROWS))
    state = replace(state, access_count=random.integers(0, 200, ROWS).astype(np.float64))
    now = START + 100 * DAY_SECONDS
    yield importance.importance(policy.importance, state, now)
    yield importance.importance(policy.importance, state, now, random.random(ROWS))
    yield policy.model.strength(state, now)


def searched(policy: Policy) -> Iterator[Any]:
    """Yield the scores of a conversation's memories for three questions."""
    texts = ["I moved to Oslo on Monday", "Bea: we ate in May 2023", "Which bus goes there?", "The pump costs 40 euros"]
    candidates = [
        Candidate(
            UUID(int=place + 1), text, None, "thread", None, None, None, [],
            datetime(2023, 5, 6 + 8 * place, tzinfo=UTC), AT, "active",
            words=1 / (place + 1), relevance=place / 4, cosine=place / 4, role="user" if place % 2 else "assistant",
            before_id=UUID(int=place) if place else None,
        )
        for place, text in enumerate(texts)
    ]  # fmt: skip
    seen = np.linspace(0.2, 0.9, len(texts))
    vitals = CandidateStrength(seen, seen[::-1], seen**2, seen, seen)
    for query in ("Where do I live now?", "What did Bea eat in May 2023?", "When did I move to Oslo?"):
        parts = compute_parts(candidates, query, policy.ranking, AT, soft_words=seen[::-1])
        yield blend_scores(candidates, parts, vitals, policy.ranking, parameters=policy.model.parameters).scores


def private(policy: Policy) -> Iterator[Any]:
    """Yield the expiry of memories with every category, given or found, and any confidence."""
    count = len(policy.privacy.names)
    bits = np.array([1 << place for place in range(count)] * 8 + [0] * 8)
    none, half = np.zeros_like(bits), np.arange(len(bits)) % 2 == 0
    pii = np.linspace(0, 1, len(bits))
    never = np.full(len(bits), np.inf)
    for given, found in ((bits, none), (none, bits)):
        personal = PersonalData(given, found, pii, half, never, never)
        expiry = compute_expiry(policy.privacy, personal, np.full(len(bits), START))
        yield from (expiry.at, expiry.by_risk)


def consolidated(policy: Policy) -> Iterator[Any]:
    """Yield the groups of similar memories and the verdicts on groups of every kind."""
    random, rules = np.random.default_rng(4), policy.consolidation
    count = 120
    centres = random.normal(size=(12, 8))
    vectors = centres[np.arange(count) % 12] + 0.5 * random.normal(size=(count, 8))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    memories = ComparedMemories(
        ids=[UUID(int=place + 1) for place in range(count)],
        subjects=[None] * count,
        threads=[f"t{place % 12}" if place % 3 else None for place in range(count)],
        entities=[
            [["oslo", "bea"], ["oslo", "kim"], ["oslo", "bea", "kim"]][place // 12 % 3] for place in range(count)
        ],
        said_at=START + random.uniform(0, 3 * 3600, count),
        vectors=vectors,
        is_new=np.ones(count, np.bool_),
    )
    yield [group.ids for group in group_memories(memories, rules)]
    yield merge_rules(policy)[1]
    for seed in range(60):
        random = np.random.default_rng(seed)
        size = int(random.integers(2, 7))
        members = Members(
            importance=random.uniform(*((0.1, 0.5), (0.1, 0.9), (0.45, 0.65))[seed % 3], size),
            age_days=random.choice([random.uniform(5, 20), random.uniform(25, 70)]) + random.uniform(0, 3, size),
            said_at=START + random.uniform(0, DAY_SECONDS, size),
            threads=np.full(size, -1),
            is_kept=np.zeros(size, np.bool_),
            is_protected=np.zeros(size, np.bool_),
            days=random.integers(0, 2, size),
            on_day=np.full(size, 2),
        )
        for by_cohesion in (False, True):
            verdict = decide_group(rules, members, float(random.uniform(0.6, 1)), rules.level, by_cohesion=by_cohesion)
            yield (verdict.action, verdict.level, verdict.taken.tolist(), verdict.waits)


def reviewed(policy: Policy) -> Iterator[Any]:
    """Yield the intervals of reviews, the queue and the danger zone."""
    rules, seen = policy.review, np.linspace(0, 1, 30)
    for interval in (0.0, 1.0, 6.0, 400.0, 30_000.0):
        yield review.next_interval_days(rules, np.full(30, interval), seen)
    yield review.review_queue(rules, seen, np.linspace(9, 0, 30))
    yield review.danger_priority(rules, seen)
    yield [review.blend_share(None, rules, profile) for profile in ("spec", "mnemex")]
    yield review.review_queue(rules, seen, np.tile([1.0, 1.2, 2.0], 10))


def used(policy: Policy) -> Iterator[Any]:
    """Yield which of a session's uses of one memory count."""
    rows, at = np.zeros(40, np.intp), START + np.arange(40.0) * 20
    none = np.zeros(40)
    uses = OrderedUses(rows, np.zeros(40, np.int64), at, none > 0, none, none, none > 0)
    known = UseTimes(rows[:0], np.zeros(0, np.int64), at[:0])
    yield effective_uses(uses, known, policy.reinforcement.refractory_seconds)


def scheduled(policy: Policy) -> Iterator[Any]:
    """Yield when the night starts and whether it tests, and the thresholds of a recall."""
    yield policy.night.cron
    yield [
        is_due(policy.self_tests, last, AT, policy.time_zone)
        for last in (None, AT - timedelta(days=5), AT - timedelta(days=9))
    ]
    for said in (["The pump is broken again"], ["Where do I live?"]):
        form = read_form(said, frozenset())
        yield relevance_threshold(None, policy.recall, form, has_single_message=True)
        yield best_threshold(None, policy.recall, form, has_single_message=True)


PROBES: tuple[Callable[[Policy], Iterator[Any]], ...] = (
    tiers, important, searched, private, consolidated, reviewed, used, scheduled,
)  # fmt: skip
BASES: tuple[dict[str, Any], ...] = ({}, {"protection": {"salience_above": 1.0}})
"""Settings under which others count: unprotected by their salience, more memories can be deleted."""


def results(given: dict[str, Any]) -> list[str]:
    policy = Policy.model_validate(given)
    return [repr(np.asarray(each, object).tolist()) for probe in PROBES for each in probe(policy)]


@cache
def usual(place: int) -> list[str]:
    return results(BASES[place])


def has_effect(path: str, value: Any, hint: Any) -> bool:
    for place, base in enumerate(BASES):
        for other in others(value, hint):
            try:
                found = results(merged(base, nested(path, other)))
            except ValidationError:
                continue
            if found != usual(place):
                return True
    return False


FIELDS = [each for each in leaves(Policy()) if not each[0].startswith("forgetting.")]
FORGETTING = [each[0] for each in leaves(Policy()) if each[0].startswith("forgetting.")]


@pytest.mark.parametrize(("path", "value", "hint"), FIELDS, ids=[each[0] for each in FIELDS])
def test_every_field_has_an_effect(path: str, value: Any, hint: Any) -> None:
    assert path in SHOWN or has_effect(path, value, hint), f"{path} changes no result, and no test is named for it"


@pytest.mark.parametrize("path", SHOWN)
def test_the_named_tests_exist_and_set_the_field(path: str) -> None:
    file, _, name = SHOWN[path].partition("::")
    source = (TESTS / file).read_text()
    [test] = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef) and each.name == name]
    text = ast.get_source_segment(source, test) or ""
    decorated = "\n".join(ast.get_source_segment(source, each) or "" for each in test.decorator_list)
    assert path.rpartition(".")[2] in text + decorated, f"{SHOWN[path]} doesn't mention {path}"


def test_every_named_field_exists() -> None:
    known = {each[0] for each in leaves(Policy())}
    assert set(SHOWN) <= known
    assert set(FORGETTING) - {"forgetting.profile", "forgetting.parameters"} <= set(SHOWN)
