"""Reading stored policies, which another version may have written."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from app.domain.policy.policy import Forgetting, Policy
from app.domain.policy.policy_defaults import follow_defaults
from app.domain.policy.policy_diff import amend_policy

NESTED = ("ranking", "night", "budget", "recall", "review", "consolidation", "privacy", "tiers", "reinforcement")


def test_fields_of_a_newer_version_are_ignored_and_all_others_kept() -> None:
    body = Policy(quota_near=0.5, language="german").model_dump(mode="json")
    body["of_a_newer_version"] = 1
    for section in NESTED:
        body[section]["of_a_newer_version"] = {"x": 1}
    assert Policy.load_stored(json.dumps(body)) == Policy(quota_near=0.5, language="german")


def test_null_is_stored_where_it_is_no_default() -> None:
    """Left out, a retention period without limit would become the default one, and delete memories."""
    periods = ("pii_days", "financial_days", "casual_days", "work_days", "archived_conversation_days")
    unlimited = Policy.model_validate({"privacy": dict.fromkeys(periods), "protection": {"salience_above": 0.3}})
    assert Policy.load_stored(unlimited.dump_stored()) == unlimited
    assert Policy.load_stored(Policy().dump_stored()) == Policy()


def test_null_is_left_out_where_it_is_the_default() -> None:
    """An earlier version refuses null in `protection.salience_above`."""
    stored = json.loads(Policy().dump_stored())
    assert "salience_above" not in stored["protection"]
    assert stored["protection"]["keep_chance_above"] == 0.11


def test_a_stored_value_out_of_range_is_still_an_error() -> None:
    with pytest.raises(ValidationError):
        Policy.load_stored(json.dumps({"quota_near": 2}))


def test_a_callers_unknown_field_is_still_refused() -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"of_a_newer_version": 1})
    with pytest.raises(ValidationError):
        Policy.model_validate({"ranking": {"of_a_newer_version": 1}})


def test_a_cmm_policy_stored_without_age_from_counts_from_the_last_use() -> None:
    """Seed 002, decay: what decayed before age could be counted from the end of the grace stays as it was."""
    stored = {"forgetting": {"profile": "cmm", "parameters": {"grace_days": 10}}}
    former, current = Policy.load_stored(json.dumps(stored)), Policy.model_validate(stored)
    assert former.forgetting.parameters == {"grace_days": 10, "age_from": "last_use"}
    assert current.forgetting.parameters == {"grace_days": 10, "age_from": "end_of_grace"}
    assert Policy.load_stored(current.model_dump_json()) == current
    assert amend_policy(former, {"history_days": 9}).forgetting == former.forgetting
    assert follow_defaults(former, 0).forgetting == former.forgetting
    reset = amend_policy(former, {"forgetting": {"parameters": {"age_from": None}}})
    assert reset.forgetting == current.forgetting
    assert Policy(forgetting=Forgetting(profile="cmm")).forgetting.parameters == {"age_from": "end_of_grace"}


@pytest.mark.parametrize("parameters", [7, [1], "x", None])
def test_parameters_that_are_no_object_are_refused(parameters: object) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"forgetting": {"profile": "cmm", "parameters": parameters}})
