"""Why the API isn't ready, as the terminal of `ebbing run` says it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from app.supervisor.service_children import _explain_unready

BODIES = {
    "/refused": {
        "dependencies": [
            {"name": "postgresql", "well": True, "detail": "answers"},
            {"name": "redis", "well": False, "detail": "Redis belongs to another installation."},
        ]
    },
    "/other": {"status": "not ready"},
}


class _Unready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/ready" else 503)
        self.end_headers()
        self.wfile.write(json.dumps(BODIES.get(self.path, {})).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Unready) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_reason_is_what_readyz_says(url: str) -> None:
    found = [_explain_unready(f"{url}{path}") for path in ("/refused", "/other", "/ready")]
    assert found == ["Redis belongs to another installation.", "", ""]
    assert _explain_unready("http://127.0.0.1:9/readyz") == "", "nothing listens there"
