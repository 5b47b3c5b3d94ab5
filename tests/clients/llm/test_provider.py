"""The provider's client: request content, classification of failures, and data that must not leak."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
import structlog

from app.clients.llm.egress import Allowed
from app.clients.llm.provider import NO_KEY, Patience, Provider
from app.clients.llm.resilience import Breaker, ProviderFailed, Reason
from app.clients.llm.responses import Reply, Usage
from app.clients.retry_after import retry_after_seconds
from app.domain.prompts import PromptMessage
from app.domain.salience.llm_scoring import ANSWER_SCHEMA
from app.errors import Misconfigured
from app.settings import OPENAI_URL, Settings
from tests.clients.asked import KEY, QUICK, Calls, asked, to
from tests.provider.server import provider
from tests.waiting import PATIENCE_SECONDS

__all__ = ["asked"]

ONCE = Patience(timeout_seconds=PATIENCE_SECONDS)
SECRET = "Ann hid the key under the third stone"
CHAT: list[PromptMessage] = [{"role": "user", "content": SECRET}]


def chat(client: Provider, patience: Patience = ONCE) -> Reply:
    return client.chat("small", CHAT, schema=ANSWER_SCHEMA, tokens_max=500, patience=patience)


def failure(call: Callable[[], Any]) -> ProviderFailed:
    with pytest.raises(ProviderFailed) as failed:
        call()
    return failed.value


def test_a_chat_is_asked_for_json_by_a_schema(asked: Calls) -> None:
    reply = chat(asked.provider)
    assert reply.content == '{"memories": []}'
    assert reply.problem is None
    assert reply.usage == Usage(calls=1, input_tokens=10, output_tokens=4)
    [body] = asked.fake.control.bodies
    assert body["response_format"]["json_schema"] == {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA}
    assert (body["model"], body["max_completion_tokens"], body["messages"]) == ("small", 500, CHAT)


def test_nothing_is_sent_but_what_is_needed(asked: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody-else")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer other\nX-Extra: given")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    client = to(asked.fake.url)
    chat(client)
    client.close()
    [headers] = asked.fake.control.headers
    assert headers.pop("authorization") == f"Bearer {KEY}"
    assert set(headers) == {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("rate_limit", Reason.RATE_LIMITED),
        ("quota", Reason.OUT_OF_QUOTA),
        ("server_error", Reason.SERVER_ERROR),
        ("unavailable", Reason.SERVER_ERROR),
        ("unauthorised", Reason.NOT_AUTHORISED),
        ("no_model", Reason.NOT_FOUND),
        ("bad_request", Reason.BAD_REQUEST),
        ("too_long_input", Reason.TOO_LARGE),
        ("redirect", Reason.REDIRECTED),
        ("reset", Reason.UNREACHABLE),
        ("garbage", Reason.GARBAGE),
        ("html", Reason.GARBAGE),
        ("long", Reason.GARBAGE),
        ("compressed", Reason.GARBAGE),
        ("no_choice", Reason.GARBAGE),
    ],
)
def test_each_failure_has_its_name(asked: Calls, mode: str, reason: Reason) -> None:
    asked.fake.control.set(mode=mode)
    assert failure(lambda: chat(asked.provider)).reason is reason


def test_an_address_that_is_refused_is_named(asked: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.clients.llm.egress.resolve_host", lambda _host, _port: ["169.254.169.254"])
    url = asked.fake.url.replace("127.0.0.1", "models.example")
    client = Provider(url, KEY, Allowed(frozenset({"models.example"})))
    refused = failure(lambda: chat(client))
    client.close()
    assert str(refused).startswith("host_refused, models.example resolves to 169.254.169.254, a link-local, ")


@pytest.mark.parametrize(("mode", "reason"), [("bad_request", Reason.BAD_REQUEST), ("html", Reason.GARBAGE)])
def test_vectors_fail_by_the_same_names(asked: Calls, mode: str, reason: Reason) -> None:
    asked.fake.control.set(mode=mode)
    assert failure(lambda: asked.provider.vectors("m", [SECRET], dimensions=4, patience=ONCE)).reason is reason


def test_a_chat_answer_of_more_than_a_mebibyte_is_refused_by_name(asked: Calls) -> None:
    asked.fake.control.set(padded_to=1024**2)
    assert chat(asked.provider).problem is None
    asked.fake.control.set(padded_to=1024**2 + 1)
    refused = failure(lambda: chat(asked.provider))
    assert (refused.reason, refused.detail) == (Reason.GARBAGE, "too large")


@pytest.mark.parametrize(
    ("memories", "dimensions", "limit"), [(256, 768, 256 * 4096 * 32), (10, 16_000, 10 * 16_000 * 32), (1, 0, 1024**2)]
)
def test_an_answer_with_vectors_is_limited_by_the_size_of_a_batch(
    bare: Callable[..., Settings], memories: int, dimensions: int, limit: int
) -> None:
    with provider() as fake:
        sizes = {"embed_batch_memories": str(memories), "embedding_dimensions": str(dimensions)}
        client = Provider.from_settings(bare(openai_base_url=fake.url, **sizes))
        fake.control.set(padded_to=limit)
        vectors, _ = client.vectors("m", ["a"], dimensions=4, patience=ONCE)
        assert len(vectors) == 1
        fake.control.set(padded_to=limit + 1)
        refused = failure(lambda: client.vectors("m", ["a"], dimensions=4, patience=ONCE))
        assert (refused.reason, refused.detail) == (Reason.GARBAGE, "too large")
        client.close()


@pytest.mark.parametrize("mode", ["hang", "trickle", "trickle_head"])
def test_a_slow_answer_is_a_timeout(asked: Calls, mode: str) -> None:
    """With more time, the answer would arrive eventually, or break off."""
    asked.fake.control.set(mode=mode)
    assert failure(lambda: chat(asked.provider, Patience(0.3))).reason is Reason.TIMEOUT


def test_who_refuses_connections_is_unreachable(asked: Calls) -> None:
    asked.fake.refuse()
    assert failure(lambda: chat(asked.provider)).reason is Reason.UNREACHABLE
    asked.fake.listen()
    assert chat(asked.provider).problem is None


def test_cut_short_and_refused_answers_say_so_and_cost(asked: Calls) -> None:
    for mode, problem in (("truncated", Reason.TRUNCATED), ("refusal", Reason.REFUSED)):
        asked.fake.control.set(mode=mode)
        reply = chat(asked.provider)
        assert reply.problem is problem
        assert reply.usage.input_tokens > 0


def test_cost_is_estimated_where_it_is_not_told(asked: Calls) -> None:
    asked.fake.control.set(mode="no_usage")
    assert chat(asked.provider).usage == Usage(calls=1, input_tokens=10, output_tokens=4)


# --- F12 ---


def test_a_retry_after_is_waited_for_and_the_answer_comes(asked: Calls) -> None:
    asked.fake.control.set(mode="rate_limit", times=1, retry_after="0.05")
    waits: list[float] = []

    def really(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    client = to(asked.fake.url)
    client._sleep = really
    assert chat(client, QUICK).problem is None
    client.close()
    assert asked.fake.calls == 2
    assert waits == [pytest.approx(0.05 + 0.25)]


def test_a_long_retry_after_is_handed_to_the_caller_and_holds_everyone_off(asked: Calls) -> None:
    asked.fake.control.set(mode="rate_limit", times=1, retry_after="120")
    assert failure(lambda: chat(asked.provider, QUICK)).retry_after_seconds == 120
    held = failure(lambda: chat(asked.provider, QUICK))
    assert held.reason is Reason.CIRCUIT_OPEN
    assert held.retry_after_seconds is not None
    assert 0 < held.retry_after_seconds <= 120
    assert (asked.fake.calls, asked.slept) == (1, [])


@pytest.mark.parametrize("mode", ["server_error", "reset"])
def test_a_failing_provider_is_tried_with_jitter_then_left_alone(asked: Calls, mode: str) -> None:
    asked.fake.control.set(mode=mode)
    for _ in range(3):
        failure(lambda: chat(asked.provider, QUICK))
    assert asked.fake.calls == 5, "the breaker opens after five failures in a row"
    assert asked.slept[:2] == [0.25, 0.5]
    assert asked.provider.health() == {"chat": "open", "vectors": "closed"}
    assert failure(lambda: chat(asked.provider, ONCE)).reason is Reason.CIRCUIT_OPEN
    assert asked.fake.calls == 5, "no call while the breaker is open"


def test_a_hanging_provider_is_left_alone_too(asked: Calls) -> None:
    asked.fake.control.set(mode="hang")
    for _ in range(5):
        failure(lambda: chat(asked.provider, Patience(0.1)))
    assert failure(lambda: chat(asked.provider, ONCE)).reason is Reason.CIRCUIT_OPEN
    assert asked.fake.calls <= 5, "a call may time out before it is sent"


def test_it_is_found_well_again_by_one_probe() -> None:
    now = [1000.0]
    with provider() as fake:
        client = to(fake.url, breaker=lambda: Breaker(2, 30, clock=lambda: now[0]))
        fake.refuse()
        for _ in range(2):
            failure(lambda: chat(client))
        fake.listen()
        assert failure(lambda: chat(client)).reason is Reason.CIRCUIT_OPEN
        now[0] += 30
        assert chat(client).problem is None
        assert client.health()["chat"] == "closed"
        client.close()


def test_vectors_still_come_while_chats_fail(asked: Calls) -> None:
    asked.fake.control.set(mode="server_error", only="chat")
    for _ in range(5):
        failure(lambda: chat(asked.provider))
    vectors, usage = asked.provider.vectors("m", ["a"], dimensions=4, patience=ONCE)
    assert (len(vectors), usage.calls) == (1, 1)


# --- Data that must not leak ---


@pytest.mark.parametrize("mode", ["bad_request", "server_error", "garbage", "html", "reset", "unauthorised"])
def test_no_error_or_log_line_holds_a_text_or_a_key(
    asked: Calls, mode: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    asked.fake.control.set(mode=mode)
    raised = failure(lambda: chat(asked.provider))
    structlog.get_logger().warning("failed", error=str(raised))
    shown = "".join(traceback.format_exception(raised)) + repr(raised) + caplog.text + "".join(capsys.readouterr())
    assert raised.__context__ is None, "the library's error, which quotes the request, is still chained"
    assert SECRET not in shown
    assert KEY not in shown


def test_the_key_is_not_shown_by_what_holds_it(asked: Calls) -> None:
    assert KEY not in repr(vars(asked.provider))
    assert SECRET not in repr(Reply(SECRET, None, Usage()))


# --- Settings ---


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    def settings(**given: str) -> Settings:
        for name, value in given.items():
            monkeypatch.setenv(f"EBBING_{name.upper()}", value)
        return Settings(_env_file=None)

    return settings


def test_without_key_and_address_there_is_no_provider(bare: Callable[..., Settings]) -> None:
    assert not bare().has_provider
    assert bare(openai_api_key="sk-x").has_provider


def test_a_server_of_ones_own_needs_no_key(bare: Callable[..., Settings]) -> None:
    with provider() as fake:
        settings = bare(openai_base_url=fake.url)
        client = Provider.from_settings(settings)
        assert settings.has_provider
        assert chat(client).problem is None
        client.close()
        assert fake.control.headers[-1]["authorization"] == f"Bearer {NO_KEY}"


def test_only_hosts_that_are_named_are_asked(bare: Callable[..., Settings]) -> None:
    with pytest.raises(Misconfigured, match="LLM_HOSTS"):
        Provider.from_settings(bare(openai_base_url="https://evil.example/v1", llm_hosts="a.example,b.example"))
    Provider.from_settings(bare(openai_base_url="https://A.example/v1", llm_hosts="a.example,b.example")).close()


@pytest.mark.parametrize("url", ["api.example/v1", "ftp://api.example", "https://", "https://u:p@api.example/v1"])
def test_an_address_that_is_none_is_said_at_once(url: str) -> None:
    with pytest.raises(Misconfigured, match="OPENAI_BASE_URL"):
        Provider(url, KEY, Allowed(frozenset({"api.example"})))


def test_the_default_is_openai_itself(bare: Callable[..., Settings]) -> None:
    client = Provider.from_settings(bare(openai_api_key="sk-x"))
    assert str(client._openai.base_url).rstrip("/") == OPENAI_URL
    assert client._openai.max_retries == 0
    client.close()


NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "1e9"}, 3600),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, 0),
    ],
)
def test_a_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOW) == seconds


def test_a_setting_left_empty_names_no_provider() -> None:
    config = Settings.model_validate({"openai_api_key": "", "openai_base_url": ""})
    assert not config.has_provider
    assert config.provider_url == OPENAI_URL
