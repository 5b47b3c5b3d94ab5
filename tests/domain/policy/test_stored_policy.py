"""Reading stored policies, which another version may have written."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from app.domain.policy.policy import Policy

NESTED = ("ranking", "night", "budget", "recall", "review", "consolidation", "privacy", "tiers", "reinforcement")


def test_fields_of_a_newer_version_are_ignored_and_all_others_kept() -> None:
    body = Policy(quota_near=0.5, language="german").model_dump(mode="json")
    body["of_a_newer_version"] = 1
    for section in NESTED:
        body[section]["of_a_newer_version"] = {"x": 1}
    assert Policy.load_stored(json.dumps(body)) == Policy(quota_near=0.5, language="german")


def test_a_stored_value_out_of_range_is_still_an_error() -> None:
    with pytest.raises(ValidationError):
        Policy.load_stored(json.dumps({"quota_near": 2}))


def test_a_callers_unknown_field_is_still_refused() -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"of_a_newer_version": 1})
    with pytest.raises(ValidationError):
        Policy.model_validate({"ranking": {"of_a_newer_version": 1}})
