"""The provider's next behaviour, and a record of its calls."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"

FAILURES = {
    "rate_limit": (429, "rate_limit_exceeded", "Slow down"),
    "quota": (429, "insufficient_quota", "You exceeded your current quota"),
    "server_error": (500, None, "The server had an error"),
    "unavailable": (503, None, "Overloaded"),
    "unauthorised": (401, "invalid_api_key", "Incorrect API key provided"),
    "no_model": (404, "model_not_found", "The model does not exist"),
    "bad_request": (400, None, "Invalid request"),
    "too_long_input": (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"),
}
# Ways to treat a connection, and ways to corrupt an otherwise valid response.
CONNECTIONS = frozenset(
    {"hang", "refuse", "reset", "redirect", "trickle", "trickle_head", "garbage", "html", "long", "compressed"}
)
SUMMARY_SPOILS = frozenset(
    [
        "invented_number",
        "invented_name",
        "invented_link",
        "invented_date",
        "invented_point",
        "other_words",
        "denied",
        "too_long",
        "too_short",
        "empty",
        "no_points",
        "leaked",
        "wrong_span",
    ]
)
SPOILS = frozenset(
    [
        "not_json",
        "wrong_count",
        "wrong_ids",
        "swapped",
        "wrong_positions",
        "missing_field",
        "extra_field",
        "out_of_range",
        "nan",
        "huge",
        "text_numbers",
        "long_answer",
        "odd_labels",
        "broken_cues",
        "truncated",
        "refusal",
        "no_choice",
        "wrong_size",
        "floats",
        "zero",
        "not_base64",
        "no_usage",
        *SUMMARY_SPOILS,
    ]
)


@dataclass
class Control:
    """Settings for the provider's next responses.

    Attributes:
        mode: `ok`, or one of `FAILURES`, `CONNECTIONS` and `SPOILS`.
        times: Number of calls with this mode before `ok` again; None for no end.
        retry_after: Value of the header of a failure; None for none.
        latency_ms: Minimum duration of every response.
        only: `chat` or `embeddings`, to make only those calls fail.
        poison: Apply the mode only to calls whose body contains this word.
        padded_to: Size in bytes to which valid answers are padded with white space.
    """

    mode: str = "ok"
    times: int | None = None
    retry_after: str | None = None
    latency_ms: float = 0
    only: str | None = None
    poison: str | None = None
    padded_to: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    bodies: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))
    headers: deque[dict[str, str]] = field(default_factory=lambda: deque(maxlen=1000))
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    changed: threading.Event = field(default_factory=threading.Event, repr=False)

    SETTABLE = ("mode", "times", "retry_after", "latency_ms", "only", "poison", "padded_to")

    def set(self, **given: Any) -> None:
        """Set these fields and reset all others to their defaults."""
        unknown = set(given) - set(self.SETTABLE)
        mode = given.get("mode", "ok")
        if unknown or mode not in {"ok", *FAILURES, *CONNECTIONS, *SPOILS}:
            raise ValueError(f"unknown: {', '.join(unknown) or mode}")
        with self.lock:
            for each in fields(self):
                if each.name in self.SETTABLE:
                    setattr(self, each.name, given.get(each.name, each.default))
            self.changed.set()
            self.changed = threading.Event()

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> str:
        """Record a call and return the mode for it."""
        purpose = "chat" if path == CHAT else "embeddings"
        with self.lock:
            self.calls[purpose] += 1
            self.headers.append(headers)
            with suppress(ValueError):
                self.bodies.append(json.loads(body))
            if self.mode == "ok" or self.only not in {None, purpose} or (self.poison or "").encode() not in body:
                return "ok"
            mode = self.mode
            if self.times is not None:
                self.times -= 1
                if self.times <= 0:
                    self.mode = "ok"
            return mode
