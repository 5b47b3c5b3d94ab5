"""Containers: what the checks find, and that our own files pass."""

from __future__ import annotations

import pytest

from ops.checks.docker_lint import COMPOSE, DOCKERFILE, compose_faults, dockerfile_faults

GOOD_STAGE = 'FROM python:3.12.13-slim\nUSER 10001\nHEALTHCHECK CMD ["true"]\nENTRYPOINT ["ebbing"]\n'
GOOD_SERVICE = """services:
  one:
    image: redis:8.10.2
    restart: unless-stopped
    read_only: true
    security_opt: ["no-new-privileges:true"]
    healthcheck: {disable: true}
"""


def test_our_containers_pass() -> None:
    assert dockerfile_faults(DOCKERFILE.read_text()) == []
    assert compose_faults(COMPOSE.read_text()) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("python:3.12.13-slim", "python"), "pin it"),
        (("python:3.12.13-slim", "python:latest"), "pin it"),
        (("python:3.12.13-slim", "python:3.12"), "pin it"),
        (("USER 10001\n", ""), "runs as root"),
        (("USER 10001", "USER 0:0"), "runs as root"),
        (('HEALTHCHECK CMD ["true"]\n', ""), "no HEALTHCHECK"),
        (('["ebbing"]', "ebbing"), "JSON form"),
        (("USER 10001\n", "ADD http://example.org/x /x\nUSER 10001\n"), "use COPY"),
        (
            ("USER 10001\n", "RUN true && \\\n  pip install --require-hashes -r x\nUSER 10001\n"),
            "--no-cache-dir",
        ),
        (("USER 10001\n", "RUN pip install --no-cache-dir x\nUSER 10001\n"), "--require-hashes"),
    ],
)
def test_a_fault_in_a_dockerfile_is_named(change: tuple[str, str], fault: str) -> None:
    assert dockerfile_faults(GOOD_STAGE) == []
    (found,) = dockerfile_faults(GOOD_STAGE.replace(*change))
    assert fault in found


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("redis:8.10.2", "redis"), "pin it"),
        (("    restart: unless-stopped\n", ""), "no restart rule"),
        (("    read_only: true\n", ""), "writable"),
        (('    security_opt: ["no-new-privileges:true"]\n', ""), "no-new-privileges"),
        (("    healthcheck: {disable: true}\n", ""), "no healthcheck"),
        (("    read_only: true\n", "    read_only: true\n    privileged: true\n"), "into the host"),
        (("    read_only: true\n", '    read_only: true\n    ports: ["8000:8000"]\n'), "open to the network"),
        (("    read_only: true\n", "    read_only: true\n    environment: {REDIS_PASSWORD: x}\n"), "secret"),
        (("    read_only: true\n", "    read_only: true\n    depends_on: {two: {}}\n"), "isn't there"),
    ],
)
def test_a_fault_in_a_compose_file_is_named(change: tuple[str, str], fault: str) -> None:
    assert compose_faults(GOOD_SERVICE) == []
    (found,) = compose_faults(GOOD_SERVICE.replace(*change))
    assert fault in found
