"""Model providers: what the processes record about their calls, and what the service reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from app import heartbeats
from app.clients.llm import provider_health
from app.clients.llm.model_clients import model_clients
from app.clients.llm.provider import CHAT_ANSWER_MAX_BYTES
from app.clients.llm.resilience import PROBE_SECONDS, Breaker, ProviderFailed
from app.clients.redis import stream
from app.clients.redis.connection import PROVIDERS
from app.domain.operator_advice import Installation, advise
from app.domain.provider_health import ProviderHealth
from app.services.enrichment import score_by_model, stage_runner
from app.services.ingest import drain
from app.services.monitoring import fleet_gauges, probes, provider_status, stats, status
from app.settings import settings
from tests.provider.server import FakeProvider, provider
from tests.service import Service, Tenant
from tests.services.embedder_move import forget

WORDS = "Orla keeps bees behind the old chapel"


@pytest.fixture
def fake(service: Service) -> Iterator[FakeProvider]:
    with provider() as made:
        service.configure(openai_base_url=made.url, llm_breaker_failures=2, llm_concurrency=1)
        for source in heartbeats.SOURCES:
            heartbeats.record_heartbeat(source)
        yield made
    model_clients.close()


@pytest.fixture
def tenant(service: Service, fake: FakeProvider) -> Tenant:
    return service.tenant()


@pytest.fixture
def embedding(service: Service, fake: FakeProvider) -> Iterator[Tenant]:
    """A tenant whose memories the provider embeds."""
    service.configure(embedder="openai", embedding_model="embed-small", embedding_dimensions=64)
    forget()  # as after a restart
    yield service.tenant()
    forget()


def codes(tenant: Tenant, *, every: bool = False) -> list[str]:
    status.forget()
    return [one.code for one in status.now(tenant.tenant_id, every=every).findings]


def uses(tenant: Tenant) -> dict[str, ProviderHealth]:
    return {one.use: one for one in stats.tenant_stats(tenant.tenant_id).providers}


def rate(service: Service, tenant: Tenant) -> None:
    """Store a memory, and let the score worker rate what waits, whatever its delays are."""
    service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
    service.send(tenant.tenant_id, WORDS)
    service.work()
    score_by_model.rate_memories()


def test_without_a_provider_there_is_nothing_to_report(service: Service) -> None:
    tenant = service.tenant()
    fleet_gauges.refresh(thoroughly=True)
    assert stats.tenant_stats(tenant.tenant_id).providers == []
    assert service.redis.exists(PROVIDERS) == 0


def test_a_provider_is_unknown_until_its_first_check(fake: FakeProvider, tenant: Tenant) -> None:
    assert codes(tenant) == codes(tenant, every=True) == ["provider_unchecked"]
    assert uses(tenant)["connection"].state == "unknown"
    fleet_gauges.refresh()
    assert codes(tenant) == codes(tenant, every=True) == []
    assert {use: one.state for use, one in uses(tenant).items()} == {
        "connection": "ok",
        "score": "not_called",
        "summarise": "not_called",
        "contradict": "not_called",
        "self_test": "not_called",
    }
    assert fake.calls == 0  # the check sends no memory


def test_a_dead_provider_is_found_without_any_work_and_so_is_its_return(fake: FakeProvider, tenant: Tenant) -> None:
    fake.refuse()
    fleet_gauges.refresh()
    found = status.now(tenant.tenant_id)
    assert [one.code for one in found.findings] == ["provider"]
    assert "can't be reached (no connection)" in found.findings[0].what
    assert found.line != "No problems found"
    fake.listen()
    fleet_gauges.refresh()
    assert codes(tenant) == []


def test_texts_that_are_too_long_are_reported_until_none_waits(
    service: Service, fake: FakeProvider, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet_gauges.refresh()
    fake.control.set(mode="too_long_input")
    monkeypatch.setattr(score_by_model, "RETRY_SECONDS", 0.0)
    service.send(tenant.tenant_id, *(f"{WORDS} number {number}" for number in range(4)))
    service.work()
    fleet_gauges.refresh(thoroughly=True)
    score_by_model.rate_memories()
    # The cached figures are older than the failures: four memories wait in them, none in the database.
    status.forget()
    [found] = [one for one in status.now(tenant.tenant_id, every=True).findings if one.code == "provider_score"]
    assert "(text too long" in found.what
    assert "4 memories wait for a rating" in found.what
    assert "EBBING_SALIENCE_MODEL to a model with a longer context" in found.todo
    assert codes(tenant) == ["dead_letters"], "nothing waits: the dead letters name the next step"
    assert service.letters(tenant.tenant_id) == [("rate", "too_large", 1)] * 4
    fleet_gauges.refresh(thoroughly=True)
    assert codes(tenant, every=True) == ["dead_letters"], "although no call has succeeded"
    [said] = [one.what for one in status.now(tenant.tenant_id, every=True).passed if one.code == "provider_score"]
    assert "no success yet, last failure" in said
    assert "(text too long)" in said


def test_the_figure_counts_the_memories_of_all_tenants_that_really_wait(
    service: Service, fake: FakeProvider, tenant: Tenant
) -> None:
    other = service.tenant()
    _, edited = service.send(tenant.tenant_id, WORDS, f"{WORDS} too")
    service.send(other.tenant_id, f"{WORDS} there", f"{WORDS} again")
    service.work()
    service.rows("UPDATE memory_state SET salience_source = 'caller' WHERE memory_id = %s", edited)
    figures = fleet_gauges.refresh(thoroughly=True)
    assert (figures.provisional, figures.unrated) == (4, 3), "a caller's salience isn't replaced"
    assert [stats.tenant_stats(one.tenant_id).pending["rate"] for one in (tenant, other)] == [1, 2]
    fake.control.set(mode="refusal")
    score_by_model.rate_memories()
    score_by_model.rate_memories()
    figures = fleet_gauges.refresh(thoroughly=True)
    assert (figures.provisional, figures.unrated) == (4, 0), "memories whose rating failed keep the rules' score"


def test_a_pause_that_the_provider_requested_is_reported_until_a_call_succeeds(
    service: Service, fake: FakeProvider, tenant: Tenant
) -> None:
    fleet_gauges.refresh()
    fake.control.set(mode="rate_limit", retry_after="99999999")
    rate(service, tenant)
    paused = uses(tenant)["score"]
    assert (paused.state, paused.failure, paused.breaker) == ("failing", "rate_limited", "open")
    assert paused.paused_until is not None
    [found] = [one for one in status.now(tenant.tenant_id).findings if one.code == "provider_score"]
    assert f"requested a pause until {paused.paused_until:%Y-%m-%d %H:%M} UTC (too many requests)" in found.what
    assert "1 memory waits for a rating" in found.what
    assert uses(tenant)["summarise"].paused_until is None, "the other uses go on"
    fake.control.set()
    model_clients.close()  # as if the breaker's interval were over
    rate(service, tenant)
    assert uses(tenant)["score"].paused_until is None
    assert codes(tenant) == []


def test_a_pause_that_the_embedder_requested_is_reported_until_a_call_succeeds(
    service: Service, fake: FakeProvider, embedding: Tenant
) -> None:
    fleet_gauges.refresh()
    fake.control.set(mode="rate_limit", retry_after="99999999", only="embeddings")
    service.send(embedding.tenant_id, WORDS)
    with pytest.raises(ProviderFailed):
        service.work()
    paused = uses(embedding)["embed"]
    assert (paused.state, paused.failure, paused.breaker) == ("failing", "rate_limited", "open")
    assert paused.paused_until is not None
    fleet_gauges.refresh(thoroughly=True)
    status.forget()
    [found] = [one for one in status.now(embedding.tenant_id).findings if one.code == "provider_embed"]
    assert f"requested a pause until {paused.paused_until:%Y-%m-%d %H:%M} UTC (too many requests)" in found.what
    assert "1 memory waits for an embedding" in found.what
    assert uses(embedding)["score"].paused_until is None, "ratings go on"
    assert score_by_model.rate_memories() == 0
    fake.control.set()
    forget()  # as if the breaker's interval were over
    service.rows("UPDATE tenant_work SET claimed_until = '-infinity'")
    service.work()
    assert uses(embedding)["embed"].paused_until is None
    assert codes(embedding) == []


def test_embedding_goes_on_within_a_minute_after_the_provider_is_back(
    service: Service, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch, embedding: Tenant
) -> None:
    now = [0.0]
    monkeypatch.setattr("app.clients.llm.provider.Breaker", partial(Breaker, clock=lambda: now[0]))
    forget()
    other = service.tenant()
    for tenant in (embedding, other):
        service.send(tenant.tenant_id, WORDS, f"{WORDS} too")
    drain.drain_streams()
    stage_runner.run_index_stage()
    fake.control.set(mode="rate_limit", retry_after="99999999")

    def pass_time(seconds: float) -> int:
        now[0] += seconds
        service.rows("UPDATE tenant_work SET claimed_until = claimed_until - make_interval(secs => %s)", seconds)
        with suppress(ProviderFailed):
            return stage_runner.embed()
        return 0

    for _ in range(30):  # ten minutes of an outage, with the safety net's nudges
        assert pass_time(20) == 0
    assert 2 < fake.calls <= 600 / PROBE_SECONDS + 1, "no more than a probe in each interval, over all tenants"
    fake.control.set()
    assert sum(pass_time(10) for _ in range(6)) == 4, "all tenants' memories are embedded within a minute"
    assert service.letters(embedding.tenant_id) == service.letters(other.tenant_id) == []
    assert uses(embedding)["embed"].paused_until is None


def test_a_rating_that_is_too_large_is_reported_as_unusable(
    service: Service, fake: FakeProvider, tenant: Tenant
) -> None:
    fake.control.set(padded_to=CHAT_ANSWER_MAX_BYTES + 1)
    rate(service, tenant)
    assert (uses(tenant)["score"].state, uses(tenant)["score"].failure) == ("failing", "garbage")


def test_another_address_in_the_settings_is_not_known_to_answer(
    service: Service, fake: FakeProvider, tenant: Tenant
) -> None:
    fleet_gauges.refresh()
    assert codes(tenant) == []
    service.configure(openai_base_url="http://127.0.0.1:9/v1")
    assert codes(tenant) == ["provider_unchecked"]


def test_a_provider_that_is_not_checked_yet_after_a_start_is_no_warning(
    fake: FakeProvider, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes.note_start()
    try:
        assert codes(tenant) == []
        [said] = [one.what for one in status.now(tenant.tenant_id).passed if one.code == "provider"]
        assert said.endswith("not checked yet: the service has just started")
        monkeypatch.setattr(probes, "STARTING_SECONDS", 0.0)
        assert codes(tenant) == ["provider_unchecked"]
        [found] = status.now(tenant.tenant_id).findings
        service_run = advise(replace(found, command=""), Installation("run", "/srv"))
        assert service_run.command == "tail -n 50 /srv/logs/worker-maintain.log", "the worker that checks, not another"
    finally:
        probes.note_end()


@pytest.mark.parametrize(
    ("mode", "state", "failure"),
    [
        ("unauthorised", "failing", "not_authorised"),
        ("server_error", "failing", "server_error"),
        ("no_model", "ok", ""),
    ],
)
def test_a_check_tells_a_refused_key_from_a_list_that_is_not_offered(
    fake: FakeProvider, tenant: Tenant, mode: str, state: str, failure: str
) -> None:
    fake.control.set(mode=mode)
    provider_status.check_connection()
    checked = uses(tenant)["connection"]
    assert (checked.state, checked.failure) == (state, failure)


def test_a_recent_check_is_not_repeated_while_it_succeeds(fake: FakeProvider, tenant: Tenant) -> None:
    provider_status.check_connection()
    fake.refuse()
    provider_status.check_connection()
    assert uses(tenant)["connection"].state == "ok"


def test_calls_are_recorded_with_the_kind_of_failure_and_the_breaker(
    service: Service, fake: FakeProvider, tenant: Tenant
) -> None:
    provider_status.check_connection()
    fake.control.set(mode="rate_limit")
    for failures in (1, 2):
        rate(service, tenant)
        ratings = uses(tenant)["score"]
        assert (ratings.failure, ratings.failures_in_row) == ("rate_limited", failures)
        assert ratings.success_seconds is None
    ratings = uses(tenant)["score"]
    assert (ratings.state, ratings.breaker, ratings.waiting) == ("failing", "open", 2)
    assert codes(tenant) == ["provider_score"]
    fleet_gauges.refresh(thoroughly=True)
    status.forget()
    [found] = status.now(tenant.tenant_id, every=True).findings
    assert "the last 2 calls for ratings failed (too many requests" in found.what
    assert "2 memories wait for a rating" in found.what
    assert found.section == "provider-fails"

    fake.control.set()
    model_clients.close()
    rate(service, tenant)
    ratings = uses(tenant)["score"]
    assert (ratings.state, ratings.failures_in_row, ratings.breaker) == ("ok", 0, "closed")
    assert ratings.success_seconds is not None
    assert codes(tenant) == []


def test_embeddings_are_recorded_and_make_a_dead_provider_urgent(
    service: Service, fake: FakeProvider, embedding: Tenant
) -> None:
    service.send(embedding.tenant_id, WORDS)
    service.work()
    assert uses(embedding)["embed"].state == "ok"
    fake.refuse()
    provider_status.check_connection()
    status.forget()
    found = status.now(embedding.tenant_id)
    assert found.state == "trouble"
    assert "new memories aren't found by their meaning" in found.findings[0].what
    service.send(embedding.tenant_id, f"{WORDS} too")
    with pytest.raises(ProviderFailed):
        service.work()
    assert uses(embedding)["embed"].waiting == 1
    status.forget()
    found = status.now(embedding.tenant_id)
    assert "1 memory waits for an embedding" in found.findings[0].what
    assert [one.waiting for one in found.providers if one.use == "embed"] == [1]


def test_a_record_has_no_text_and_no_tenant(service: Service, fake: FakeProvider, tenant: Tenant) -> None:
    fake.control.set(mode="bad_request")  # this fake repeats a piece of the request in its answer
    rate(service, tenant)
    stored = repr(service.redis.hgetall(PROVIDERS))
    assert "bad_request" in stored
    assert not any(word in stored for word in (*WORDS.split(), str(tenant.tenant_id)))


def test_a_redis_that_is_away_does_not_fail_the_call(service: Service, fake: FakeProvider, tenant: Tenant) -> None:
    target = provider_health.list_targets(settings())[0]
    service.configure(redis_url="redis://127.0.0.1:1/0")
    stream.close()
    provider_health.record(target, None)
    service.configure(redis_url=service.redis_url)
    stream.close()
    assert uses(tenant)["connection"].state == "unknown"
