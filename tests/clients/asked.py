"""A fake provider with the real client before it, as tests of clients use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.clients.llm.outbound import Allowed
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import Backoff, Breaker
from tests.provider.server import FakeProvider, provider
from tests.waiting import PATIENCE_SECONDS

QUICK = Patience(timeout_seconds=PATIENCE_SECONDS, tries=3, wait_max_seconds=10)
KEY = "sk-test-0123456789"


@dataclass
class Asked:
    """The two ends; `slept` are the waits that were asked for, none of which happened."""

    fake: FakeProvider
    provider: Provider
    slept: list[float] = field(default_factory=list)


def to(url: str, slept: list[float] | None = None, **more: Any) -> Provider:
    """A client of what listens there; it opens after 5 failures in a row, and waits at most on paper."""
    more.setdefault("breaker", lambda: Breaker(5, 30))
    waits = slept if slept is not None else []
    return Provider(
        url, KEY, Allowed(frozenset({"127.0.0.1"})), backoff=Backoff(chance=lambda: 0.5), sleep=waits.append, **more
    )


@pytest.fixture
def asked() -> Iterator[Asked]:
    """A provider and a client of it, both fresh."""
    with provider() as fake:
        slept: list[float] = []
        client = to(fake.url, slept)
        yield Asked(fake, client, slept)
        client.close()
