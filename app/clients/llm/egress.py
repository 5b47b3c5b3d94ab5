"""Outbound HTTP: requests only reach hosts that the operator allowed, within limits on time and size.

These rules decide who receives memories, regardless of base URL, redirects or DNS answers:

- the host must be allowed, and redirects are never followed;
- its name is resolved once, and the connection uses the addresses that were checked;
- a public name that resolves to a private address is refused; link-local and metadata addresses are always refused;
- plain HTTP is limited to this machine and its private network;
- the whole exchange, from connecting to the last byte, must finish within the request's timeout, even if bytes trickle;
- a response has a maximum size and must be uncompressed, so that it cannot expand in memory;
- only the headers listed here are sent, whatever a library or its environment variables add.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - otherwise the resolver imports it lazily, in several threads at once
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, cast

import httpcore2
import httpx2

Resolve = Callable[[str, int], Sequence[str]]
Clock = Callable[[], float]

CONNECT_SECONDS: Final = 5.0
"""Connection timeout per address."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_SENT_HEADERS = frozenset(
    {"accept", "authorization", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
# Cloud metadata services that aren't link-local.
_METADATA = frozenset({ipaddress.ip_address("100.100.100.200"), ipaddress.ip_address("fd00:ec2::254")})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class HostRefused(Exception):
    """The host, or an address that it resolves to, isn't allowed. The message names the host and the rule."""


class AnswerRefused(Exception):
    """The response is too large, or compressed although compression wasn't requested. The message is a fixed reason."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Allowed destinations.

    Attributes:
        hosts: Host names or addresses, in lower case.
        private: True if names may resolve to private addresses.
    """

    hosts: frozenset[str]
    private: bool = False

    def check_host(self, host: str) -> None:
        """Check that the host is allowed.

        Raises:
            HostRefused: The host isn't allowed.
        """
        if host.lower() not in self.hosts:
            raise HostRefused(f"{host} isn't one of the allowed hosts: {', '.join(sorted(self.hosts))}")

    def check_address(self, host: str, address: str, *, plain: bool) -> None:
        """Check that the host may have this address.

        Args:
            host: Host of the URL.
            address: An address that it resolved to.
            plain: True for plain HTTP.

        Raises:
            HostRefused: The address isn't allowed.
        """
        parsed = plain_form(address)
        if is_never_allowed(parsed):
            raise HostRefused(f"{host} resolves to {address}, a link-local, multicast, unspecified or metadata address")
        if not parsed.is_global and not (self.private or _is_named_local(host)):
            raise HostRefused(f"{host} resolves to {address}, a private address")
        if parsed.is_global and plain:
            raise HostRefused(f"{host} is a public host: use https, because plain HTTP is unencrypted")


def client(  # noqa: PLR0913 - one limit or rule each, by name
    allowed: Allowed,
    *,
    timeout_seconds: float,
    answer_max_bytes: int,
    less_by_path: Mapping[str, int] | None = None,
    connections: int,
    more_headers: frozenset[str] = frozenset(),
    status_only: bool = False,
    resolve: Resolve | None = None,
    clock: Clock = time.monotonic,
) -> httpx2.Client:
    """Return an HTTP client that enforces the rules of this module; it is thread-safe and reuses connections.

    Args:
        allowed: Allowed destinations.
        timeout_seconds: Default timeout of a request; a request's read timeout limits the whole exchange.
        answer_max_bytes: Maximum size of a response body.
        less_by_path: Lower maximum sizes, by the end of the request's path.
        connections: Maximum number of concurrent connections.
        more_headers: Names of headers to send in addition to the usual ones, in lower case.
        status_only: True if the caller needs the status alone: a response isn't refused for its declared size or
            its encoding, and reading its body ends at the maximum size.
        resolve: Function that resolves a host and port; defaults to the system's resolver.
        clock: Monotonic clock in seconds.
    """
    sizes = _AnswerSizes(answer_max_bytes, less_by_path or {})
    transport = _Transport(
        allowed,
        sizes,
        connections,
        resolve or resolve_host,
        clock,
        sent_headers=_SENT_HEADERS | more_headers,
        status_only=status_only,
    )
    return httpx2.Client(transport=transport, trust_env=False, follow_redirects=False, timeout=timeout_seconds)


def _find_refusal(response: httpx2.Response, most: int) -> str | None:
    """Return the reason to refuse a response by its headers, or None."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        return "compressed"
    length = response.headers.get("content-length", "")
    return "too large" if length.isdigit() and int(length) > most else None


class _Deadline(threading.local):
    """Deadline and scheme of this thread's current request."""

    at: float | None = None
    plain: bool = False


@dataclass(frozen=True)
class _AnswerSizes:
    """Maximum sizes of response bodies in bytes."""

    most: int
    less_by_path: Mapping[str, int]

    def find_limit(self, path: str) -> int:
        """Return the maximum size of a response to a request for this path."""
        return next((size for end, size in self.less_by_path.items() if path.endswith(end)), self.most)


class _Transport(httpx2.BaseTransport):
    def __init__(
        self,
        allowed: Allowed,
        sizes: _AnswerSizes,
        connections: int,
        resolve: Resolve,
        clock: Clock,
        *,
        sent_headers: frozenset[str],
        status_only: bool,
    ) -> None:
        self._allowed = allowed
        self._sizes = sizes
        self._sent_headers = sent_headers
        self._status_only = status_only
        self._clock = clock
        self._deadline = _Deadline()
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=30.0,
            network_backend=_Network(allowed, resolve, self._deadline, clock),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response with its body unread.

        Raises:
            HostRefused: The host or its address isn't allowed.
            AnswerRefused: The response is too large or compressed.
            httpx2.TransportError: The exchange failed; a `TimeoutException` if it timed out.
        """
        self._allowed.check_host(request.url.host)
        timeouts = dict(request.extensions["timeout"])
        seconds = timeouts["read"]
        timeouts["connect"] = min(seconds, CONNECT_SECONDS)
        at, plain = self._clock() + seconds, request.url.scheme == "http"
        with self._within(at, plain=plain):
            answer = self._pool.handle_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=[*_sent(request.headers.raw, self._sent_headers), (b"accept-encoding", b"identity")],
                    content=cast("Iterable[bytes]", request.stream),
                    extensions={"timeout": timeouts},
                )
            )
        most = self._sizes.find_limit(request.url.path)
        response = httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(self, answer, at, most), extensions=answer.extensions
        )
        if not self._status_only and (refused := _find_refusal(response, most)):
            response.close()
            raise AnswerRefused(refused)
        return response

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def parts(self, stream: Iterable[bytes], at: float, most: int) -> Iterator[bytes]:
        """Yield the parts of a body, enforcing the deadline and the maximum size."""
        size = 0
        parts = iter(stream)
        while True:
            with self._within(at, plain=False):
                part = next(parts, None)
            if part is None:
                return
            size += len(part)
            if size > most:
                raise AnswerRefused("too large")
            yield part

    @contextmanager
    def _within(self, at: float, *, plain: bool) -> Iterator[None]:
        """Enforce the deadline for all I/O of this thread in the block, and translate errors to httpx2's."""
        self._deadline.at, self._deadline.plain = at, plain
        try:
            yield
        except httpcore2.TimeoutException as error:
            raise httpx2.ReadTimeout(type(error).__name__) from None
        except httpcore2.ConnectError as error:
            raise httpx2.ConnectError(type(error).__name__) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ConnectionNotAvailable) as error:
            raise httpx2.ReadError(type(error).__name__) from None
        finally:
            self._deadline.at = None


class _Body(httpx2.SyncByteStream):
    def __init__(self, transport: _Transport, answer: httpcore2.Response, at: float, most: int) -> None:
        self._transport = transport
        self._answer = answer
        self._at = at
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        return self._transport.parts(cast("Iterable[bytes]", self._answer.stream), self._at, self._most)

    def close(self) -> None:
        self._answer.close()


class _Network(httpcore2.NetworkBackend):
    """Network backend that only connects to checked addresses."""

    def __init__(self, allowed: Allowed, resolve: Resolve, deadline: _Deadline, clock: Clock) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._deadline = deadline
        self._clock = clock
        self._system = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of the host that accepts; all of its addresses must be allowed."""
        try:
            addresses = self._resolve(host, port)
        except OSError as error:
            raise httpcore2.ConnectError(type(error).__name__) from None
        for address in addresses:
            self._allowed.check_address(host, address, plain=self._deadline.plain)
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout = httpcore2.ConnectError("no address")
        for address in addresses:
            remaining = _left(self._deadline, self._clock, timeout)
            try:
                stream = self._system.connect_tcp(address, port, remaining, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
            else:
                return _Stream(stream, self._deadline, self._clock)
        raise failed


class _Stream(httpcore2.NetworkStream):
    """A connection whose operations all respect the deadline of the thread that uses it."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: _Deadline, clock: Clock) -> None:
        self._stream = stream
        self._deadline = deadline
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline, self._clock, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, self._clock, timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        remaining = _left(self._deadline, self._clock, timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, remaining), self._deadline, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: _Deadline, clock: Clock, timeout: float | None) -> float | None:
    """Return the seconds left for the next operation, at most `timeout`; None if neither limit is set."""
    if deadline.at is None:
        return timeout
    remaining = deadline.at - clock()
    if remaining <= 0:
        raise httpcore2.ReadTimeout
    return remaining if timeout is None else min(remaining, timeout)


def _sent(headers: Iterable[tuple[bytes, bytes]], names: frozenset[str]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.decode("latin-1").lower() in names]


def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a host to its distinct addresses with the system's resolver."""
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


def _is_named_local(host: str) -> bool:
    """Return true if the host is explicitly local or numeric: `localhost` or an IP address in its usual form."""
    if host.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def is_never_allowed(address: _Address) -> bool:
    """Return true for addresses that no setting allows: link-local, multicast, unspecified and metadata addresses."""
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA


def plain_form(address: str) -> _Address:
    """Return the address, unwrapping an IPv4 address embedded in an IPv6 one."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed in _NAT64:
            return ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        return parsed.ipv4_mapped or parsed.sixtofour or parsed
    return parsed
