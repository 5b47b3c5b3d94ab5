"""Changes applied to a policy."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import amend_policy, as_full_json, list_differences, read
from app.domain.policy.presets import PRESETS
from app.errors import Invalid

CHOSEN = {name: amend_policy(Policy(), {"history_days": 7}, name) for name in PRESETS} | {"none": Policy()}


def test_a_whole_policy_laid_over_another_is_that_policy() -> None:
    for names in product(CHOSEN, repeat=2):
        before, after = (CHOSEN[name] for name in names)
        made = amend_policy(before, as_full_json(after))
        assert as_full_json(made) == as_full_json(after), names
        assert list_differences(after, made) == [], names
        assert (list_differences(before, made) == []) == (as_full_json(before) == as_full_json(made)), names


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_told_as_changed_is_what_the_other_way_takes_back(name: str) -> None:
    there = list_differences(Policy(), CHOSEN[name])
    back = list_differences(CHOSEN[name], Policy())
    changed = {one.field: (one.before, one.after) for one in there}
    assert changed == {one.field: (one.after, one.before) for one in back}
    assert len(changed) == len(there) == len(back)


def test_null_is_back_to_the_default_at_every_depth() -> None:
    changed = read({"budget": {"tokens": 5}, "forgetting": {"parameters": {"kinds": {"system": 1, "semantic": 1}}}})
    made = amend_policy(
        changed, {"budget": {"tokens": None}, "forgetting": {"parameters": {"kinds": {"system": None}}}}
    )
    assert made == read({"forgetting": {"parameters": {"kinds": {"semantic": 1}}}})
    assert amend_policy(changed, {"budget": None, "forgetting": None}) == Policy()


@pytest.mark.parametrize("given", [{"law": "linear"}, {"kinds": {"system": 2}}, {"base_per_day": "0.2"}, {}])
def test_parameters_are_kept_as_they_were_read_and_no_others(given: dict[str, Any]) -> None:
    kept = read({"forgetting": {"parameters": given}}).forgetting.parameters
    assert kept == ({"base_per_day": 0.2} if "base_per_day" in given else given)


def test_no_more_than_a_few_wrong_fields_are_told() -> None:
    with pytest.raises(Invalid) as refused:
        read({f"wish_{number}": 1 for number in range(1_000)})
    assert len(refused.value.errors) == 20
