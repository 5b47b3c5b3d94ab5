"""`/v1/policy` over HTTP: reading, refusals and dry runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import as_full_json
from app.domain.policy.presets import PRESETS
from tests.api.caller import Api, fields
from tests.services.strength_rows import fill

PATH = "/v1/policy"


def put(api: Api, **body: Any) -> dict[str, Any]:
    answer = api.put(PATH, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def days_ahead(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


def test_the_policy_in_force_is_shown_with_all_of_its_values(api: Api) -> None:
    found = api.get(PATH).json()
    names = {"version", "effective_at", "status", "is_learned", "latest_version", "next", "learned", "policy"}
    assert found.keys() == names
    assert (found["version"], found["status"], found["latest_version"], found["next"]) == (1, "in force", 1, None)
    assert found["policy"] == as_full_json(Policy())
    assert found["policy"]["forgetting"]["parameters"]["base_per_day"] == 0.1
    assert found["policy"]["importance"]["weights"]["salience"] == 0.35


def test_what_is_shown_can_be_edited_and_sent_back(api: Api) -> None:
    shown = api.get(PATH).json()["policy"]
    assert put(api, policy=shown)["changes"] == []
    shown["forgetting"]["parameters"]["law"] = "product"
    changed = put(api, policy=shown)
    assert changed["changes"] == [{"field": "forgetting.parameters.law", "from": "quadratic", "to": "product"}]
    assert (changed["version"], changed["latest_version"], changed["policy"]) == (2, 2, shown)
    assert api.get(PATH).json()["policy"] == shown
    assert api.get(PATH, params={"version": 1}).json()["policy"] == as_full_json(Policy())


def test_a_change_for_later_is_shown_as_next(api: Api) -> None:
    at = days_ahead(3)
    assert put(api, policy={"history_days": 9}, effective_at=at)["job_id"] is None
    found = api.get(PATH).json()
    assert (found["version"], found["latest_version"], found["next"]["version"]) == (1, 2, 2)
    assert datetime.fromisoformat(found["next"]["effective_at"]) == datetime.fromisoformat(at)
    assert put(api)["superseded"] == [2]
    assert api.get(PATH).json()["next"] is None


def test_versions_are_listed_by_page_latest_first(api: Api) -> None:
    for days in range(30, 34):
        put(api, policy={"history_days": days})
    seen: list[int] = []
    cursor: str | None = None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = api.get(f"{PATH}/versions", params=params).json()
        seen += [one["version"] for one in page["versions"]]
        assert all(one.keys() == {"version", "effective_at", "status", "is_learned"} for one in page["versions"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [5, 4, 3, 2, 1]
    for wrong in ("x", "-1", "9" * 40, "²"):
        answer = api.get(f"{PATH}/versions", params={"cursor": wrong})
        assert (answer.status_code, fields(answer)) == (422, ["cursor"])


def test_a_dry_run_tells_the_effects_and_changes_nothing(api: Api) -> None:
    fill(api.service, api.tenant, Policy().model, 60)
    body = {"policy": {"tiers": {"archived_below": 0.9}}, "dry_run": True}
    found = put(api, **body)
    assert (found["version"], found["latest_version"]) == (2, 1)
    assert found["changes"] == [{"field": "tiers.archived_below", "from": 0.3, "to": 0.9}]
    effects = found["effects"]
    assert effects.keys() == {"memories", "complete", "tiers", "moves", "sample", "later", "found_threshold", "lost"}
    assert effects["memories"] == sum(effects["tiers"]["after"].values()) == 60
    assert effects["complete"]
    [move] = [one for one in effects["moves"] if one["from"] == "active"]
    assert move["to"] == "archived"
    assert move["memories"] == effects["tiers"]["before"]["active"] - effects["tiers"]["after"]["active"] > 0
    assert len(effects["sample"]) == min(20, sum(one["memories"] for one in effects["moves"]))
    assert effects["later"]["days"] == 30
    assert api.get(PATH).json()["version"] == 1

    lost = put(api, policy={"forgetting": {"profile": "mnemex"}}, dry_run=True)["effects"]["lost"]
    assert [one["what"] for one in lost] == ["multiplier_0"]
    assert "multiplies" in lost[0]["why"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_stored_as_plain_values(api: Api, name: str) -> None:
    put(api, policy={"forgetting": {"profile": "mnemex", "parameters": {"alpha": 2.0}}})
    made = put(api, preset=name)
    stored = api.service.one("SELECT body FROM policies WHERE version = 3") if made["version"] == 3 else None
    assert stored is not None
    assert "preset" not in stored
    for part, values in PRESETS[name].items():
        defaults = as_full_json(Policy())[part]
        expected = {field: defaults[field] if value is None else value for field, value in values.items()}
        assert {field: stored[part][field] for field in values} == expected
    if "forgetting" not in PRESETS[name]:
        assert stored["forgetting"]["parameters"] == {"alpha": 2.0}, "parameters that the preset omits remain"
    changed = put(api, preset=name, policy={"history_days": 5})
    assert [one["field"] for one in changed["changes"]] == ["history_days"]


def test_parameters_are_not_carried_over_to_another_profile(api: Api) -> None:
    put(api, policy={"forgetting": {"parameters": {"law": "linear"}}})
    made = put(api, policy={"forgetting": {"profile": "mnemex"}})
    assert [(one["field"], one["from"], one["to"]) for one in made["changes"]] == [
        ("forgetting.profile", "spec", "mnemex"),
        ("forgetting.parameters.law", "linear", None),
    ]
    back = put(api, policy={"forgetting": None})
    assert back["policy"]["forgetting"] == as_full_json(Policy())["forgetting"]


BAD: list[tuple[dict[str, Any], str, Any, Any]] = [
    ({"forgetting": {"profile": "mnemex", "parameters": {"alpha": 99}}}, "forgetting.parameters.alpha", 99, 20),
    ({"forgetting": {"parameters": {"kinds": {"semantic": -1}}}}, "forgetting.parameters.kinds.semantic", -1, 0),
    ({"forgetting": {"parameters": {"law": "cubic"}}}, "forgetting.parameters.law", "cubic", None),
    ({"forgetting": {"parameters": {"wish": 1}}}, "forgetting.parameters.wish", None, None),
    ({"forgetting": {"parameters": {"importance": {}}}}, "forgetting.parameters.importance", None, None),
    ({"forgetting": {"parameters": 5}}, "forgetting.parameters", 5, None),
    ({"forgetting": {"profile": "linear"}}, "forgetting.profile", "linear", None),
    ({"forgetting": {"profile": "a\0b"}}, "forgetting.profile", "a\0b", None),
    ({"forgetting": {"profile": ["spec"]}}, "forgetting.profile", None, None),
    ({"importance": {"weights": {"recency": 1.5}}}, "importance.weights.recency", 1.5, 1),
    ({"importance": {"weights": {"recency": 0, "frequency": 0, "salience": 0}}}, "importance.weights", None, None),
    ({"tiers": {"archived_below": 0.1}}, "tiers", None, None),
    ({"tiers": []}, "tiers", None, None),
    ({"review": {"session_limit": 0}}, "review.session_limit", 0, 1),
    ({"ranking": {"words": 11}}, "ranking.words", 11, 10),
    ({"time_zone": "Mars/Olympus"}, "time_zone", "Mars/Olympus", None),
    ({"language": "x" * 500}, "language", 500, None),
    ({"wish": 1}, "wish", None, None),
    ({"wish": {"a": {"b": {}}}}, "wish", None, None),
    ({"history_days": 0}, "history_days", 0, 1),
]


@pytest.mark.parametrize(("policy", "field", "value", "limit"), BAD, ids=lambda part: str(part)[:50])
def test_a_wrong_field_is_named_with_its_limit_and_value(
    api: Api, policy: dict[str, Any], field: str, value: Any, limit: Any
) -> None:
    for method, path, body, key in (
        ("PUT", PATH, {"policy": policy}, ""),
        ("PUT", PATH, {"policy": policy, "dry_run": True}, ""),
        ("POST", "/v1/admin/tenants", {"name": "new", "policy": policy}, api.admin.key),
    ):
        answer = api.request(method, path, json=body, key=key)
        assert answer.status_code == 422, answer.text
        [error] = answer.json()["errors"]
        assert (error["field"], error.get("value"), error.get("limit")) == (f"policy.{field}", value, limit), path
    assert api.get(PATH).json()["latest_version"] == 1


def test_an_unknown_profile_or_preset_is_told_the_known_ones(api: Api) -> None:
    answer = api.put(PATH, json={"policy": {"forgetting": {"profile": "linear"}}})
    assert "use one of spec, mnemex, cmm, memory_decay" in answer.json()["detail"]
    answer = api.put(PATH, json={"preset": "gardening"})
    assert (answer.status_code, fields(answer)) == (422, ["preset"])
    assert "meeting_notes" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"effective_at": "2020-01-01T00:00:00Z"}, 422, "effective_at"),
        ({"effective_at": "9999-12-31T23:59:59-14:00"}, 422, "effective_at"),
        ({"effective_at": "2030-01-01T00:00:00"}, 422, "effective_at"),
        ({"expected_version": -1}, 422, "expected_version"),
        ({"expected_version": 2**31}, 422, "expected_version"),
        ({"policy": None}, 422, "policy"),
        ({"wish": 1}, 422, "wish"),
    ],
    ids=str,
)
def test_a_wrong_request_is_refused(api: Api, body: dict[str, Any], status: int, field: str) -> None:
    answer = api.put(PATH, json={"policy": {"history_days": 7}} | body)
    assert (answer.status_code, fields(answer)) == (status, [field])


def test_a_policy_nested_deeply_is_refused(api: Api) -> None:
    nested: dict[str, Any] = {}
    for _ in range(200):
        nested = {"a": nested}
    answer = api.put(PATH, json={"policy": {"forgetting": {"parameters": nested}}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["limit"] == 8


def test_the_latest_version_may_be_expected(api: Api) -> None:
    assert put(api, policy={"history_days": 7}, expected_version=1)["latest_version"] == 2
    for dry_run in (True, False):
        answer = api.put(PATH, json={"policy": {"history_days": 8}, "expected_version": 1, "dry_run": dry_run})
        assert answer.status_code == 409
        fields(answer)
    assert put(api, policy={"history_days": 7}, expected_version=1)["version"] == 2, "a repeat is idempotent"


def test_policies_are_of_the_own_tenant(api: Api) -> None:
    put(api, policy={"history_days": 7})
    other = api.service.tenant()
    assert api.get(PATH, key=other.key).json()["policy"]["history_days"] == 365
    assert len(api.get(f"{PATH}/versions", key=other.key).json()["versions"]) == 1
    assert api.get(PATH, key=other.key, params={"version": 2}).status_code == 404
