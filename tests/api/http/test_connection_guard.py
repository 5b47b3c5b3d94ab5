"""Connections that hold a place without using it: silent, never read, too many of one address."""

from __future__ import annotations

import resource
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import cycle
from math import ceil

import pytest

from app.api.http.connection_guard import (
    EVERY_SECONDS,
    UNSENT_BYTES,
    Connection,
    ConnectionGuard,
    Limits,
    choose_closings,
)
from app.api.http.peer_address import find_network, is_in
from app.settings import settings
from tests.api.http.server_process import LOOPBACK, Server, Start, answer
from tests.waiting import PATIENCE_SECONDS, until

PLACES = 64
"""The smallest total of connections that the service accepts as a setting."""
MANY = 5_000
NEIGHBOUR = "127.0.2.1"


# --- Which connections are closed ---


def connection(number: int, since: int = 0, owner: str | None = "a", *, has_asked: bool = True) -> Connection:
    return Connection(number, (LOOPBACK, str(number)), owner, since, has_asked=has_asked, moved=since)


def closed(connections: Sequence[Connection], now: int = 0, per_address: int = 2) -> dict[str, str]:
    limits = Limits(first_request=5, unread=9, per_address=per_address)
    return {each.peer[1]: reason for each, reason in choose_closings(connections, now, limits)}


def test_a_connection_without_a_request_is_closed_once_its_checks_are_up() -> None:
    held = [connection(1, has_asked=False), connection(2), connection(3, since=1, has_asked=False)]
    assert closed(held, now=4, per_address=9) == {}
    assert closed(held, now=5, per_address=9) == {"1": "no_request"}
    assert closed(held, now=6, per_address=9) == {"1": "no_request", "3": "no_request"}


def test_a_connection_is_closed_once_its_client_accepts_nothing_for_long() -> None:
    held = [connection(1), connection(2, since=1)]
    assert closed(held, now=8) == {}
    assert closed(held, now=9) == {"1": "unread"}


def test_the_newest_above_the_limit_of_an_address_are_closed() -> None:
    held = [connection(4, since=3), connection(1, since=1), connection(3, since=2), connection(2, since=1)]
    others = [connection(9, since=3, owner="b")]
    assert closed([*held, *others]) == {"4": "per_address", "3": "per_address"}


def test_a_trusted_proxy_has_no_limit_but_must_send_requests() -> None:
    held = [connection(number, owner=None) for number in range(9)] + [connection(9, owner=None, has_asked=False)]
    assert closed(held, now=5) == {"9": "no_request"}


def test_a_connection_that_is_closed_for_its_silence_takes_no_other_ones_place() -> None:
    held = [connection(1, has_asked=False), connection(2, since=4), connection(3, since=4)]
    assert closed(held, now=5) == {"1": "no_request"}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
    ],
)
def test_an_owner_is_an_address_or_a_network_of_64_bits(one: str, other: str, is_same: bool) -> None:
    assert (find_network(one) == find_network(other)) is is_same


def test_a_mapped_address_is_trusted_like_its_ipv4_address() -> None:
    trusted = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))
    found = {text: is_in(text, trusted) for text in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "11.0.0.1", "x")}
    assert found == {"10.1.2.3": True, "::ffff:10.1.2.3": True, "2001:db8::1": True, "11.0.0.1": False, "x": False}


async def unused(*_: object) -> None:
    raise AssertionError


def test_connections_inherit_the_limit_of_their_buffer() -> None:
    with socket.create_server((LOOPBACK, 0)) as listening:
        port = listening.getsockname()[1]
        ConnectionGuard(unused, port).check(())
        with socket.create_connection((LOOPBACK, port)), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES


def test_a_client_that_reads_slowly_is_kept_and_one_that_reads_nothing_is_not() -> None:
    """A client makes a pause shorter than the timeout, as often as it takes to exceed it."""
    patience = ceil(settings().response_unread_timeout_seconds / EVERY_SECONDS)
    with socket.create_server((LOOPBACK, 0)) as listening, ExitStack() as opened:
        port = listening.getsockname()[1]
        guard = ConnectionGuard(unused, port)
        clients = [opened.enter_context(socket.create_connection((LOOPBACK, port))) for _ in range(2)]
        served = [opened.enter_context(listening.accept()[0]) for _ in clients]
        slow = clients[0]
        guard.check([each.getsockname() for each in clients])
        for _ in range(6):
            for each in served:
                fill(each)
            for _ in range(patience // 2):
                guard.check(())
            for _ in range(100):
                with suppress(BlockingIOError):
                    slow.recv(UNSENT_BYTES, socket.MSG_DONTWAIT)
        assert not is_shut(served[0])
        assert is_shut(served[1])


def is_shut(connection: socket.socket) -> bool:
    """Return whether the guard has closed a connection."""
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def fill(connection: socket.socket) -> None:
    """Send until the kernel takes no more."""
    connection.setblocking(False)
    with suppress(BlockingIOError, BrokenPipeError):
        while True:
            connection.send(bytes(UNSENT_BYTES))


# --- The real server ---


@dataclass
class HeldConnection:
    """A connection that holds a place."""

    socket: socket.socket
    kind: str = "silent"
    ended: bool = False

    def go_on(self) -> bool:
        """Send what this kind sends, and return whether the server has closed the connection."""
        if self.kind != "unread":
            self.socket.setblocking(False)
            with suppress(BlockingIOError):
                try:
                    self.ended = self.ended or (self.kind != "asked" and not self.socket.recv(1))
                    if self.kind == "slow" and not self.ended:
                        self.socket.send(b"x")
                except ConnectionError:
                    self.ended = True
        return self.ended

    def ask(self, server: Server) -> int:
        """Send a request, and return the status of its answer."""
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.sendall(server.head(method="GET", path="/healthz"))
        return answer(self.socket)[0]


def hold(server: Server, kind: str, source: str = LOOPBACK) -> HeldConnection:
    held = socket.socket()
    if kind == "unread":
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    held.bind((source, 0))
    held.settimeout(PATIENCE_SECONDS)
    held.connect((LOOPBACK, server.port))
    sent = {"silent": b"", "slow": server.head("X-Slow: ").removesuffix(b"\r\n\r\n")}
    unread = server.head(method="GET", path="/openapi.json") * 30
    held.sendall(sent.get(kind, unread))
    return HeldConnection(held, kind)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes sockets at the end. Until then, this process may open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        yield stack
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def count_ended(connections: Sequence[HeldConnection]) -> int:
    return sum(each.go_on() for each in connections)


def is_answered(server: Server) -> bool:
    with server.talk(NEIGHBOUR) as neighbour:
        neighbour.sendall(server.head(method="GET", path="/v1/stats"))
        return answer(neighbour)[0] == 200


@pytest.mark.slow
@pytest.mark.xdist_group("server")
def test_clients_that_never_read_their_answers_lose_their_places(start: Start, opened: ExitStack) -> None:
    with start(PATIENCE_SECONDS, connections_max=PLACES, response_unread_timeout_seconds=1) as server:
        for _ in range(PLACES):
            opened.enter_context(hold(server, "unread").socket)
        assert [is_answered(server) for _ in range(3)] == [True] * 3
        assert server.metric('ebbing_http_connections_closed_total{reason="unread"}')


@pytest.mark.slow
@pytest.mark.xdist_group("server")
def test_connections_without_a_request_are_closed_however_long_idle_ones_are_kept(
    start: Start, opened: ExitStack
) -> None:
    with start(PATIENCE_SECONDS, connections_max=PLACES, first_request_timeout_seconds=2) as server:
        kept = hold(server, "silent")
        opened.enter_context(kept.socket)
        assert kept.ask(server) == 200
        others = [hold(server, ("silent", "slow")[number % 2]) for number in range(PLACES - 1)]
        for each in others:
            opened.enter_context(each.socket)
        until(lambda: count_ended(others) == len(others), "connections without a request are closed")
        assert kept.ask(server) == 200
        assert server.metric('ebbing_http_connections_closed_total{reason="no_request"}') == len(others)


@pytest.mark.slow
@pytest.mark.xdist_group("server")
def test_the_newest_connections_of_an_address_above_its_limit_are_closed(start: Start, opened: ExitStack) -> None:
    limit = 20
    with start(PATIENCE_SECONDS, connections_per_address=limit) as server:
        first = [hold(server, "silent") for _ in range(limit + 5)]
        until(lambda: count_ended(first) == 5, "as many are left as the limit allows")
        oldest = [each for each in first if not each.ended]
        newest = [hold(server, "silent") for _ in range(10)]
        neighbour = hold(server, "silent", NEIGHBOUR)
        for each in (*first, *newest, neighbour):
            opened.enter_context(each.socket)
        until(lambda: count_ended(newest) == len(newest), "the newest are closed")
        assert [each.ask(server) for each in (*oldest, neighbour)] == [200] * (limit + 1)


def hold_many(server: Server, opened: ExitStack) -> list[HeldConnection]:
    """Hold connections of each kind from 25 addresses, because of their limit."""
    kinds = cycle(("silent", "slow", "silent", "slow", "unread"))
    held = [hold(server, next(kinds), f"127.0.1.{number % 25}") for number in range(MANY)]
    for each in held:
        opened.enter_context(each.socket)
    return held


@pytest.mark.long
@pytest.mark.xdist_group("server")
def test_others_are_answered_beside_thousands_of_held_connections(start: Start, opened: ExitStack) -> None:
    with start(PATIENCE_SECONDS, response_unread_timeout_seconds=PATIENCE_SECONDS) as server:
        held = hold_many(server, opened)
        for _ in range(10):
            assert is_answered(server)
            assert not count_ended(held)


@pytest.mark.long
@pytest.mark.xdist_group("server")
def test_thousands_of_held_connections_are_let_go(start: Start, opened: ExitStack) -> None:
    with start(5) as server:
        held = [each for each in hold_many(server, opened) if each.kind != "unread"]

        def are_gone() -> bool:
            assert is_answered(server)
            return count_ended(held) == len(held)

        until(are_gone, lambda: Counter(each.kind for each in held if not each.ended))
