"""Close connections that hold a place of the API without using it.

The server, granian, limits only the total of connections and the time of headers, and not while a response waits for
its client. It owns the sockets, so the guard finds them among this process's file descriptors once a second, and uses
duplicates of them:

- A timeout of the kernel ends connections whose client accepts none of a waiting response, and a limit of the kernel
  keeps what it buffers of the response small.
- Connections without a first request in time are closed, and the newest ones above the limit of their address. The
  server sees their end and frees their places.

Ages are counted in checks of the event loop, not in seconds: a process that was paused, or too busy to see a request
that has arrived, closes nothing for it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from app import metrics
from app.api.http.peer_address import is_in, owner_of
from app.settings import settings

EVERY_SECONDS: Final = 1.0
UNSENT_BYTES: Final = 128 * 1024
"""Bytes of a response that the kernel buffers beyond those in flight, where it would buffer up to 4 MB by default."""
_DESCRIPTORS: Final = Path("/proc/self/fd")
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Connection:
    """An open connection.

    Attributes:
        peer: The client's host and port.
        owner: What the limit per address counts; None if the peer is a trusted proxy.
        since: The check that saw the connection first.
        has_asked: Whether a request's headers have arrived.
        descriptor: Its number at the last check; another socket may have taken it since.
    """

    peer: tuple[str, str]
    owner: str | None
    since: int
    has_asked: bool = False
    descriptor: int = -1


def choose_closings(
    connections: Collection[Connection], now: int, patience: int, per_address: int
) -> Iterator[tuple[Connection, str]]:
    """Yield the connections to close, with the reason.

    Args:
        now: The number of this check.
        patience: Number of checks after the first one within which a request's headers must arrive.
        per_address: Maximum number of connections of one owner; the newest ones above it are closed.
    """
    by_owner: dict[str, list[Connection]] = defaultdict(list)
    for each in connections:
        if not each.has_asked and now - each.since >= patience:
            yield each, "no_request"
        elif each.owner is not None:
            by_owner[each.owner].append(each)
    for held in by_owner.values():
        if len(held) > per_address:
            held.sort(key=lambda each: each.since)
            for each in held[per_address:]:
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
        if not _DESCRIPTORS.is_dir() or not hasattr(socket, "TCP_USER_TIMEOUT"):
            log.info("connection_guard_off", reason="needs Linux with /proc")
            return
        while not is_ending.is_set():
            asked, self._asked = self._asked, set()
            self._checks += 1
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
        config = settings()
        peers = {(host, str(port)) for host, port in asked}
        self._sockets = {inode: self._find(descriptor, inode) for descriptor, inode in _list_sockets()}
        found = {inode: each for inode, each in self._sockets.items() if each is not None}
        for each in found.values():
            each.has_asked = each.has_asked or each.peer in peers
        patience = ceil(config.first_request_timeout_seconds / EVERY_SECONDS)
        inodes = {id(each): inode for inode, each in found.items()}
        closed: dict[str, int] = defaultdict(int)
        for each, reason in choose_closings(found.values(), self._checks, patience, config.connections_per_address):
            inode = inodes[id(each)]
            self._sockets[inode] = None
            with suppress(OSError), _duplicate(each.descriptor, inode) as held:
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
        """Set the options of a new socket on the port, and return its connection; None for other sockets.

        Connections inherit the options of the listening socket, so only the first ones after a start wait for a check.
        """
        config = settings()
        try:
            with _duplicate(descriptor, inode) as held:
                if held.family not in _FAMILIES or held.getsockname()[1] != self._port:
                    return None
                timeout = int(config.response_unread_timeout_seconds * 1000)
                held.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
                held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
                host, port = held.getpeername()[:2]
        except OSError:  # it is the listening socket, or has just ended
            return None
        host = host.partition("%")[0]
        owner = None if is_in(host, config.trusted_proxies) else owner_of(host)
        return Connection((host, str(port)), owner, self._checks)


def _list_sockets() -> Iterator[tuple[int, int]]:
    """Yield the descriptor of each socket of this process, and its inode, by which it is recognised."""
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError):  # closed meanwhile
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
    try:
        status = os.fstat(copy)
        if not stat.S_ISSOCK(status.st_mode) or status.st_ino != inode:
            raise OSError(errno.EBADF, "another file has taken the descriptor")
        held = socket.socket(fileno=copy)
    except BaseException:
        os.close(copy)
        raise
    with held:
        yield held
