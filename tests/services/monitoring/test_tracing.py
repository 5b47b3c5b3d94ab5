"""Traces span the caller, the stream and the worker that stores the request; switched off, they cost nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app import tracing
from app.clients.redis.connection import stream_key
from app.domain.ingest.envelope import decode_envelope
from app.errors import Misconfigured
from app.services.ingest import drain
from app.settings import settings
from tests.api.caller import Api
from tests.service import Service

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{CALLER}-01"
ROOT = Path(__file__).resolve().parents[3]


class Collected:
    """The spans that a collector would have received."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        tracing.set_provider(provider)

    def one(self, name: str) -> ReadableSpan:
        [found] = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return found

    def text(self) -> str:
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    with Api(service) as started:
        yield started


@pytest.fixture
def collected(api: Api) -> Iterator[Collected]:
    yield Collected()
    tracing.stop()


def in_stream(api: Api) -> list[str]:
    """Return the trace contexts of the entries in the stream."""
    entries = cast("Any", api.service.redis.xrange(stream_key(api.tenant.tenant_id)))
    return [decode_envelope(name.decode(), *fields.values()).trace for name, fields in entries]


def ids(span: ReadableSpan) -> tuple[str, str]:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def test_a_request_is_followed_from_the_caller_to_who_stores_it(api: Api, collected: Collected) -> None:
    api.post("/v1/memories", json={"text": "x"}, headers={"traceparent": GIVEN})
    asked = collected.one("ingest")
    assert asked.parent is not None
    assert (ids(asked)[0], f"{asked.parent.span_id:016x}") == (TRACE, CALLER)
    assert in_stream(api) == [f"00-{TRACE}-{ids(asked)[1]}-01"]
    assert drain.drain_streams() == 1
    stored = collected.one("store")
    [link] = stored.links
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == ids(asked)
    assert stored.attributes == {"ebbing.requests": 1}


def test_without_a_callers_context_a_trace_begins_here(api: Api, collected: Collected) -> None:
    api.post("/v1/memories", json={"text": "x"})
    asked = collected.one("ingest")
    assert asked.parent is None
    [reported] = in_stream(api)
    assert reported.split("-")[1:3] == list(ids(asked))


def test_a_caller_who_isnt_sampled_isnt_followed(api: Api, collected: Collected) -> None:
    api.post("/v1/memories", json={"text": "x"}, headers={"traceparent": f"{GIVEN[:-2]}00"})
    assert in_stream(api)[0].endswith("-00")
    assert "ingest" not in collected.text()


def test_off_the_callers_context_goes_through_as_it_is(api: Api) -> None:
    api.post("/v1/memories", json={"text": "x"}, headers={"traceparent": GIVEN})
    api.post("/v1/memories", json={"text": "x"}, headers={"traceparent": "nonsense"})
    assert in_stream(api) == [GIVEN, ""]
    assert drain.drain_streams() == 2


def test_requests_from_before_traces_and_what_is_no_envelope_are_stored_all_the_same(
    api: Api, collected: Collected
) -> None:
    tenant_id = api.tenant.tenant_id
    api.service.send(tenant_id, "one")
    api.service.push(tenant_id, {b"n": b"1", b"h": b"not a header", b"e": b"{}"})
    assert drain.drain_streams() == 1
    assert collected.one("store").links == ()


def test_links_are_bounded(api: Api, collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "LINKS_MAX", 2)
    for _ in range(4):
        api.post("/v1/memories", json={"text": "x"})
    drain.drain_streams()
    assert len(collected.one("store").links) == 2


def test_a_failure_is_told_by_its_type(api: Api, collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    api.post("/v1/memories", json={"text": ""})
    assert collected.one("ingest").status.description == "Invalid"
    api.post("/v1/memories", json={"text": "x"})
    monkeypatch.setattr("app.store.ingest.envelopes.copy_fresh", lambda *_: 1 / 0)
    monkeypatch.setattr(
        "app.store.ingest.dead_letters.add", lambda *_, **__: (_ for _ in ()).throw(ValueError("canary-4711"))
    )
    with pytest.raises(ValueError, match="canary"):
        drain.drain_streams()
    assert collected.one("store").status.description == "ValueError"


def test_no_span_holds_text_a_tenant_or_an_id(api: Api, collected: Collected) -> None:
    [memory_id] = api.remember({"text": "canary-4711", "subject": "canary-4711", "external_id": "canary-4711"})
    reported = collected.text()
    assert '"ingest"' in reported
    for secret in ("canary-4711", memory_id, str(api.tenant.tenant_id), api.tenant.key, api.tenant.key_id):
        assert secret not in reported


@pytest.mark.slow
def test_off_nothing_of_it_is_imported(service: Service) -> None:
    """redis-py imports the SDK's metrics by itself where it finds them."""
    look = (
        "import sys, app.main, workers.celery_app; app.main.tracing.start('api'); "
        "ours = ('opentelemetry.sdk.trace', 'opentelemetry.exporter'); "
        "print([name for name in sys.modules if name.startswith(ours)])"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_an_endpoint_without_the_packages_is_refused_with_the_way_out(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing.check_packages()
    service.configure(otel_endpoint="http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(Misconfigured, match=r"ebbing\[otel\]"):
        tracing.check_packages()
    with pytest.raises(Misconfigured, match=r"ebbing\[otel\]"):
        tracing.start("api")


def test_an_address_that_is_none_is_refused(service: Service) -> None:
    service.configure(otel_endpoint="127.0.0.1:4318")
    with pytest.raises(ValueError, match="otel_endpoint"):
        settings()
