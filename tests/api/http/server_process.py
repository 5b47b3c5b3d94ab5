"""The real server process, for tests that talk to its sockets."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from app.embedded import free_ports
from tests.installation import make_tenant
from tests.processes import Processes
from tests.waiting import PATIENCE_SECONDS

LIMIT = 1024 * 1024
LOOPBACK = "127.0.0.1"


@dataclass
class Server:
    """An API process started for these tests."""

    port: int
    key: str
    group: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def head(self, *headers: str, method: str = "POST", path: str = "/v1/memories") -> bytes:
        """Build the request up to its body."""
        lines = [f"{method} {path} HTTP/1.1", "Host: test", f"Authorization: Bearer {self.key}", *headers]
        return "\r\n".join([*lines, "", ""]).encode()

    def connect(self, source: str = LOOPBACK) -> socket.socket:
        """Connect from an address of this machine: all of 127.0.0.0/8 are."""
        return socket.create_connection((LOOPBACK, self.port), timeout=PATIENCE_SECONDS, source_address=(source, 0))

    @contextmanager
    def talk(self, source: str = LOOPBACK) -> Iterator[socket.socket]:
        with self.connect(source) as connection:
            yield connection

    def resident_bytes(self) -> int:
        """Return the resident memory of the server and its workers."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.group:
                    total += int(fields[21]) * 4096
        return total

    def counted(self, status: str) -> float:
        return self.metric(f'ebbing_http_requests_total{{status="{status}"}}')

    def metric(self, series: str) -> float:
        text = httpx.get(f"{self.url}/metrics", timeout=PATIENCE_SECONDS, trust_env=False).text
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        assert found
        return float(found[1])


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """Read until the connection ends or the body is complete; return the status and the remaining bytes."""
    received = b""
    with suppress(ConnectionError, TimeoutError):
        while not complete(received):
            more = connection.recv(65536)
            if not more:
                break
            received += more
    return int(received.split(b" ", 2)[1]), received


def complete(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return bool(end) and length is not None and len(body) >= int(length[1])


Start = Callable[..., AbstractContextManager[Server]]


@contextmanager
def serve(redis_url: str, database_url: str, folder: Path, seconds: float, **settings: object) -> Iterator[Server]:
    """Run an API with these timeouts in seconds for headers and body, and further settings."""
    [port] = free_ports(1)
    _, key = make_tenant(database_url, f"server on port {port}")
    environment = {
        "EBBING_DATABASE_URL": database_url,
        "EBBING_REDIS_URL": redis_url,
        "EBBING_PORT": str(port),
        "EBBING_REQUEST_BODY_MAX_BYTES": str(LIMIT),
        "EBBING_REQUEST_HEADERS_TIMEOUT_SECONDS": str(seconds),
        "EBBING_FIRST_REQUEST_TIMEOUT_SECONDS": str(seconds),
        "EBBING_REQUEST_BODY_TIMEOUT_SECONDS": str(seconds),
    } | {f"EBBING_{name.upper()}": str(value) for name, value in settings.items()}
    processes = Processes(folder, environment)
    try:
        process = processes.start("api", "api")
        processes.wait_until_answers("api", f"http://{LOOPBACK}:{port}/healthz")
        yield Server(port, key, process.pid, processes.log("api"))
    finally:
        processes.close()
