"""Hostile messages on the broker: a worker reads only JSON and deserialises nothing else."""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from app import queues
from tests.service import Service
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "ebbing:{s0}:celery:ingest"


class Bomb:
    """Object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (str(self._path), "w"))


def message(content_type: str, body: bytes) -> str:
    """Build a Celery queue message with an arbitrary body."""
    delivery = {"exchange": "ingest", "routing_key": "ingest"}
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "binary",
            "content-type": content_type,
            "headers": {"lang": "py", "task": queues.DRAIN, "id": "4711", "argsrepr": "()", "kwargsrepr": "{}"},
            "properties": {
                "correlation_id": "4711",
                "delivery_mode": 2,
                "delivery_info": delivery,
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": content_type,
            },
        }
    )


@pytest.mark.slow
def test_pickle_and_yaml_are_never_loaded_and_the_worker_goes_on(service: Service, tmp_path: Path) -> None:
    trap = tmp_path / "loaded"
    yaml = f"!!python/object/apply:builtins.open [{trap}, w]"
    for content_type, body in (
        ("application/x-python-serialize", pickle.dumps(Bomb(trap))),
        ("application/x-yaml", yaml.encode()),
        ("application/json", pickle.dumps(Bomb(trap))),
    ):
        service.redis.lpush(QUEUE, message(content_type, body))
    tenant = service.tenant()
    service.send(tenant.tenant_id, "stored all the same")
    queues.enqueue(queues.DRAIN)
    command = ["-m", "celery", "--quiet", "--app", "workers.celery_app", "worker", "--pool", "solo"]
    arguments = ["--queues", queues.INGEST, "--without-gossip", "--without-mingle", "--loglevel", "ERROR"]
    log = tmp_path / "worker.log"

    def is_stored() -> bool:
        """Send another nudge once the queue is empty, as beat does: nudges can expire while a slow worker starts."""
        if not service.redis.llen(QUEUE):
            queues.enqueue(queues.DRAIN)
        return bool(service.texts(tenant.tenant_id))

    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, *command, *arguments], cwd=ROOT, env=os.environ, stdout=output, stderr=output
        ) as worker,
    ):
        try:
            until(is_stored, "the memory is stored")
            until(lambda: not service.redis.llen(QUEUE), "every message is taken")
        finally:
            worker.kill()
    assert not trap.exists()
    said = log.read_text()
    for kind in ("pickle", "yaml"):
        assert f"Refusing to deserialize untrusted content of type {kind}" in said


def test_a_bomb_would_go_off_where_pickle_is_loaded(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    trap = tmp_path / "loaded"
    pickle.loads(pickle.dumps(Bomb(trap))).close()  # noqa: S301 - our own
    assert trap.exists()


SETTINGS = """
from workers.celery_app import celery
print([celery.conf[name] for name in ("accept_content", "result_accept_content")])
print({celery.conf[name] for name in ("task_serializer", "result_serializer", "event_serializer")})
"""


@pytest.mark.slow
def test_both_ends_speak_json_alone(service: Service) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", SETTINGS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert printed == ["[['json'], ['json']]", "{'json'}"]
    sender = queues._sender().conf
    assert (sender.accept_content, sender.task_serializer) == (["json"], "json")
