"""Calls of the Python client: retries, deadlines, errors, results and the connection."""

from __future__ import annotations

import inspect
import json
import os
import socket
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import ebbing_client
from ebbing_client import (
    ApiError,
    DeadlinePassed,
    Ebbing,
    EbbingError,
    Invalid,
    Misconfigured,
    ServerError,
    ServiceUnreachable,
    Unavailable,
    UnexpectedAnswer,
)
from tests.client.gate import ACCEPTED, Gate, Given, refusal
from tests.waiting import PATIENCE_SECONDS

NO_RESULTS: Given = (200, {}, b'{"results": [], "reranked": false}')


def test_a_write_is_repeated_under_one_key_and_with_one_body(door: Gate, client: Ebbing) -> None:
    door.answers = [refusal(503), refusal(429), refusal(502, {}), ACCEPTED]
    assert client.add("tea", subject="ann").ids == ("1",)
    assert len(door.seen) == 4
    assert len({(request.headers["Idempotency-Key"], request.body) for request in door.seen}) == 1
    assert door.seen[0].memories == [{"subject": "ann", "text": "tea"}]


def test_retry_after_decides_the_wait_and_the_deadline_ends_it(door: Gate) -> None:
    door.answers = [refusal(503, after=3600)]
    with Ebbing(door.url, "k", timeout=PATIENCE_SECONDS) as client:
        with pytest.raises(Unavailable) as refused:
            client.search("tea")
        assert (refused.value.retry_after_seconds, len(door.seen)) == (3600, 1)
        door.answers = [refusal(503), refusal(503), refusal(503), NO_RESULTS]
        client.search("tea")
        assert len(door.seen) == 5


def test_a_call_that_may_have_happened_is_repeated_only_if_that_is_safe(door: Gate, client: Ebbing) -> None:
    for script, sent in (["broken"], 1), (["away", "broken"], 2), (["busy", "away", "broken"], 3):
        door.seen.clear()
        door.script = list(script)  # type: ignore[arg-type]  # names of modes
        with pytest.raises(ServiceUnreachable):
            client.forget("ann")
        assert len(door.seen) == sent, script
    door.seen.clear()
    door.answers = [refusal(503, {"title": "a proxy's own"}), refusal(503, {})]
    with pytest.raises(Unavailable):
        client.forget("ann")
    assert len(door.seen) == 1
    door.seen.clear()
    door.answers, door.script = [], ["broken", "broken"]
    with pytest.raises(Unavailable):
        client.search("tea", timeout=2)
    assert len(door.seen) > 2


def test_a_silent_service_ends_with_the_deadline(door: Gate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Ebbing(url, "k", timeout=0.2) as client,
            pytest.raises(DeadlinePassed, match=r"GET /v1/stats"),
        ):
            client.call("GET", "/v1/stats")
    with Ebbing(url, "k", timeout=0.2) as client, pytest.raises(ServiceUnreachable, match="can't be reached"):
        client.call("GET", "/v1/stats")


def test_calls_share_a_connection(door: Gate, client: Ebbing) -> None:
    door.answers = [NO_RESULTS] * 5
    for _ in range(5):
        client.search("tea")
    assert (len(door.seen), door.connections) == (5, 1)


def test_errors_hold_the_fields_and_survive_foreign_bodies(door: Gate, client: Ebbing) -> None:
    problem = {
        "type": "urn:ebbing:problem:invalid",
        "title": "A request field is invalid",
        "errors": [{"field": "limit", "message": "is too large", "value": 900, "limit": 100}],
        "request_id": "of-a-proxy",
        "call_id": "abc",
    }
    door.answers = [refusal(422, problem)]
    with pytest.raises(Invalid, match=r"422 .*limit is too large \(value 900, limit 100\) \(request abc\)") as refused:
        client.search("tea", limit=900)
    door.answers = [refusal(422, {"title": "of an earlier version", "request_id": "def"})]
    with pytest.raises(ApiError, match=r"\(request def\)"):
        client.search("tea")
    [field] = refused.value.fields
    assert (field.field, field.value, field.limit) == ("limit", 900, 100)
    for status, body, kind in (
        (500, b"<html>", ServerError),
        (418, b"[1]", ApiError),
        (200, b"<html>", UnexpectedAnswer),
        (200, b"{}", UnexpectedAnswer),
        (200, b'{"results": [{"id": 1}]}', UnexpectedAnswer),
    ):
        door.answers = [(status, {}, body)]
        with pytest.raises(kind):
            client.search("tea")


def test_unknown_fields_of_a_response_are_kept(door: Gate, client: Ebbing) -> None:
    shown = {"id": "1", "text": "tea", "created_at": "2026-11-22T02:11:58Z", "occurred_at": None, "colour": "green"}
    door.answers = [(200, {}, json.dumps(shown).encode())]
    memory = client.get("1")
    assert memory.created_at == datetime.fromisoformat("2026-11-22T02:11:58+00:00")
    assert (memory.occurred_at, memory.raw["colour"]) == (None, "green")


def test_values_are_sent_in_the_forms_of_the_api(door: Gate, client: Ebbing) -> None:
    moment = datetime.fromisoformat("2026-05-07T09:00:00+00:00")
    door.answers = [(200, {}, b'{"memories": [], "next_cursor": null}'), ACCEPTED]
    filters: dict[str, Any] = {"after": moment, "metadata": {"a": [1]}, "superseded": False, "subject": None}
    assert list(client.memories(**filters)) == []
    expected = "/v1/memories?limit=100&after=2026-05-07T09%3A00%3A00%2B00%3A00&metadata="
    assert door.seen[0].path.startswith(expected)
    assert "superseded=false" in door.seen[0].path
    assert "subject" not in door.seen[0].path
    client.add({"text": "tea", "occurred_at": moment}, tags=["a"])
    assert door.seen[1].memories == [{"tags": ["a"], "text": "tea", "occurred_at": "2026-05-07T09:00:00+00:00"}]
    naive = datetime(2026, 5, 7)  # noqa: DTZ001 - the error
    for wrong in ({"occurred_at": naive}, {"metadata": {"a": object()}}, {"salience": float("nan")}):
        with pytest.raises(Invalid) as refused:
            client.add("secret", **wrong)
        assert "secret" not in str(refused.value)
    assert len(door.seen) == 2


def test_the_current_span_is_passed_on(door: Gate, client: Ebbing) -> None:
    door.answers = [NO_RESULTS, NO_RESULTS]
    span = NonRecordingSpan(SpanContext(0xA1, 0xB2, is_remote=False, trace_flags=TraceFlags(1)))
    with trace.use_span(span):
        client.search("tea")
    client.search("tea")
    headers = [{name.lower(): value for name, value in request.headers.items()} for request in door.seen]
    assert headers[0]["traceparent"] == f"00-{0xA1:032x}-{0xB2:016x}-01"
    assert "traceparent" not in headers[1]


def test_address_and_key_come_from_arguments_environment_or_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, door: Gate
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("EBBING_API_URL", "EBBING_API_KEY", "EBBING_API_KEY_FILE", "EBBING_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Misconfigured, match="EBBING_API_URL"):
        Ebbing()
    (tmp_path / ".ebbing").mkdir()
    (tmp_path / ".ebbing" / "api-url").write_text(f"{door.url}\n")
    (tmp_path / ".ebbing" / "api-key").write_text("eb_home\n")
    monkeypatch.setenv("EBBING_API_URL", "https://ebbing.example")
    with pytest.raises(Misconfigured, match="EBBING_API_KEY"):
        Ebbing()
    monkeypatch.delenv("EBBING_API_URL")
    door.answers = [NO_RESULTS] * 3
    for key, given in (("eb_home", None), ("eb_environment", None), ("eb_argument", "eb_argument")):
        if key == "eb_environment":
            monkeypatch.setenv("EBBING_API_KEY", key)
        with Ebbing(key=given) as client:
            client.search("tea")
    sent = [request.headers["Authorization"] for request in door.seen]
    assert sent == ["Bearer eb_home", "Bearer eb_environment", "Bearer eb_argument"]
    with pytest.raises(Misconfigured, match="isn't a URL"):
        Ebbing("localhost:8000", "k")


def test_the_key_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, door: Gate) -> None:
    path = tmp_path / "key"
    monkeypatch.delenv("EBBING_API_KEY", raising=False)
    monkeypatch.setenv("EBBING_API_KEY_FILE", str(path))
    with pytest.raises(Misconfigured, match=r"EBBING_API_KEY_FILE: .*key can't be read \(FileNotFoundError"):
        Ebbing(door.url)
    for content, fault in ((b"\n", "is empty"), (b"\xff", "can't be read"), (b"eb\nx", "characters that no key has")):
        path.write_bytes(content)
        with pytest.raises(Misconfigured, match=fault):
            Ebbing(door.url)
    path.write_text("eb_file\r\n")
    door.answers = [NO_RESULTS] * 2
    for given in (None, "eb_argument"):
        with Ebbing(door.url, given) as client:
            client.search("tea")
    assert [request.headers["Authorization"] for request in door.seen] == ["Bearer eb_file", "Bearer eb_argument"]
    monkeypatch.setenv("EBBING_API_KEY", "eb_environment")
    with pytest.raises(Misconfigured, match="both set"):
        Ebbing(door.url)


def test_the_package_imports_little_and_names_everything() -> None:
    """An import of the client must not need more than its one dependency."""
    own = Path(ebbing_client.__file__).parent
    imported = set()
    for path in own.glob("*.py"):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]) and len(words) > 1:
                imported.add(words[1].partition(".")[0])
    optional = {"cryptography", "opentelemetry", "typing_extensions"}
    assert imported - set(sys.stdlib_module_names) == {"ebbing_client", "httpx2"} | optional
    public = {name for name, kind in vars(ebbing_client).items() if inspect.isclass(kind)}
    assert public == set(ebbing_client.__all__)
    raised = {name for name, kind in vars(ebbing_client.errors).items() if _is_error(kind)}
    assert raised <= public
    assert os.path.exists(own / "py.typed")  # noqa: PTH110 - as importers see it


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, EbbingError)


def test_calls_end_within_their_deadline_through_all_attempts(door: Gate) -> None:
    started = time.monotonic()
    with Ebbing(door.url, "k", timeout=0.5) as client, pytest.raises(Unavailable):
        client.search("tea")
    assert len(door.seen) > 1
    assert time.monotonic() - started < PATIENCE_SECONDS
