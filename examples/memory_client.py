"""Call Ebbing from an application: store messages, recall memories, and report the ones that were used.

Copy this file into your project; it needs only httpx. `EBBING_API_URL` and `EBBING_API_KEY` set the address and the
key. Without them, the client uses the service that `make run` started in this folder, or in `EBBING_HOME`.
"""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

Message = dict[str, str]
"""A chat message: `{"role": "user", "content": "Hello"}`."""


@dataclass(frozen=True)
class Recall:
    """Recalled memories: a text for the prompt, which is empty if no memory is relevant, and the ids in that text."""

    text: str
    ids: list[str]


class MemoryClient:
    """Memories of one tenant. The methods raise `httpx.HTTPStatusError` if Ebbing refuses a request."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        url = url or os.environ.get("EBBING_API_URL") or _read("api-url")
        key = key or os.environ.get("EBBING_API_KEY") or _read("api-key")
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    def store(self, user: str, conversation: str, messages: list[Message]) -> list[str]:
        """Store messages and return the ids of their memories. Searches find the memories a moment later."""
        # With the same key, Ebbing stores a repeated request once: send it again after a timeout.
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"subject": user, "thread": conversation, "messages": messages}
        return list(self.call("POST", "/v1/memories", json=body, headers=headers)["ids"])

    def recall(self, user: str, messages: list[Message]) -> Recall:
        """Return the user's memories that are relevant to the messages and that the messages don't contain."""
        found = self.call("POST", "/v1/recall", json={"subject": user, "messages": messages})
        return Recall(found["text"], found["ids"])

    def search(self, user: str, conversation: str, question: str) -> Recall:
        """Return what the user said in other conversations that is closest to a question, however unrelated it is."""
        body = {"query": question, "subject": user, "roles": ["user"], "limit": 3, "reinforce": False}
        body["exclude_thread"] = conversation  # its messages are in the prompt already
        found = self.call("POST", "/v1/search", json=body)["results"]
        lines = [f"[{each['id']}] {each['created_at'][:10]} user: {' '.join(each['text'].split())}" for each in found]
        return Recall("\n".join(lines), [each["id"] for each in found])

    def forget(self, ids: list[str]) -> list[str]:
        """Delete memories and return the ids of their erasures. Searches and recalls omit the memories at once."""
        return [str(self.call("DELETE", f"/v1/memories/{memory_id}")["erasure_id"]) for memory_id in ids]

    def undo(self, erasures: list[str]) -> None:
        """Restore deleted memories, which is possible for some days; the key needs the scope `privacy`."""
        for erasure_id in erasures:
            self.call("POST", f"/v1/privacy/erasures/{erasure_id}/cancel")

    def report_uses(self, ids: list[str], conversation: str) -> None:
        """Report memories that an answer used. A use restores a memory's strength, so it fades later."""
        if ids:
            self.call("POST", "/v1/observations", json={"ids": ids, "session": conversation})

    def call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        """Send any request to the API and return the response's JSON."""
        response = self._http.request(method, path, **request).raise_for_status()
        return dict(response.json()) if response.content else {}

    def download(self, path: str) -> bytes:
        """Return the content of a file of the API."""
        return self._http.get(path).raise_for_status().content


def _read(name: str) -> str:
    """Return what `ebbing run` wrote to a file in its home folder."""
    path = Path(os.environ.get("EBBING_HOME", ".ebbing")) / name
    if not path.exists():
        sys.exit(f"{path} doesn't exist: start the service with `make run`, or set EBBING_API_URL and EBBING_API_KEY")
    return path.read_text().strip()
