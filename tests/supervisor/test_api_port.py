"""The claim of the API's port."""

from __future__ import annotations

import sys

import pytest

from app.embedded import EmbeddedError, free_ports
from app.supervisor import claim_port


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no abstract Unix sockets")
def test_a_port_belongs_to_one_service_before_its_api_listens() -> None:
    [port] = free_ports(1)
    with (
        claim_port("127.0.0.1", port),
        pytest.raises(EmbeddedError, match=rf"127.0.0.1:{port}.*EBBING_PORT"),
        claim_port("127.0.0.1", port),
    ):
        raise AssertionError("claimed twice")
    with claim_port("127.0.0.1", port), claim_port("127.0.0.1", 0), claim_port("127.0.0.1", 0):
        pass
