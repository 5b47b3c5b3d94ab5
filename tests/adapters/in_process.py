"""A client of the API in the test's own process, which sends the calls that adapters build."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from ebbing_client.adapters.steps import Steps, run
from ebbing_client.call import Answer, Call
from ebbing_client.errors import make_api_error
from tests.api.caller import Api

T = TypeVar("T")


@dataclass
class InProcess:
    """Sends calls without a socket, and lets the worker store memories before the answer to a write.

    Attributes:
        is_slow: Answer writes before the worker stores them, as if it needed longer than the caller waits.
    """

    api: Api
    is_slow: bool = False
    sent: list[str] = field(default_factory=list)

    def send(self, call: Call[T]) -> T:
        """Send a call and return its result."""
        self.sent.append(f"{call.method} {call.path}")
        headers = {name: value for name, value in call.headers.items() if name != "Prefer"}
        params: dict[str, Any] = {name: value for name, value in call.params.items() if value is not None}
        got = self.api.request(call.method, call.path, headers=headers, params=params, content=call.content)
        if got.status_code >= 400:
            raise make_api_error(got.status_code, got.json(), None)
        is_write = (call.method, call.path) == ("POST", "/v1/memories")
        if (is_write and not self.is_slow) or (self.is_slow and self.sent[-3:] == [f"GET {call.path}"] * 3):
            self.api.service.work()
        return call.read(Answer(200 if is_write and not self.is_slow else got.status_code, got.content))

    def run(self, steps: Steps[T]) -> T:
        """Send the calls of an adapter and return its result."""
        return run(self, steps)
