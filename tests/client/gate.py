"""An HTTP gate in front of a service: it forwards requests, refuses them, or loses the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

import httpx2

from tests.waiting import PATIENCE_SECONDS

Mode = Literal["open", "busy", "away", "broken", "mute"]
UNAVAILABLE = {"type": "urn:ebbing:problem:unavailable", "title": "Temporarily unavailable", "status": 503}


Given = tuple[int, dict[str, str], bytes]
"""Status, headers and body of an answer."""
ACCEPTED: Given = (202, {}, b'{"ids": ["1"], "request_id": "r"}')


class Seen(NamedTuple):
    """A request that reached the gate."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def memories(self) -> list[dict[str, Any]]:
        """The memories of an ingest request."""
        found: list[dict[str, Any]] = json.loads(self.body)
        return found


@dataclass
class Gate:
    """A gate and what it does with requests.

    Attributes:
        mode: `open` forwards, `busy` answers 429 and `away` 503, both with `Retry-After: 0`, `broken` closes the
            connection before the service gets the request, `mute` after it, so that the answer is lost.
        script: Modes of the next requests, used up one by one; then `mode` applies.
        answers: Answers without a service, as status, headers and body, used up one by one before everything else.
    """

    url: str = ""
    mode: Mode = "open"
    script: list[Mode] = field(default_factory=list)
    answers: list[Given] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0


def refusal(status: int, body: Mapping[str, Any] = UNAVAILABLE, after: int = 0) -> Given:
    """Return the answer of a service that refuses."""
    return status, {"Retry-After": str(after)}, json.dumps(body).encode()


class Handler(BaseHTTPRequestHandler):
    """Handler of one connection; `server` is a `GateServer`."""

    protocol_version = "HTTP/1.1"
    server: GateServer

    def setup(self) -> None:
        self.server.state.connections += 1
        super().setup()

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        state = self.server.state
        state.seen.append(Seen(self.command, self.path, dict(self.headers), body))
        if state.answers:
            self.reply(*state.answers.pop(0))
            return
        mode = state.script.pop(0) if state.script else state.mode
        if mode in {"busy", "away"}:
            status = 429 if mode == "busy" else 503
            self.reply(status, {"Retry-After": "0"}, json.dumps(UNAVAILABLE | {"status": status}).encode())
            return
        if mode != "broken":
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            answer = self.server.upstream.request(self.command, self.path, content=body, headers=headers)
            if mode == "open":
                kept = {name: value for name, value in answer.headers.items() if name.lower() == "retry-after"}
                self.reply(answer.status_code, kept, answer.content)
                return
        self.close_connection = True

    def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_request  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        pass


class GateServer(ThreadingHTTPServer):
    """Server of a gate."""

    daemon_threads = True

    def __init__(self, state: Gate, upstream: httpx2.Client) -> None:
        self.state, self.upstream = state, upstream
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_: object) -> None:
        """Ignore clients that were killed in the middle of a request."""


@contextmanager
def gate(upstream: str = "") -> Iterator[Gate]:
    """Open a gate in front of a service, or of nothing."""
    state = Gate()
    forward = httpx2.Client(base_url=upstream, timeout=PATIENCE_SECONDS, trust_env=False)
    with forward, GateServer(state, forward) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield state
        server.shutdown()
