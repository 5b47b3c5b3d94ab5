"""Close connections that hold a place of the API without using it.

The server, granian, limits only the total of connections and the time of headers, and not while a response waits for
its client. It owns the sockets, so the guard finds them among this process's file descriptors once a second, and closes
through duplicates of them connections

- without a first request in time,
- whose client accepts nothing of a waiting response,
- above the limit of their address, the newest ones.

The server sees their end and frees their places. Times are counted in checks of the event loop, not in seconds: a
process that was paused, or too busy to see a request that has arrived, closes nothing for it (0106).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import stat
import struct
import termios
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from app import metrics
from app.api.http.peer_address import find_network, is_in
from app.settings import settings

EVERY_SECONDS: Final = 1.0
UNSENT_BYTES: Final = 128 * 1024
"""Bytes of a response that the kernel buffers beyond those in flight, where it would buffer up to 4 MB by default."""
_BYTES_ACKED: Final = 120
"""Place of `tcpi_bytes_acked` in `struct tcp_info` of `linux/tcp.h`, a whole number of 64 bits."""
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)
_DESCRIPTORS: Final = Path("/proc/self/fd")
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Connection:
    """An open connection.

    Attributes:
        inode: What identifies its socket.
        peer: The client's host and port.
        owner: What the limit per address counts; None if the peer is a trusted proxy.
        since: The check that saw the connection first.
        descriptor: Its number at the last check; another socket may have taken it since.
        has_asked: Whether a request's headers have arrived.
        moved: The last check at which no response was waiting, or the client had accepted more of it.
        progress: The bytes that the client has accepted and those that wait, if any wait.
    """

    inode: int
    peer: tuple[str, str]
    owner: str | None
    since: int
    descriptor: int = -1
    has_asked: bool = False
    moved: int = 0
    progress: tuple[int, int] | None = None


class Limits(NamedTuple):
    """Limits of a connection.

    Attributes:
        first_request: Number of checks after its first one within which a request's headers must arrive.
        unread: Number of checks for which its client may accept nothing of a waiting response.
        per_address: Maximum number of connections of one owner; the newest ones above it are closed.
    """

    first_request: int
    unread: int
    per_address: int


def choose_closings(connections: Iterable[Connection], now: int, limits: Limits) -> Iterator[tuple[Connection, str]]:
    """Yield the connections to close at this check, with the reason."""
    by_owner: dict[str, list[Connection]] = defaultdict(list)
    for each in connections:
        if not each.has_asked and now - each.since >= limits.first_request:
            yield each, "no_request"
        elif now - each.moved >= limits.unread:
            yield each, "unread"
        elif each.owner is not None:
            by_owner[each.owner].append(each)
    for held in by_owner.values():
        if len(held) > limits.per_address:
            held.sort(key=lambda each: each.since)
            for each in held[limits.per_address :]:
                yield each, "per_address"


class ConnectionGuard:
    """Guard of the connections to one port of this process, and the part of the application that notes its callers."""

    def __init__(self, inner: ASGIApp, port: int) -> None:
        """Guard the application that is served on a port."""
        self._inner, self._port = inner, port
        self._asked: set[tuple[str, str]] = set()
        self._checks = 0
        self._sockets: dict[int, Connection | None] = {}  # by inode; None: not, or no longer, to be guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            self._asked.add(scope["client"])
        await self._inner(scope, receive, send)

    async def run(self, is_ending: asyncio.Event) -> None:
        """Check the connections once a second, until the application ends."""
        if not _DESCRIPTORS.is_dir() or not hasattr(socket, "TCP_INFO"):
            log.info("connection_guard_off", reason="needs Linux with /proc")
            return
        while not is_ending.is_set():
            asked, self._asked = self._asked, set()
            try:
                await asyncio.to_thread(self.check, asked)
            except Exception as error:  # noqa: BLE001 - the next check may succeed
                log.warning("connection_check_failed", error=type(error).__name__)
            with suppress(TimeoutError):
                await asyncio.wait_for(is_ending.wait(), EVERY_SECONDS)

    def check(self, asked: Iterable[tuple[str, str | int]]) -> None:
        """Look at every socket of the process, and close the connections that `choose_closings` names.

        Args:
            asked: Peers from which requests came since the last check.
        """
        self._checks += 1
        peers = {(host, str(port)) for host, port in asked}
        self._sockets = {inode: self._find(descriptor, inode) for descriptor, inode in _list_sockets()}
        found = [each for each in self._sockets.values() if each is not None]
        for each in found:
            each.has_asked = each.has_asked or each.peer in peers
            self._note_progress(each)
        closed: dict[str, int] = defaultdict(int)
        for each, reason in choose_closings(found, self._checks, _limits()):
            self._sockets[each.inode] = None
            with suppress(OSError), _duplicate(each.descriptor, each.inode) as held:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                held.shutdown(socket.SHUT_RDWR)
                closed[reason] += 1
        for reason, count in closed.items():
            metrics.CLOSED_CONNECTIONS.labels(reason=reason).inc(count)
            log.info("connections_closed", reason=reason, connections=count)

    def _find(self, descriptor: int, inode: int) -> Connection | None:
        """Return a socket's connection as known from earlier checks, or else inspect the socket."""
        found = self._sockets[inode] if inode in self._sockets else self._inspect(descriptor, inode)
        if found is not None:
            found.descriptor = descriptor
        return found

    def _inspect(self, descriptor: int, inode: int) -> Connection | None:
        """Limit the buffer of a new socket on the port, and return its connection; None for other sockets.

        Connections inherit the limit of the listening socket, so only the first ones after a start wait for a check.
        """
        try:
            with _duplicate(descriptor, inode) as held:
                if held.family not in _FAMILIES or held.getsockname()[1] != self._port:
                    return None
                held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
                host, port = held.getpeername()[:2]
        except OSError:  # it is the listening socket, or has just ended
            return None
        host = host.partition("%")[0]
        owner = None if is_in(host, settings().trusted_proxies) else find_network(host)
        return Connection(inode, (host, str(port)), owner, self._checks, moved=self._checks)

    def _note_progress(self, each: Connection) -> None:
        """Compare what the client has accepted, and what waits for it, with the last check."""
        progress = _read_progress(each)
        if progress is None or progress != each.progress:
            each.moved, each.progress = self._checks, progress


def _limits() -> Limits:
    config = settings()
    return Limits(
        ceil(config.first_request_timeout_seconds / EVERY_SECONDS),
        ceil(config.response_unread_timeout_seconds / EVERY_SECONDS),
        config.connections_per_address,
    )


def _read_progress(connection: Connection) -> tuple[int, int] | None:
    """Return the bytes that the client has accepted, and those that wait for it; None if none wait."""
    with suppress(OSError):
        if not _count_waiting(connection.descriptor):
            return None
        with _duplicate(connection.descriptor, connection.inode) as held:
            told = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED + 8)
            if len(told) == _BYTES_ACKED + 8:
                return struct.unpack_from("=Q", told, _BYTES_ACKED)[0], _count_waiting(held.fileno())
    return None


def _count_waiting(descriptor: int) -> int:
    """Return the bytes in a socket's send queue."""
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))[0])


def _list_sockets() -> Iterator[tuple[int, int]]:
    """Yield the descriptor of each socket of this process, and its inode, by which it is recognised."""
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - paths would take twice as long
        with suppress(OSError):  # closed since it was listed
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                yield int(name), status.st_ino


@contextmanager
def _duplicate(descriptor: int, inode: int) -> Iterator[socket.socket]:
    """Duplicate a socket, which its owner may close at any time, and close the duplicate at the end.

    Raises:
        OSError: The descriptor no longer belongs to this socket.
    """
    copy = os.dup(descriptor)
    status = os.fstat(copy)
    if not stat.S_ISSOCK(status.st_mode) or status.st_ino != inode:
        os.close(copy)
        raise OSError(errno.EBADF, "another file has taken the descriptor")
    with socket.socket(fileno=copy) as held:
        yield held
