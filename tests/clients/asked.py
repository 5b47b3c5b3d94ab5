"""A fake provider together with a real client of it, for tests of clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.clients.llm.egress import Allowed
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import Backoff, Breaker
from tests.provider.server import FakeProvider, provider
from tests.waiting import PATIENCE_SECONDS

QUICK = Patience(timeout_seconds=PATIENCE_SECONDS, tries=3, wait_max_seconds=10)
KEY = "sk-test-0123456789"


@dataclass
class Calls:
    """The fake provider and its client; `slept` lists the backoff waits, which are recorded, not performed."""

    fake: FakeProvider
    provider: Provider
    slept: list[float] = field(default_factory=list)


def to(url: str, slept: list[float] | None = None, **more: Any) -> Provider:
    """Create a client of the URL whose breaker opens after 5 consecutive failures and whose waits are only recorded."""
    more.setdefault("breaker", lambda: Breaker(5, 30))
    waits = slept if slept is not None else []
    return Provider(
        url, KEY, Allowed(frozenset({"127.0.0.1"})), backoff=Backoff(chance=lambda: 0.5), sleep=waits.append, **more
    )


@pytest.fixture
def asked() -> Iterator[Calls]:
    """A new provider and a new client of it."""
    with provider() as fake:
        slept: list[float] = []
        client = to(fake.url, slept)
        yield Calls(fake, client, slept)
        client.close()
