"""Fixtures of the suites in a framework's virtual environment, and of the tests of the parts that need no framework."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from ebbing_client import Ebbing


@pytest.fixture
def client() -> Iterator[Ebbing]:
    """Client of the running service, whose address and key `frameworks.py` puts into the environment."""
    if "EBBING_API_URL" not in os.environ:
        pytest.skip("no running service: use `make test-adapters`")
    with Ebbing(timeout=120) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """A name that no other test uses, since the tests of a suite share a tenant."""
    return f"t{secrets.token_hex(6)}"
