"""Latency per route: `/metrics` names routes by their template, never by an id."""

from __future__ import annotations

from uuid import uuid4

from prometheus_client import REGISTRY

from app import metrics
from app.metric_groups import GROUPS
from tests.alerts.watch import samples
from tests.api.caller import Api


def counted(method: str, route: str) -> float:
    labels = {"method": method, "route": route}
    return REGISTRY.get_sample_value("ebbing_http_route_seconds_count", labels) or 0.0


def test_requests_count_under_the_template_of_their_route(api: Api) -> None:
    routes = [
        ("POST", "/v1/memories"),
        ("POST", "/v1/search"),
        ("GET", "/v1/memories/{memory_id}"),
        ("GET", "/ops"),
        ("other", "other"),
    ]
    before = [counted(*route) for route in routes]
    memory_id = uuid4()
    api.post("/v1/memories", json=[{"text": "one"}])
    api.post("/v1/search", json={"query": "one"})
    api.get(f"/v1/memories/{memory_id}")
    api.get("/ops/login", key=None)
    api.get(f"/v1/nothing/{memory_id}")
    assert [counted(*route) - old for route, old in zip(routes, before, strict=True)] == [1] * 5
    assert str(memory_id) not in api.get("/metrics", key=None).text


def test_each_counter_of_a_group_is_shown_with_its_labels(api: Api) -> None:
    members = [member for group in GROUPS.values() for member in group.members.values()]
    assert len(members) == len(set(members))
    for amount, member in enumerate(members, start=1):
        metrics.count(member, amount)
    before = samples(api.get("/metrics", key=None).text)
    for name, group in GROUPS.items():
        for values, member in group.members.items():
            labels = frozenset(zip(group.labels, values, strict=True))
            shown = before[f"ebbing_{name}_total", labels]
            assert shown == before[f"ebbing_{member}_total", frozenset()] > 0


def test_the_version_and_the_public_address_are_shown(api: Api) -> None:
    api.service.configure(public_url="https://memory.example/")
    text = api.get("/metrics", key=None).text
    assert 'ebbing_public_url_info{url="https://memory.example"} 1.0' in text
    assert 'ebbing_build_info{python="' in text or 'ebbing_build_info{version="' in text


def test_names_of_tenants_are_shown_only_if_the_operator_permits_it(api: Api) -> None:
    api.remember("one", "two")
    assert "ebbing_tenant_memories{" not in api.get("/metrics", key=None).text
    api.service.configure(metrics_tenants=50)
    found = samples(api.get("/metrics", key=None).text)
    name = api.service.one("SELECT name FROM tenants WHERE tenant_id = %s", api.tenant.tenant_id)
    tenant = ("tenant", name)
    assert found["ebbing_tenant_memories", frozenset({tenant, ("tier", "active")})] == 2
    assert found["ebbing_tenant_waiting_memories", frozenset({tenant})] == 0
    assert found["ebbing_tenant_dead_letters_waiting", frozenset({tenant})] == 0
