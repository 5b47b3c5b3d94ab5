"""Clients that hold connections without using them, in a process of their own, and replace those that are closed."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Final, cast

from ops.bench import load
from ops.bench.place import Running, processor_seconds

SOURCES: Final = 25
"""Number of addresses of this machine from which they connect, since the API limits the connections of each."""
EVERY_SECONDS: Final = 1.0
OPEN_SECONDS: Final = 15
"""Time in which they are opened, so that the API doesn't close all of them at once later."""
SETTLE_SECONDS: Final = 60
_TURN_SECONDS: Final = 0.05
_QUIET_SHARE: Final = 0.2
_REQUESTS: Final = 30
_SMALL_BYTES: Final = 4096


@dataclass(frozen=True)
class Kind:
    """Behaviour of a client.

    Attributes:
        sent: What it sends at first.
        dripped: What it sends then, once a second.
        reads: Whether it reads what it receives.
    """

    sent: bytes = b""
    dripped: bytes = b""
    reads: bool = True


_FORM: Final = "origin: http://localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 1000"
KINDS: Final = {
    "silent": Kind(),
    "slow header": Kind(b"POST /ops/log-in HTTP/1.1\r\nhost: localhost\r\nx-slow: ", b"x"),
    "slow body": Kind(f"POST /ops/log-in HTTP/1.1\r\nhost: localhost\r\n{_FORM}\r\n\r\nkey=".encode(), b"x"),
    # what it sends later tells it that the API has closed the connection
    "never reading": Kind(load.request("GET", "/openapi.json") * _REQUESTS, b"\r\n", reads=False),
}


@contextmanager
def held(api: Running, kind: Kind, number: int) -> Iterator[None]:
    """Hold this many connections of a kind; wait until the API has dealt with their opening, and with their end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_hold, args=(theirs, api.host, api.port, kind, number))
    process.start()
    theirs.close()
    try:
        ours.recv()
        _settle(api)
        yield
    finally:
        process.kill()
        process.join()
        ours.close()
        _settle(api)


def _settle(api: Running) -> None:
    """Wait until the API does little, at most `SETTLE_SECONDS`."""
    ends = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < ends:
        before = sum(processor_seconds([api.process.pid]).values())
        time.sleep(EVERY_SECONDS)
        if sum(processor_seconds([api.process.pid]).values()) - before < _QUIET_SHARE * EVERY_SECONDS:
            return


def _hold(pipe: object, host: str, port: int, kind: Kind, number: int) -> None:
    numbers = count()
    with selectors.DefaultSelector() as selector:
        opened: set[socket.socket] = set()
        began, told = time.monotonic(), False
        next_drip = began + EVERY_SECONDS
        while True:
            while len(opened) < number * min((time.monotonic() - began) / OPEN_SECONDS, 1):
                opened.add(_open(selector, host, port, kind, next(numbers)))
            if not told and len(opened) == number:
                pipe.send(None)  # type: ignore[attr-defined]  # the pipe's type is private
                told = True
            readable = [cast("socket.socket", key.fileobj) for key, _ in selector.select(_TURN_SECONDS)]
            ended = {each for each in readable if _is_over(each)}
            if time.monotonic() >= next_drip:
                next_drip = time.monotonic() + EVERY_SECONDS
                ended |= {each for each in opened if kind.dripped and not _drip(each, kind.dripped)}
            for each in opened & ended:
                if kind.reads:
                    selector.unregister(each)
                each.close()
            opened -= ended


def _open(selector: selectors.BaseSelector, host: str, port: int, kind: Kind, number: int) -> socket.socket:
    opened = socket.socket()
    if not kind.reads:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BYTES)
    opened.bind((f"127.0.1.{1 + number % SOURCES}", 0))
    opened.connect((host, port))
    with suppress(ConnectionError):
        opened.sendall(kind.sent)
    opened.settimeout(0)
    if kind.reads:
        selector.register(opened, selectors.EVENT_READ)
    return opened


def _is_over(opened: socket.socket) -> bool:
    """Read what a client received, and return whether its connection has ended."""
    try:
        return not opened.recv(65536)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _drip(opened: socket.socket, data: bytes) -> bool:
    """Send a little more, and return whether the connection is still open."""
    try:
        opened.send(data)
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True
