"""Liveness, readiness, metrics and stats, and problem responses for unknown paths."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import inf
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app import heartbeats, metrics
from app.clients.redis import stream
from app.clients.redis.connection import HEARTBEATS
from app.domain.health_findings import Finding
from app.domain.privacy.requests import Nature
from app.queues import LANES
from app.services.monitoring import fleet_gauges, status
from app.store.core import database
from tests.api.caller import Api, fields
from tests.service import Service

NOWHERE = {
    "postgresql": {"database_url": "postgresql://nobody:secret-4711@127.0.0.1:1/none"},
    "redis": {"redis_url": "redis://:secret-4711@127.0.0.1:1/0"},
}


def take_away(service: Service, store: str) -> None:
    service.configure(**NOWHERE[store])
    database.close()
    stream.close()


def test_it_is_ready_when_all_is_well(api: Api) -> None:
    answer = api.get("/readyz", key=None)
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"
    assert {found["name"] for found in answer.json()["dependencies"]} >= {"postgresql", "schema", "redis"}


@pytest.mark.parametrize("store", NOWHERE)
def test_without_a_store_it_lives_isnt_ready_and_says_which(api: Api, store: str) -> None:
    take_away(api.service, store)
    assert api.get("/healthz", key=None).json() == {"status": "ok"}
    answer = api.get("/readyz", key=None)
    assert answer.status_code == 503
    unwell = [found["name"] for found in answer.json()["dependencies"] if not found["well"]]
    assert unwell == [store]
    assert "secret-4711" not in answer.text


@pytest.mark.parametrize("store", NOWHERE)
def test_without_a_store_answers_are_503_with_a_time_to_retry(api: Api, store: str) -> None:
    [memory_id] = api.remember("x")
    take_away(api.service, store)
    path = "/v1/stats" if store == "redis" else f"/v1/memories/{memory_id}"
    answer = api.get(path)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    fields(answer)
    assert "secret-4711" not in answer.text


def test_a_known_key_is_trusted_while_postgresql_is_away(api: Api) -> None:
    unknown = api.service.tenant().key
    assert api.post("/v1/memories", json={"text": "x"}).status_code == 202
    api.service.configure(key_cache_seconds=0, **NOWHERE["postgresql"])
    database.close()
    assert api.post("/v1/memories", json={"text": "y"}).status_code == 202
    assert api.post("/v1/memories", json={"text": "y"}, key=unknown).status_code == 503


def families(api: Api) -> dict[str, dict[tuple[str, ...], float]]:
    """Return samples by metric name and then by label values."""
    answer = api.get("/metrics", key=None)
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        sample.name: {
            tuple(other.labels.values()): other.value for other in family.samples if other.name == sample.name
        }
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_every_metric_is_there_from_the_first_scrape_on(api: Api) -> None:
    found = families(api)
    assert {(outcome,) for outcome in metrics.OUTCOMES} == found["ebbing_ingest_accepted_total"].keys()
    assert {(status,) for status in metrics.STATUSES} == found["ebbing_http_requests_total"].keys()
    for name in metrics.WORK:
        assert found[f"ebbing_{name}_total"] == {(): 0}
    for name in ("ebbing_ingest_memories_total", "ebbing_ingest_ack_seconds_count", "ebbing_search_seconds_count"):
        assert () in found[name]
    assert found["ebbing_quarantine_size"] == found["ebbing_salience_provisional"] == {(): 0}
    assert found["ebbing_memories"] == {("active",): 0, ("archived",): 0, ("cold",): 0}
    assert found["ebbing_audit_chain_ok"] == {(): 1}
    assert set(found["ebbing_job_last_success_timestamp_seconds"].values()) == {0}
    assert found["ebbing_lane_depth"] == dict.fromkeys(((lane,) for lane in LANES), 0)
    assert found["ebbing_lane_oldest_age_seconds"].keys() == found["ebbing_lane_depth"].keys()
    assert found["ebbing_stores_reachable"] == {(): 1}
    assert found["ebbing_privacy_open"] == dict.fromkeys(((nature,) for nature in get_args(Nature)), 0)
    assert found["ebbing_privacy_min_days_left"] == {(): inf}, "infinity doesn't trigger the alert below 7 days"
    for name in ("ebbing_erasure_residual_rows", "ebbing_erasure_rewrites_late"):
        assert found[name] == {(): 0}


def test_metrics_tell_of_requests_that_are_open(api: Api) -> None:
    received = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    for law in ("ccpa", "user"):
        api.post("/v1/privacy/requests", json={"nature": "correction", "law": law, "received_at": received})
    fleet_gauges.refresh()
    found = families(api)
    assert found["ebbing_privacy_open"]["correction",] == 2
    assert 4.9 < found["ebbing_privacy_min_days_left"][()] < 6.1, "until the end of the last day"


def test_metrics_follow_what_happens(api: Api) -> None:
    before = families(api)
    api.remember("one", "two", work=False)
    waiting = families(api)
    assert waiting["ebbing_lane_depth"]["ingest",] > 0
    api.service.work()
    api.post("/v1/memories", json={"text": ""})
    api.post("/v1/search", json={"query": "x"})
    after = families(api)

    def grown(name: str, *labels: str) -> float:
        return after[name][labels] - before[name][labels]

    assert grown("ebbing_ingest_accepted_total", "accepted") == 1
    assert grown("ebbing_ingest_accepted_total", "refused") == 1
    assert grown("ebbing_ingest_memories_total") == 2
    assert grown("ebbing_search_seconds_count") == 1
    assert grown("ebbing_http_requests_total", "4xx") == 1
    for name in ("stored", "indexed", "embedded"):
        assert after[f"ebbing_{name}_memories_total"] == {(): 2}
    assert set(after["ebbing_lane_depth"].values()) == {0}


def test_no_label_holds_an_id_or_a_text(api: Api) -> None:
    [memory_id] = api.remember({"text": "canary-4711", "subject": "canary-4711", "external_id": "canary-4711"})
    for path in (f"/v1/memories/{memory_id}", "/v1/canary-4711", "/v1/memories?subject=canary-4711&limit=0"):
        api.get(path)
    api.post("/v1/search", json={"query": "canary-4711"})
    text = api.get("/metrics", key=None).text
    for secret in ("canary-4711", memory_id, str(api.tenant.tenant_id), api.tenant.key_id):
        assert secret not in text
    assert re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", text) is None


@pytest.mark.parametrize("store", NOWHERE)
def test_metrics_say_that_a_store_is_away_and_give_the_rest(api: Api, store: str) -> None:
    take_away(api.service, store)
    found = families(api)
    assert found["ebbing_stores_reachable"] == {(): 0}
    assert "ebbing_http_requests_total" in found
    assert "ebbing_lane_oldest_age_seconds" not in found
    assert ("ebbing_stored_memories_total" in found) == (store == "postgresql")


def test_the_numbers_of_a_tenant_have_the_promised_shape(api: Api) -> None:
    api.remember("x")
    found = api.get("/v1/stats").json()
    assert found["memories"] == {"active": 1, "archived": 0, "cold": 0}
    assert found["pending"] == {"ingest": 0, "index": 0, "embed": 0, "score": 0, "rate": 0}
    assert found["dead_letters"] == 0
    for lane in found["lanes"].values():
        assert lane.keys() == {"depth", "oldest_age_seconds"}
    assert found["silent_seconds"].keys() == {*found["lanes"], "beat"}


@pytest.mark.parametrize("scopes", [["read"], ["read", "admin"]], ids=["read", "admin"])
def test_the_status_is_that_of_the_first_page(api: Api, scopes: list[str]) -> None:
    tenant = api.service.tenant(scopes=scopes)
    for source in heartbeats.SOURCES:
        heartbeats.record_heartbeat(source)
    other = api.service.tenant()
    api.service.post(other.tenant_id, b"no JSON")
    api.service.redis.hdel(HEARTBEATS, "embed")
    status.forget()
    found = api.get("/v1/status", key=tenant.key).json()
    shown = status.now(tenant.tenant_id, every="admin" in scopes)
    assert (found["status"], found["summary"]) == ("trouble", shown.line)
    assert shown.line.startswith("1 problem needs action now")
    assert [Finding(**one) for one in found["findings"]] == [*shown.findings, *shown.passed]
    assert found["findings"][0]["command"] == "ebbing worker --lane embed"
    assert {one["code"] for one in found["findings"]} >= {"postgresql", "lane_ingest", "beat", "provider"}


# --- Unknown paths ---


@pytest.mark.parametrize("path", ["/v1", "/v1/nothing", "/v2/memories", "/v1/memories/x/y", "/%00"])
def test_a_path_that_isnt_there_is_a_problem(api: Api, path: str) -> None:
    answer = api.get(path)
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:ebbing:problem:not-found"
    fields(answer)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/memories", {"GET", "POST"}),
        ("PUT", "/v1/memories", {"GET", "POST"}),
        ("GET", "/v1/search", {"POST"}),
        ("POST", "/healthz", {"GET"}),
        ("PUT", "/v1/memories/x", {"DELETE", "GET", "PATCH"}),
        ("PUT", "/docs", {"GET"}),
    ],
)
def test_a_method_that_isnt_there_is_a_problem_that_names_those_that_are(
    api: Api, method: str, path: str, allowed: set[str]
) -> None:
    answer = api.request(method, path)
    assert answer.status_code == 405
    assert answer.json()["type"] == "urn:ebbing:problem:method-not-allowed"
    fields(answer)
    assert set(answer.headers["allow"].replace(" ", "").split(",")) == allowed


@pytest.mark.parametrize("given", ["mine-1", "a.b_c-D", "x" * 64])
def test_a_request_id_is_given_back(api: Api, given: str) -> None:
    for path in ("/healthz", "/v1/nothing", "/v1/stats"):
        assert api.get(path, headers={"x-request-id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "é", "a;b", "<script>"])
def test_a_request_id_of_another_form_is_replaced(api: Api, given: str) -> None:
    answers = [api.get("/healthz", headers={"x-request-id": given.encode()}) for _ in range(2)]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 2
    assert given not in ids


def test_an_unexpected_failure_is_a_problem_without_its_message(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("canary-4711")

    [memory_id] = api.remember("x")
    monkeypatch.setattr("app.services.storage.lookup.get", fail)
    monkeypatch.setattr("app.clients.redis.stream.StreamWriter.append", fail)
    for answer in (api.get(f"/v1/memories/{memory_id}"), api.post("/v1/memories", json={"text": "x"})):
        assert answer.status_code == 500
        assert "canary-4711" not in answer.text
        fields(answer)
