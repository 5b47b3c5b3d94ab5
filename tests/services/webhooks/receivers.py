"""A receiver of webhooks that answers with set status codes and records the requests that it accepted."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import msgspec

from app.domain.changes.cursors import decode_cursor

Answer = int | str | float
"""A status, `reset` to close the connection without an answer, or seconds to wait before a 200."""


@dataclass
class Request:
    """A request with its answer."""

    headers: dict[str, str]
    body: bytes
    answer: Answer

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


@dataclass
class Receiver:
    """The receiver's address, its rule for answers, and what it received, in order."""

    url: str
    rule: Callable[[Request], Answer]
    requests: list[Request] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b"ok"

    def accepted(self) -> list[Request]:
        return [request for request in self.requests if isinstance(request.answer, float) or request.answer == 200]

    def cursors(self, tenant_id: UUID) -> list[int]:
        return [decode_cursor(tenant_id, request.event["data"]["cursor"]) for request in self.accepted()]


@contextmanager
def receiver(rule: Callable[[Request], Answer] = lambda _request: 200) -> Iterator[Receiver]:
    """Run a receiver on a free port until the block ends."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = Request({name.lower(): value for name, value in self.headers.items()}, body, 200)
            with lock:
                request.answer = found.rule(request)
                found.requests.append(request)
            if request.answer == "reset":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if isinstance(request.answer, float):
                time.sleep(request.answer)
            self.send_response(request.answer if isinstance(request.answer, int) else 200)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(found.content)))
            self.end_headers()
            self.wfile.write(found.content)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Receiver(f"http://127.0.0.1:{server.server_port}/hook", rule)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
