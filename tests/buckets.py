"""A real S3-compatible server and buckets in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from app.embedded import free_ports
from tests.waiting import PATIENCE_SECONDS, until

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Address of an S3-compatible server that stops at the end of the test session."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, env={**os.environ, **CREDENTIALS}
    ) as server:
        try:
            until(lambda: answers(url), "the S3 server answers")
            yield url
        finally:
            server.kill()


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=PATIENCE_SECONDS, trust_env=False).is_success
    except httpx.TransportError:
        return False


def bucket(url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Create a bucket and return the settings for it, by lower-case name."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    made = f"bucket-{uuid4()}"
    assert httpx.put(f"{url}/{made}", timeout=PATIENCE_SECONDS, trust_env=False).is_success
    return {"cold_url": f"s3://{made}/some/prefix", "cold_endpoint": url}
