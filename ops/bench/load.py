"""A load generator: one process, many keep-alive connections, prepared requests.

It does as little work as possible: send bytes, receive bytes, read the status. Its CPU time is reported with every
figure, since it shares the machine with the measured service.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_RECEIVE_BYTES = 262_144
_SILENCE_SECONDS = 10


@dataclass(frozen=True)
class Load:
    """The results of a run of requests.

    Attributes:
        seconds: From the first byte sent to the last response.
        latencies_ms: Latency of each request, sorted.
        statuses: Number of responses by status.
        generator_cpu_seconds: CPU time of the generator itself.
    """

    requests: int
    seconds: float
    latencies_ms: list[float]
    statuses: dict[int, int]
    generator_cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Return the requests per second."""
        return self.requests / self.seconds

    @property
    def generator(self) -> float:
        """Return the generator's own share of all cores' time, 0 to 1."""
        return self.generator_cpu_seconds / (self.seconds * (os.cpu_count() or 1))

    def percentile_ms(self, share: float) -> float:
        """Return the latency below which this share of the requests stayed."""
        return self.latencies_ms[min(int(len(self.latencies_ms) * share), len(self.latencies_ms) - 1)]


def request(method: str, path: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return a complete HTTP/1.1 request."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def run(host: str, port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    """Send the requests in rotation over `connections` connections for `seconds`, in a separate process.

    Raises:
        ConnectionError: The server closed a connection, or was silent for ten seconds.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_to, args=(theirs, host, port, requests, connections, seconds))
    process.start()
    theirs.close()
    try:
        load: Load = ours.recv()
    except EOFError:
        raise ConnectionError(f"the load on {host}:{port} was aborted: see the lines above") from None
    finally:
        process.join(timeout=10)
        ours.close()
    return load


def _send_to(pipe: object, *arguments: object) -> None:
    pipe.send(_send(*arguments))  # type: ignore[attr-defined,arg-type]  # the pipe's type is private


class Connection:
    """A keep-alive connection with at most one request in flight."""

    def __init__(self, host: str, port: int) -> None:
        """Connect."""
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.sent_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, data: bytes, status: int) -> None:
        """Send a request and wait for its response.

        Raises:
            RuntimeError: The response has another status.
        """
        self.send(data)
        while (answered := self.receive()) is None:
            pass
        if answered != status:
            raise RuntimeError(f"answered {answered}, should be {status}")

    def send(self, data: bytes) -> None:
        """Send a request."""
        self.received = b""
        self.sent_at = time.perf_counter()
        self.socket.sendall(data)

    def receive(self) -> int | None:
        """Return the status once the response is complete."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        if self.received:
            data = self.received + data
        end = data.find(b"\r\n\r\n")
        start = data.find(b"content-length: ", 0, end) + 16  # the server writes header names in lower case
        if end < 0 or len(data) < end + 4 + (int(data[start : data.find(b"\r", start)]) if start >= 16 else 0):
            self.received = data
            return None
        return int(data[9:12])


def _send(host: str, port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    selector = selectors.DefaultSelector()
    opened = [Connection(host, port) for _ in range(connections)]
    for connection in opened:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    following = 0
    cpu = _cpu_seconds()
    started = time.perf_counter()
    deadline = started + seconds
    for connection in opened:
        connection.send(requests[following % len(requests)])
        following += 1
    open_requests = connections
    while open_requests:
        readable = selector.select(timeout=_SILENCE_SECONDS)
        if not readable:
            raise ConnectionError(f"no answer for {_SILENCE_SECONDS} s")
        for key, _ in readable:
            connection = key.data
            status = connection.receive()
            if status is None:
                continue
            now = time.perf_counter()
            latencies.append((now - connection.sent_at) * 1000)
            statuses[status] = statuses.get(status, 0) + 1
            open_requests -= 1
            if now < deadline:
                connection.send(requests[following % len(requests)])
                following += 1
                open_requests += 1
    took = time.perf_counter() - started
    for connection in opened:
        connection.socket.close()
    return Load(len(latencies), took, sorted(latencies), statuses, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
