"""`GET /v1/usage` over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.clients.llm.responses import Usage
from app.services.tenants import budget
from tests.api.caller import Api, fields
from tests.service import Tenant

pytestmark = pytest.mark.usefixtures("whole_day")

CALL = Usage(calls=1, input_tokens=1000, cached_tokens=400, output_tokens=100)


@pytest.fixture
def limited(api: Api) -> Api:
    """The API with limits of every kind and two tenants that have used tokens."""
    api.service.configure(
        openai_base_url="http://models.example:8443/secret/v1",
        prices='{"m": {"input": 1000}}',
        budget_tokens=2000,
        budget_cost=10,
        budget_total_tokens=10_000,
        budget_total_cost=100,
    )
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL, memories=7, cache_hits=3)
    budget.spend_tokens(api.admin.tenant_id, "embed", "m", Usage(1, 4000))
    return api


def used(api: Api, key: str = "", /, **params: Any) -> dict[str, Any]:
    answer = api.get("/v1/usage", key=key, params=params)
    assert answer.status_code == 200, answer.text
    assert "secret" not in answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_tenant_sees_its_days_and_what_is_left(limited: Api) -> None:
    assert used(limited) == {
        "usage": [
            {
                "day": datetime.now(UTC).date().isoformat(),
                "purpose": "score",
                "host": "models.example",
                "model": "m",
                "calls": 1,
                "input_tokens": 1000,
                "cached_tokens": 400,
                "output_tokens": 100,
                "memories": 7,
                "cache_hits": 3,
                "cost": 1.0,
            }
        ],
        "today": {
            "tokens": 1100,
            "cost": 1.0,
            "state": "ok",
            "limits": {"tokens": 2000, "cost": 10.0},
            "left": {"tokens": 900, "cost": 9.0},
        },
    }


def test_an_admin_sees_the_totals_and_other_tenants(limited: Api) -> None:
    found = used(limited, limited.admin.key, tenant_id=limited.tenant.tenant_id)
    assert [row["purpose"] for row in found["usage"]] == ["score"]
    assert found["today"]["limits"] == {"tokens": 2000, "cost": 10.0, "total_tokens": 10_000, "total_cost": 100.0}
    assert found["today"]["left"] == {"tokens": 900, "cost": 9.0, "total_tokens": 4900, "total_cost": 95.0}
    own = used(limited, limited.admin.key)
    assert [row["purpose"] for row in own["usage"]] == ["embed"]


def test_a_tenant_may_name_itself_but_no_other(limited: Api) -> None:
    own = used(limited, tenant_id=limited.tenant.tenant_id)
    assert own == used(limited)
    refused = [
        limited.get("/v1/usage", params={"tenant_id": str(other)}) for other in (limited.admin.tenant_id, uuid4())
    ]
    for answer in refused:
        assert answer.status_code == 403
        assert "admin" in answer.json()["detail"]
        fields(answer)
    first, second = ({**answer.json(), "request_id": "", "call_id": ""} for answer in refused)
    assert first == second, "the refusal reveals whether the tenant exists"


def test_a_tenant_that_isnt_there_is_404_to_an_admin(api: Api) -> None:
    answer = api.get("/v1/usage", key=api.admin.key, params={"tenant_id": str(uuid4())})
    assert answer.status_code == 404
    fields(answer)


def states(api: Api, tenant: Tenant) -> tuple[str, str]:
    """Return today's budget state as the tenant sees it and as an admin sees it."""
    as_admin = used(api, api.admin.key, tenant_id=tenant.tenant_id)
    return used(api, tenant.key)["today"]["state"], as_admin["today"]["state"]


def test_what_all_spend_is_felt_only_where_it_stops(limited: Api) -> None:
    quiet = limited.service.tenant()
    assert states(limited, quiet) == ("ok", "ok")
    limited.service.configure(budget_total_tokens=5200)
    assert states(limited, quiet) == ("ok", "soft")
    limited.service.configure(budget_total_tokens=5000)
    assert states(limited, quiet) == ("hard", "hard")


def test_a_model_without_a_price_makes_the_cost_null(api: Api) -> None:
    api.service.configure(budget_cost=1)
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL)
    found = used(api)
    assert [row["cost"] for row in found["usage"]] == [None]
    assert (found["today"]["cost"], found["today"]["left"]["cost"]) == (None, None)


def test_without_anything_all_is_null_and_well(api: Api) -> None:
    nothing = {"tokens": None, "cost": None}
    today = {"tokens": 0, "cost": 0.0, "state": "ok", "limits": nothing, "left": nothing}
    assert used(api) == {"usage": [], "today": today}


def test_days_are_chosen(limited: Api) -> None:
    today = datetime.now(UTC).date()
    limited.service.rows("UPDATE usage SET day = day - 40")
    then = today - timedelta(days=40)
    assert used(limited)["usage"] == []
    assert len(used(limited, **{"from": then})["usage"]) == 1
    assert len(used(limited, to=then)["usage"]) == 1
    assert used(limited, **{"from": then + timedelta(days=1)})["usage"] == []


@pytest.mark.parametrize(
    ("params", "field", "limit"),
    [
        ({"from": "2026-02-01", "to": "2026-01-01"}, "from", "2026-01-01"),
        ({"from": "2025-01-01", "to": "2026-01-02"}, "from", 366),
        ({"from": "9999-12-31"}, "from", None),
        ({"from": "yesterday"}, "from", None),
        ({"to": "2026-02-30"}, "to", None),
        ({"tenant_id": "x"}, "tenant_id", None),
    ],
    ids=str,
)
def test_a_bad_range_is_422_with_its_field_and_limit(
    api: Api, params: dict[str, str], field: str, limit: object
) -> None:
    answer = api.get("/v1/usage", params=params)
    assert answer.status_code == 422
    assert fields(answer) == [field]
    if limit is not None:
        assert answer.json()["errors"][0]["limit"] == limit


def test_the_description_names_the_parameters(api: Api) -> None:
    operation = api.get("/openapi.json", key=None).json()["paths"]["/v1/usage"]["get"]
    parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
    assert parameters.keys() == {"from", "to", "tenant_id"}
    assert all(parameter["description"] and not parameter["required"] for parameter in parameters.values())
    assert "cache_hits" not in parameters
    assert "`today`" in operation["description"]
