"""A deterministic model provider on the loopback interface, by OpenAI's protocol, that fails on request.

`with provider() as fake:` starts one for a test; `python -m tests.provider --port 8099` runs one standalone. Its next
behaviour is set in `fake.control` at any time, or by `POST /control` with the same names:

    {"mode": "rate_limit", "times": 2, "retry_after": "1", "latency_ms": 50, "only": "chat"}

`refuse` takes `seconds` there, since a closed port can't receive the request to listen again.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.provider.answers import chat_answer, embeddings_answer
from tests.provider.control import CHAT, CONNECTIONS, EMBEDDINGS, FAILURES, Control

MODELS = "/v1/models"
HANG_MAX_SECONDS = 3600  # longer than any client waits
TRICKLE_SECONDS = 0.1


class FakeProvider:
    """The server; `url` is the base URL for clients."""

    def __init__(self, port: int = 0) -> None:
        self.control = Control()
        self._open: set[socket.socket] = set()
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self.listen()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """Number of calls so far, of any kind."""
        return self.control.calls.total()

    def listen(self) -> None:
        """Accept connections, on the previous port after a pause."""
        self._server = server = _Server(self, self._port)
        self._port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def refuse(self) -> None:
        """Close the port and all connections; new ones are refused until `listen`."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        with self.control.lock:
            connections, self._open = self._open, set()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop permanently."""
        self.control.set()
        self.refuse()

    def refuse_for(self, seconds: float) -> None:
        """Refuse connections for some seconds; return immediately."""

        def away() -> None:
            self.refuse()
            time.sleep(seconds)
            self.listen()

        threading.Thread(target=away, daemon=True).start()

    def count_connection(self, connection: socket.socket) -> None:
        with self.control.lock:
            self._open.add(connection)
            self.control.connections += 1

    def forget(self, connection: socket.socket) -> None:
        with self.control.lock:
            self._open.discard(connection)


@contextmanager
def provider(port: int = 0) -> Iterator[FakeProvider]:
    """Yield a provider that listens during the block."""
    fake = FakeProvider(port)
    try:
        yield fake
    finally:
        fake.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, fake: FakeProvider, port: int) -> None:
        self.fake = fake
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Suppress errors: clients often disconnect early here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    body = b""

    @property
    def control(self) -> Control:
        return self.server.fake.control

    def setup(self) -> None:
        super().setup()
        self.server.fake.count_connection(self.connection)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.server.fake.forget(self.connection)

    def do_GET(self) -> None:
        if self.path == MODELS:
            if self.control.mode in FAILURES:
                self._fail(*FAILURES[self.control.mode])
            else:
                self._answer(200, {"object": "list", "data": []})
            return
        self._answer(200, {name: getattr(self.control, name) for name in ("mode", "times", "calls", "connections")})

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/control":
            self._change(json.loads(self.body))
        elif self.path in {CHAT, EMBEDDINGS}:
            self._serve()
        else:
            self._fail(404, None, "Not found")

    def _change(self, given: dict[str, Any]) -> None:
        seconds = given.pop("seconds", 1.0)
        try:
            self.control.set(**given)
        except ValueError as error:
            self._fail(422, None, str(error))
            return
        self._answer(200, {"mode": self.control.mode})
        if self.control.mode == "refuse":
            self.control.set()
            self.server.fake.refuse_for(seconds)

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        mode = self.control.take(self.path, self.body, headers)
        time.sleep(self.control.latency_ms / 1000)
        if mode in FAILURES:
            self._fail(*FAILURES[mode])
        elif mode in CONNECTIONS:
            getattr(self, f"_{mode}")()
        else:
            content = json.dumps(self._right(mode)).encode()
            self._send(200, content.ljust(self.control.padded_to), {"Content-Type": "application/json"})

    def _right(self, mode: str = "ok") -> dict[str, Any]:
        answer = chat_answer if self.path == CHAT else embeddings_answer
        return answer(json.loads(self.body), mode)

    def _fail(self, status: int, code: str | None, message: str) -> None:
        """Fail like a careless provider, echoing a piece of the request."""
        echo = f"{message}: {self.body.decode(errors='replace')}"
        error = {"message": echo, "type": "error", "param": None, "code": code}
        asked = self.control.retry_after
        self._answer(status, {"error": error}, {"Retry-After": asked} if asked else {})

    def _hang(self) -> None:
        self.control.changed.wait(HANG_MAX_SECONDS)
        self.close_connection = True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    _refuse = _reset  # the mode alone leaves the port open, so that `/control` stays reachable

    def _redirect(self) -> None:
        self._answer(307, {}, {"Location": f"http://localhost:{self.server.server_port}{self.path}"})

    def _garbage(self) -> None:
        self._send(200, b"\x00\xff garbage \xfe", {"Content-Type": "application/json"})

    def _html(self) -> None:
        self._send(200, b"<html>Welcome</html>", {"Content-Type": "text/html"})

    def _long(self) -> None:
        self._send(200, b"[" * 200_000, {"Content-Type": "application/json"})

    def _compressed(self) -> None:
        self._send(200, b"\x1f\x8b\x08 a bomb", {"Content-Type": "application/json", "Content-Encoding": "gzip"})

    def _trickle(self) -> None:
        content = json.dumps(self._right()).encode()
        self._head(200, {"Content-Type": "application/json", "Content-Length": str(len(content))})
        self._slowly(content)

    def _trickle_head(self) -> None:
        self._slowly(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000)

    def _answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, {**headers, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _slowly(self, content: bytes) -> None:
        changed = self.control.changed
        self.close_connection = True
        for at in range(len(content)):
            self.wfile.write(content[at : at + 1])
            if changed.wait(TRICKLE_SECONDS):
                return

    def log_message(self, *_: object) -> None:
        """Suppress logging."""
