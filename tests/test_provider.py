"""The fake provider that tests, the demo and benchmarks use instead of a real one."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from tests.provider.control import FAILURES
from tests.provider.server import TRICKLE_SECONDS, FakeProvider, provider
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]
CHAT = [
    {"role": "system", "content": "Rate."},
    {
        "role": "user",
        "content": 'M BEGIN\n{"position": 1, "id": "a1", "text": "Ann decided to marry Bob!"}\n'
        '{"position": 2, "id": "b2", "text": "It rained."}\nM END\nRate these.',
    },
]


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    with provider() as opened:
        yield opened


def embed(fake: FakeProvider, *texts: str, **more: Any) -> httpx.Response:
    return httpx.post(
        f"{fake.url}/embeddings", json={"model": "m", "input": list(texts), **more}, timeout=PATIENCE_SECONDS
    )


def chat(fake: FakeProvider, timeout: float | httpx.Timeout = PATIENCE_SECONDS) -> httpx.Response:
    return httpx.post(f"{fake.url}/chat/completions", json={"model": "m", "messages": CHAT}, timeout=timeout)


def items(answer: httpx.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(answer.json()["choices"][0]["message"]["content"])["memories"]
    return found


def test_vectors_are_unit_and_near_where_words_are_shared(fake: FakeProvider) -> None:
    answer = embed(fake, "a red car", "the red bus", "blue whales", dimensions=64).json()
    red, bus, whales = (np.array(each["embedding"]) for each in answer["data"])
    assert [np.linalg.norm(each) for each in (red, bus, whales)] == pytest.approx([1, 1, 1])
    assert red @ bus > red @ whales + 0.2
    assert answer["usage"]["prompt_tokens"] > 0


def test_base64_holds_the_same_numbers(fake: FakeProvider) -> None:
    plain = embed(fake, "a red car", dimensions=8).json()["data"][0]["embedding"]
    coded = embed(fake, "a red car", dimensions=8, encoding_format="base64").json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(coded), dtype="<f4") == pytest.approx(plain, abs=1e-6)


def test_scores_are_of_the_memories_in_the_block_and_always_the_same(fake: FakeProvider) -> None:
    first, second = items(chat(fake)), items(chat(fake))
    assert first == second
    assert [(each["position"], each["id"]) for each in first] == [(1, "a1"), (2, "b2")]
    assert first[0]["actionable"] > first[1]["actionable"]
    assert first[0]["entities"] == ["Ann", "Bob"]


@pytest.mark.parametrize(("mode", "failure"), list(FAILURES.items()), ids=list(FAILURES))
def test_it_fails_as_often_as_told(fake: FakeProvider, mode: str, failure: tuple[int, str | None, str]) -> None:
    fake.control.set(mode=mode, times=2, retry_after="7")
    answers = [chat(fake) for _ in range(3)]
    assert [each.status_code for each in answers] == [failure[0], failure[0], 200]
    assert answers[0].headers["retry-after"] == "7"
    assert answers[0].json()["error"]["code"] == failure[1]
    assert fake.control.calls == {"chat": 3}


def test_only_one_kind_of_call_fails(fake: FakeProvider) -> None:
    fake.control.set(mode="server_error", only="chat")
    assert (chat(fake).status_code, embed(fake, "x").status_code) == (500, 200)


def test_only_calls_with_a_word_fail(fake: FakeProvider) -> None:
    fake.control.set(mode="server_error", poison="whale")
    assert (embed(fake, "a whale").status_code, embed(fake, "a car").status_code) == (500, 200)


def test_it_is_controlled_over_http_while_it_runs(fake: FakeProvider) -> None:
    control = fake.url.replace("/v1", "/control")
    assert httpx.post(control, json={"mode": "unavailable"}, timeout=PATIENCE_SECONDS).status_code == 200
    assert chat(fake).status_code == 503
    assert httpx.get(control, timeout=PATIENCE_SECONDS).json()["calls"] == {"chat": 1}
    assert httpx.post(control, json={"mode": "no such"}, timeout=PATIENCE_SECONDS).status_code == 422
    assert httpx.post(control, json={}, timeout=PATIENCE_SECONDS).json() == {"mode": "ok"}


def test_it_refuses_connections_and_listens_again(fake: FakeProvider) -> None:
    fake.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", fake.port), timeout=PATIENCE_SECONDS)
    fake.listen()
    assert chat(fake).status_code == 200


def test_it_refuses_for_a_while_over_http(fake: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr("tests.provider.server.time", SimpleNamespace(sleep=lambda _: over.wait(PATIENCE_SECONDS)))
    control = fake.url.replace("/v1", "/control")
    httpx.post(control, json={"mode": "refuse", "seconds": 3}, timeout=PATIENCE_SECONDS)

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", fake.port), timeout=PATIENCE_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:  # caught in the act
            return False
        return False

    until(refused, "the port is closed")
    over.set()
    until(lambda: not refused(), "the port is open again")
    assert chat(fake).status_code == 200


@pytest.mark.parametrize("mode", ["reset", "refuse"])
def test_it_breaks_connections(fake: FakeProvider, mode: str) -> None:
    fake.control.set(mode=mode)
    with pytest.raises(httpx.TransportError):
        chat(fake)


def test_it_hangs_until_told_otherwise(fake: FakeProvider) -> None:
    fake.control.set(mode="hang")
    with pytest.raises(httpx.ReadTimeout):
        chat(fake, httpx.Timeout(PATIENCE_SECONDS, read=0.2))


@pytest.mark.parametrize(("mode", "first"), [("trickle", b"{"), ("trickle_head", b"HTTP/1.1 200 OK")])
def test_it_answers_a_byte_at_a_time(fake: FakeProvider, mode: str, first: bytes) -> None:
    fake.control.set(mode=mode)
    body = json.dumps({"model": "m", "messages": CHAT}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", fake.port), timeout=PATIENCE_SECONDS) as connection:
        started = time.monotonic()
        connection.sendall(head.encode() + body)
        came = b""
        while first not in came:
            came += connection.recv(100)
        for _ in range(5):
            connection.recv(1)
        assert time.monotonic() - started >= 4 * TRICKLE_SECONDS


def test_it_takes_its_time(fake: FakeProvider) -> None:
    fake.control.set(latency_ms=150)
    started = time.monotonic()
    chat(fake)
    assert time.monotonic() - started >= 0.15


@pytest.mark.slow
def test_it_runs_by_itself() -> None:
    command = [sys.executable, "-m", "tests.provider", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            name, _, url = process.stdout.readline().strip().partition("=")
            assert name == "EBBING_OPENAI_BASE_URL"
            answer = httpx.post(f"{url}/embeddings", json={"model": "m", "input": "hi"}, timeout=PATIENCE_SECONDS)
            assert answer.status_code == 200
        finally:
            process.terminate()
