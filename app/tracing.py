"""Traces across API, stream and workers, for those who collect them (`EBBING_OTEL_ENDPOINT`, the extra `otel`).

Off, nothing of OpenTelemetry is imported, and a request costs one look at a variable. The context of a request goes
with it through the stream, by W3C's `traceparent`; who stores it has a span that is linked to it. No span holds text,
a tenant or an id: numbers and types of errors alone.
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
"""As many as collectors take by default."""
_PARENT: Final = "traceparent"


@dataclass
class _State:
    """What this process traces by; nothing while it is off."""

    provider: TracerProvider | None = None
    tracer: Tracer | None = None


_state = _State()


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is traced: `told` is what goes with it through the stream."""

    span: Span
    told: str

    def end(self, error: BaseException | None = None) -> None:
        """Say how it went; once."""
        _end(self.span, error)


def check() -> None:
    """See that what traces need is there, where they are wanted.

    Raises:
        Misconfigured: It isn't; says what to install.
    """
    if settings().otel_endpoint is not None:
        _packages()


def start(process: str) -> None:
    """Begin to trace, where an endpoint is set. To be called after a fork.

    Args:
        process: What kind of process this is.

    Raises:
        Misconfigured: The packages aren't there.
    """
    endpoint = settings().otel_endpoint
    if endpoint is None:
        return
    _packages()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - likewise

    provider = TracerProvider(resource=Resource.create({"service.name": "ebbing", "ebbing.process": process}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")))
    use(provider)


def use(provider: TracerProvider) -> None:
    """Trace by this provider from here on."""
    _state.provider, _state.tracer = provider, provider.get_tracer("ebbing")


def stop() -> None:
    """Send what waits, and trace no more."""
    if _state.provider is not None:
        _state.provider.shutdown()
    _state.provider = _state.tracer = None


def is_on() -> bool:
    """Whether this process traces."""
    return _state.tracer is not None


def request(name: str, given: str) -> Request:
    """Begin the span of a request, as a child of the caller's where it has told of one. Only while traces are on.

    Args:
        name: What is done.
        given: The caller's `traceparent`; empty for none.
    """
    from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - likewise

    assert _state.tracer is not None  # noqa: S101 - the caller has looked
    propagator = TraceContextTextMapPropagator()
    context = propagator.extract({_PARENT: given} if given else {})
    span = _state.tracer.start_span(name, context, SpanKind.PRODUCER)
    carrier: dict[str, str] = {}
    propagator.inject(carrier, set_span_in_context(span))
    return Request(span, carrier.get(_PARENT, given))


@contextmanager
def work(name: str, told: Iterable[str], numbers: Mapping[str, int]) -> Iterator[None]:
    """A span of work on what requests have brought, linked to theirs. Nothing while traces are off.

    Args:
        name: What is done.
        told: What has come through the stream with each; looked at only while traces are on.
        numbers: What there is to say of it, by name.
    """
    if _state.tracer is None:
        yield
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an extra

    attributes = {f"ebbing.{key}": value for key, value in numbers.items()}
    links = list(_links(told))
    span = _state.tracer.start_span(name, kind=SpanKind.CONSUMER, attributes=attributes, links=links)
    try:
        yield
    except BaseException as error:
        _end(span, error)
        raise
    _end(span, None)


def _links(told: Iterable[str]) -> Iterator[Link]:
    from opentelemetry.trace import Link, get_current_span  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - likewise

    propagator, found = TraceContextTextMapPropagator(), 0
    for each in told:
        context = get_current_span(propagator.extract({_PARENT: each})).get_span_context()
        if each and context.is_valid and found < LINKS_MAX:
            found += 1
            yield Link(context)


def _end(span: Span, error: BaseException | None) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

    if error is not None:
        span.set_status(StatusCode.ERROR, type(error).__name__)  # its message may quote anything
    span.end()


def _packages() -> None:
    try:
        for name in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"):
            import_module(name)
    except ImportError:
        raise Misconfigured(
            "EBBING_OTEL_ENDPOINT is set, and OpenTelemetry isn't installed: pip install 'ebbing[otel]'"
        ) from None
