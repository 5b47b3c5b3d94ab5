"""The real server (F19) against oversized, endless, slow and truncated bodies, and too many or slow headers."""

from __future__ import annotations

import gzip
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from tests.api.http.server_process import LIMIT, Server, Start, answer
from tests.waiting import PATIENCE_SECONDS, until

SECONDS = 2.0
SLOW = 200
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("server")]  # so that the servers start once


@pytest.fixture(scope="module")
def server(start: Start) -> Iterator[Server]:
    """A server whose timeouts no test reaches."""
    with start(PATIENCE_SECONDS) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(start: Start) -> Iterator[Server]:
    """A server with timeouts of a few seconds for headers and body."""
    with start(SECONDS) as running:
        yield running


def memory(size: int) -> bytes:
    """Build a memory whose body has exactly this many bytes."""
    lines = [b'{"text":"' + b"x" * 30_000 + b'"}'] * (size // 30_100)
    body = b"[" + b",".join(lines) + b"]"
    return body + b" " * (size - len(body))


def test_a_body_at_the_limit_is_taken_declared_or_in_chunks(server: Server) -> None:
    body = memory(LIMIT)
    headers = {"authorization": f"Bearer {server.key}"}
    for content in (body, iter([body[:1000], body[1000:500_000], body[500_000:]])):
        found = httpx.post(
            f"{server.url}/v1/memories", content=content, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False
        )
        assert found.status_code == 202


def test_a_body_that_declares_too_much_is_refused_before_it_is_sent(server: Server) -> None:
    for length in (LIMIT + 1, 10**12):
        with server.talk() as connection:
            connection.sendall(server.head(f"Content-Length: {length}"))
            status, text = answer(connection)
        assert status == 413
        assert f'"limit":{LIMIT}'.encode() in text


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/search"])
def test_an_endless_body_is_refused_and_the_memory_stays_flat(server: Server, path: str) -> None:
    before = server.resident_bytes()
    assert before > 10 * LIMIT, "the server's memory could not be measured"
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    sent = 0
    with server.talk() as connection:
        connection.sendall(server.head("Transfer-Encoding: chunked", path=path))
        connection.settimeout(10)
        with suppress(ConnectionError, TimeoutError):
            while sent < 256 * LIMIT:
                connection.sendall(chunk)
                sent += 65536
        connection.settimeout(PATIENCE_SECONDS)
        with suppress(IndexError):  # the connection was reset before the answer could be read
            assert answer(connection)[0] == 413
    assert sent < 64 * LIMIT, "the server kept reading the body"
    assert server.resident_bytes() - before < 32 * LIMIT


def test_a_chunked_body_over_the_limit_is_told_so(server: Server) -> None:
    body = memory(LIMIT) + b" "
    with server.talk() as connection:
        connection.sendall(server.head("Transfer-Encoding: chunked"))
        connection.sendall(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
        status, text = answer(connection)
    assert status == 413
    assert b'"field":"body"' in text


def test_a_malformed_chunk_is_a_bad_request(server: Server) -> None:
    with server.talk() as connection:
        connection.sendall(server.head("Transfer-Encoding: chunked") + b"not a length\r\n{}\r\n")
        status, text = answer(connection)
    assert status == 400
    assert not text or b"incomplete" in text


def test_a_compressed_body_is_refused_and_never_inflated(server: Server) -> None:
    bomb = gzip.compress(bytes(128 * LIMIT))
    assert len(bomb) < LIMIT
    before = server.resident_bytes()
    for encoding, body in (("gzip", bomb), ("gzip", b"{}"), ("br", b"{}"), ("deflate", b"{}")):
        with server.talk() as connection:
            connection.sendall(server.head(f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}"))
            with suppress(ConnectionError):  # refused because of its headers
                connection.sendall(body)
            assert answer(connection)[0] == 400
    assert server.resident_bytes() - before < 32 * LIMIT


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/search"])
def test_a_body_that_stops_is_refused_when_its_time_is_up(hasty: Server, path: str) -> None:
    started = time.monotonic()
    with hasty.talk() as connection:
        connection.sendall(hasty.head("Content-Length: 100", path=path) + b'{"text":')
        status, _ = answer(connection)
    assert status == 408
    assert time.monotonic() - started >= SECONDS * 0.9


def test_a_body_that_drips_has_no_more_time_than_one_that_stops(hasty: Server) -> None:
    """Each byte arrives before a per-byte timeout could expire, and there are enough to last as long as `until`."""
    with hasty.talk() as connection:
        connection.sendall(hasty.head(f"Content-Length: {LIMIT}"))
        connection.settimeout(0.05)

        def drip() -> int:
            with suppress(ConnectionError):
                connection.sendall(b" ")
            with suppress(IndexError):
                return answer(connection)[0]
            return 0

        assert until(drip, "the body is refused") == 408


class Slow:
    """A slow client: sends nothing, or sends its headers or its body one byte at a time."""

    def __init__(self, server: Server, kind: str) -> None:
        self.kind, self.received, self.ended = kind, b"", False
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
        head = server.head("Content-Length: 100000", "X-Slow: ")
        self.socket.sendall({"silent": b"", "headers": head.removesuffix(b"\r\n\r\n"), "body": head}[kind])
        self.socket.setblocking(False)

    def go_on(self) -> bool:
        """Read what the server sent, send one more byte, and return true once the server has closed the connection."""
        with suppress(BlockingIOError):
            try:
                while more := self.socket.recv(65536):
                    self.received += more
                self.ended = True
            except ConnectionError:
                self.ended = True
        if self.kind != "silent" and not self.ended:
            with suppress(BlockingIOError, ConnectionError):
                self.socket.send(b" ")
        return self.ended


@contextmanager
def slow_clients(server: Server) -> Iterator[list[Slow]]:
    with ExitStack() as opened:
        slow = [Slow(server, ("silent", "headers", "body")[n % 3]) for n in range(SLOW)]
        for one in slow:
            opened.enter_context(one.socket)
        yield slow


@pytest.mark.long
def test_two_hundred_slow_clients_hold_up_nobody_else(server: Server) -> None:
    """Other requests are answered while all two hundred are still connected."""
    before = server.resident_bytes()
    with slow_clients(server) as slow:
        for _ in range(20):
            with server.talk() as connection:
                connection.sendall(server.head(method="GET", path="/v1/stats"))
                assert answer(connection)[0] == 200
            assert not sum(one.go_on() for one in slow)
    assert server.resident_bytes() - before < 32 * LIMIT


@pytest.mark.long
def test_two_hundred_slow_clients_are_let_go(hasty: Server) -> None:
    started = time.monotonic()
    with slow_clients(hasty) as slow:
        until(
            lambda: sum(one.go_on() for one in slow) == SLOW,
            lambda: f"they are let go, {Counter(one.kind for one in slow if not one.ended)}",
        )
    assert time.monotonic() - started >= 0.9 * SECONDS, "connections were closed before the timeout"
    reported = Counter(one.received[9:12] for one in slow if one.kind == "body")
    assert reported.keys() <= {b"408", b""}, "only 408, or nothing if a late byte reset the connection"
    assert reported[b"408"]
    assert not any(one.received for one in slow if one.kind != "body")


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/search"])
def test_a_client_that_goes_away_is_no_failure_of_ours(server: Server, path: str) -> None:
    refused, failed = server.counted("4xx"), server.counted("5xx")
    with server.talk() as connection:
        connection.sendall(server.head("Content-Length: 100", path=path) + b'{"text":')
    until(lambda: server.counted("4xx") > refused, "the request is counted")
    assert server.counted("5xx") == failed
    assert '"unexpected"' not in server.log.read_text()


@pytest.mark.parametrize("headers", [[f"X-{n}: x" for n in range(300)], ["X: " + "x" * 2**20]], ids=["many", "long"])
def test_too_many_headers_are_refused(server: Server, headers: list[str]) -> None:
    with server.talk() as connection:
        with suppress(ConnectionError):
            connection.sendall(server.head(*headers, method="GET", path="/healthz"))
        try:
            status, _ = answer(connection)
        except IndexError:  # closed without a response
            status = 431
    assert status in {400, 413, 431}
    assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n",
        b"garbage\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 100,
    ],
    ids=["empty", "garbage", "version", "TLS", "NUL"],
)
def test_what_is_no_http_harms_nobody(server: Server, request_bytes: bytes) -> None:
    with server.talk() as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            reply = connection.recv(100)
            assert not reply or b" 400 " in reply or b" 505 " in reply
    assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200


def test_a_length_that_is_no_number_is_refused(server: Server) -> None:
    for length in ("-1", "x", "9" * 30, "1, 2"):
        with server.talk() as connection:
            connection.sendall(server.head(f"Content-Length: {length}") + b"{}")
            with suppress(IndexError):
                assert answer(connection)[0] in {400, 413}


SILENT = 1_500
"""More than the 1,024 connections that once filled the server, from ten addresses because of their limit."""


def test_silent_connections_shut_nobody_out(server: Server) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as silent:
            for number in range(SILENT):
                silent.enter_context(server.talk(f"127.0.1.{number % 10}"))
            for _ in range(5):
                with server.talk() as connection:
                    connection.sendall(server.head(method="GET", path="/v1/stats"))
                    assert answer(connection)[0] == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
