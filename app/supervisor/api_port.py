"""Claim the API's port for the lifetime of a service."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from app.embedded import EmbeddedError


@contextmanager
def claim_port(host: str, port: int) -> Iterator[None]:
    """Let a second service with this port fail at its start instead of sharing the port.

    The API binds its port only after the migrations, with `SO_REUSEPORT`: two services that start at the same time
    would both succeed, and the kernel would distribute requests to both. Port 0 and systems other than Linux have no
    claim.

    Raises:
        EmbeddedError: Another service has claimed the port.
    """
    if port == 0 or sys.platform != "linux":
        yield
        return
    with socket.socket(socket.AF_UNIX) as claim:
        try:
            claim.bind(f"\0ebbing-api-{host}-{port}")  # an abstract name: no file, and it ends with the process
        except OSError as error:
            raise EmbeddedError(
                f"another service starts or runs on {host}:{port}: set EBBING_PORT to another, or to 0"
            ) from error
        yield
