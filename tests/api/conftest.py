"""The API in this process, called without a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.caller import Api
from tests.service import Service


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    """The application, started, with a tenant of its own."""
    with Api(service) as started:
        yield started
