"""Distributed traces across API, stream and workers (`EBBING_OTEL_ENDPOINT`, extra `otel`).

When tracing is off, OpenTelemetry isn't imported and a request costs one variable check. The context of a request is
stored in the stream as W3C `traceparent`, and the span of the worker that stores the request links to it. Spans contain
only numbers and error types: no text, tenant or id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from app.errors import Misconfigured
from app.settings import settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Link, Span, Tracer

LINKS_MAX: Final = 128
"""Maximum links per span: the default limit of collectors."""
_PARENT: Final = "traceparent"


@dataclass
class _State:
    """Tracer of this process; None while tracing is off."""

    provider: TracerProvider | None = None
    tracer: Tracer | None = None


_state = _State()


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """Traced request; `context` is the context stored with it in the stream."""

    span: Span
    context: str

    def end(self, error: BaseException | None = None) -> None:
        """End the span, with the error if there was one. Call once."""
        _end(self.span, error)


def check_packages() -> None:
    """Check that the tracing packages are installed if an endpoint is set.

    Raises:
        Misconfigured: Packages are missing; the message says what to install.
    """
    if settings().otel_endpoint is not None:
        _packages()


def start(process: str) -> None:
    """Start tracing if an endpoint is set. Call it after a fork.

    Args:
        process: Kind of process, an attribute of all spans.

    Raises:
        Misconfigured: The packages aren't installed.
    """
    endpoint = settings().otel_endpoint
    if endpoint is None:
        return
    _packages()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra

    provider = TracerProvider(resource=Resource.create({"service.name": "ebbing", "ebbing.process": process}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")))
    set_provider(provider)


def set_provider(provider: TracerProvider) -> None:
    """Set the tracer provider of this process."""
    _state.provider, _state.tracer = provider, provider.get_tracer("ebbing")


def stop() -> None:
    """Flush pending spans and stop tracing."""
    if _state.provider is not None:
        _state.provider.shutdown()
    _state.provider = _state.tracer = None


def is_on() -> bool:
    """Return True if tracing is on."""
    return _state.tracer is not None


def trace_request(name: str, given: str) -> TracedRequest:
    """Start the span of a request, as a child of the caller's span if given. Call only while tracing is on.

    Args:
        name: Name of the operation.
        given: The caller's `traceparent`; empty for none.
    """
    from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

    assert _state.tracer is not None  # noqa: S101 - checked by the caller
    propagator = TraceContextTextMapPropagator()
    context = propagator.extract({_PARENT: given} if given else {})
    span = _state.tracer.start_span(name, context, SpanKind.PRODUCER)
    carrier: dict[str, str] = {}
    propagator.inject(carrier, set_span_in_context(span))
    return TracedRequest(span, carrier.get(_PARENT, given))


@contextmanager
def trace_work(name: str, contexts: Iterable[str], numbers: Mapping[str, int]) -> Iterator[None]:
    """Trace work on stored requests with a span linked to their spans; does nothing while tracing is off.

    Args:
        name: Name of the operation.
        contexts: Trace contexts of the requests; read only while tracing is on.
        numbers: Numeric attributes by name.
    """
    if _state.tracer is None:
        yield
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an extra

    attributes = {f"ebbing.{key}": value for key, value in numbers.items()}
    links = list(_links(contexts))
    span = _state.tracer.start_span(name, kind=SpanKind.CONSUMER, attributes=attributes, links=links)
    try:
        yield
    except BaseException as error:
        _end(span, error)
        raise
    _end(span, None)


def _links(contexts: Iterable[str]) -> Iterator[Link]:
    from opentelemetry.trace import Link, get_current_span  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

    propagator, found = TraceContextTextMapPropagator(), 0
    for each in contexts:
        context = get_current_span(propagator.extract({_PARENT: each})).get_span_context()
        if each and context.is_valid and found < LINKS_MAX:
            found += 1
            yield Link(context)


def _end(span: Span, error: BaseException | None) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

    if error is not None:
        span.set_status(StatusCode.ERROR, type(error).__name__)  # the message may quote anything
    span.end()


def _packages() -> None:
    try:
        for name in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"):
            import_module(name)
    except ImportError:
        raise Misconfigured(
            "EBBING_OTEL_ENDPOINT is set, but OpenTelemetry isn't installed: run `pip install 'ebbing[otel]'`"
        ) from None
