"""An HTTP server on the loopback interface with scripted replies that records its requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class Reply:
    """A reply; status None closes the connection without one."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Stub:
    """Replies by `METHOD /path` (without the query): one reply, a list used in turn, or a function of the request."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.replies: dict[str, Reply | list[Reply] | Callable[[Request], Reply]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def reply(self, asked: Request) -> Reply:
        self.asked.append(asked)
        found = self.replies.get(
            f"{asked.method} {asked.path.partition('?')[0]}", Reply(404, problem(404, "not-found"))
        )
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found(asked) if callable(found) else found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def problem(status: int, kind: str, *errors: dict[str, Any], detail: str = "") -> dict[str, Any]:
    return {
        "type": f"urn:ebbing:problem:{kind}",
        "title": kind,
        "status": status,
        "detail": detail,
        "errors": list(errors),
        "request_id": "of-a-proxy",
        "call_id": "r1",
    }


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Transfer-Encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = stub.reply(Request(self.command, self.path, headers, body))
            if reply.status is None:
                self.connection.close()
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            content = b"" if reply.body is None else content
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            """Suppress logging."""

    return Handler
