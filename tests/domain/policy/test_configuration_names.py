"""The table of the sources' configuration names: every field exists, and has the default that the table states."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import as_full_json
from ops.checks.dynamics_page import PAGE

HEADING = "### Names of the configuration"
SEED_004 = """
importance.weights.recency importance.weights.frequency importance.weights.salience importance.weights.relevance
importance.recency_lambda importance.max_expected_accesses decay.base_rate decay.reinforcement_boost
decay.thresholds.soft_delete decay.thresholds.archive decay.thresholds.permanent_delete consolidation.trigger_count
consolidation.similarity_threshold consolidation.compression_target spaced_repetition.initial_interval
spaced_repetition.second_interval spaced_repetition.min_easiness spaced_repetition.max_easiness privacy.pii_max_days
privacy.financial_max_days privacy.casual_max_days
"""
"""Every name of seed 004's configuration example."""
SEED_001 = """
MNEMEX_REVIEW_BLEND_RATIO MNEMEX_REVIEW_DANGER_ZONE_MIN MNEMEX_REVIEW_DANGER_ZONE_MAX MNEMEX_AUTO_REINFORCE
MNEMEX_DECAY_MODEL MNEMEX_DECAY_LAMBDA MNEMEX_DECAY_BETA MNEMEX_FORGET_THRESHOLD MNEMEX_PROMOTE_THRESHOLD
"""
"""Every environment variable of seeds 000 and 001."""


def table() -> list[tuple[str, str, str]]:
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [(name.split("`")[1], field.split("`")[1], default) for name, field, default in rows]


def value(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body[name]
    return body


@pytest.mark.parametrize(("name", "field", "default"), table())
def test_a_name_is_a_field_with_its_default(name: str, field: str, default: str) -> None:
    """Seed 004, configuration example; seed 000, tuning; seed 001, configuration."""
    profile = "mnemex" if name.startswith("MNEMEX") else "spec"
    body = as_full_json(Policy.model_validate({"forgetting": {"profile": profile}}))
    shown = value(body, field)
    assert default == (shown if isinstance(shown, str) else json.dumps(shown).removesuffix(".0"))


def test_no_name_of_a_source_is_left_out() -> None:
    assert {name for name, _, _ in table()} == {*SEED_004.split(), *SEED_001.split()}
