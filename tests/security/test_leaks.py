"""A canary sent through every interface appears in no log, metric or message, and only in its own responses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.embedded import free_ports
from app.queues import TASKS
from tests.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-6a1f"

# Process the work of all lanes in one process that logs as a worker does; failures are caused by the memory.
WORK = """
import logging, sys
from app import logs
logs.configure("worker")
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.store.ingest import envelopes
from workers import base

def fail(*arguments, **_):
    raise ValueError(f"{sys.argv[1]} {arguments!r}")

copy = envelopes.copy_fresh
def copy_fresh(tx, tenant_id, given):
    if any("cursed" in memory.text for arrival in given for memory in arrival.memories):
        fail(given)
    return copy(tx, tenant_id, given)

envelopes.copy_fresh = copy_fresh
drain.drain_streams()
stage_runner._index_claim = fail
for _ in range(4):
    stage_runner.run_index_stage()
stage_runner.embed()
drain.drain_streams = fail
from workers.tasks import ingest
ingest.drain()
logging.getLogger("some.library").error("failed", exc_info=ValueError(sys.argv[1]))
try:
    fail()
except ValueError:
    logging.getLogger("some.library").exception("failed")
print("all done", file=sys.stderr)
"""

# The API with a route and a door that raise errors containing the memory.
BROKEN = """
import sys
from app.services.memories import memories

def fail(*arguments, **_):
    raise ValueError(f"{sys.argv[-1]} {arguments!r}")

memories.edit_memory = fail
from app.cli import main
sys.argv = ["ebbing", "api"]
main()
"""


@pytest.fixture
def server(service: Service, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """URL and log of an API process whose edits fail with a message that contains the canary."""
    [port] = free_ports(1)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("EBBING_TEST_")}
    log = tmp_path / "api.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-c", BROKEN, CANARY],
            cwd=ROOT,
            env={**inherited, "EBBING_PORT": str(port), "EBBING_LOG_LEVEL": "debug"},
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:

            def answers() -> bool:
                assert process.poll() is None, log.read_text()
                try:
                    return httpx.get(
                        f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_SECONDS, trust_env=False
                    ).is_success
                except httpx.TransportError:
                    return False

            until(answers, "the API answers")
            yield f"http://127.0.0.1:{port}", log
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_SECONDS)


def knock(url: str, tenant: Tenant) -> list[httpx.Response]:
    """Send valid and invalid requests with the canary in every place."""
    full = {
        "text": f"{CANARY} text",
        **{name: f"{CANARY} {name}" for name in ("subject", "thread", "speaker", "external_id")},
        **{name: [f"{CANARY} {name}"] for name in ("tags", "categories", "entities")},
        "metadata": {f"{CANARY} key": f"{CANARY} value"},
    }
    answers = []
    with httpx.Client(
        base_url=url, headers={"authorization": f"Bearer {tenant.key}"}, timeout=PATIENCE_SECONDS, trust_env=False
    ) as client:

        def send(method: str, path: str, **given: object) -> httpx.Response:
            answers.append(client.request(method, path, **given))  # type: ignore[arg-type]
            return answers[-1]

        for body in (full, full | {"text": f"cursed {CANARY}", "external_id": None}):
            assert send("POST", "/v1/memories", json=body, headers={"idempotency-key": CANARY}).status_code in {
                202,
                409,
            }
        assert send("POST", "/v1/memories", json={"text": f"cursed {CANARY}"}).status_code == 202
        [memory_id] = send("POST", "/v1/memories", json={"text": f"{CANARY} another"}).json()["ids"]
        for wrong in (
            {"text": CANARY, CANARY: 1},
            {"text": CANARY, "kind": CANARY},
            {"text": CANARY, "occurred_at": CANARY},
            {"text": f"{CANARY}\0"},
            {"text": f"{CANARY} " * 8000},
            {"text": CANARY, "metadata": {CANARY: "x" * 20_000}},
            {"text": CANARY, "tags": [f"{CANARY} " * 99]},
            {"text": CANARY, "salience": CANARY},
            [CANARY],
        ):
            assert send("POST", "/v1/memories", json=wrong).status_code == 422
            assert send("PATCH", f"/v1/memories/{memory_id}", json=wrong).status_code == 422
        for content in (f'{{"text":"{CANARY}', f'{{"text":"{CANARY}"}} {CANARY}', f'{{"text":"{CANARY}\udcff"}}'):
            raw = content.encode(errors="surrogateescape")
            assert send("POST", "/v1/memories", content=raw).status_code == 400
        assert send("PATCH", f"/v1/memories/{memory_id}", json={"text": f"{CANARY} edit"}).status_code == 500
        send("POST", "/v1/search", json={"query": CANARY, "subject": CANARY})
        send("POST", "/v1/search", json={"query": f"{CANARY}\0"})
        send("GET", "/v1/memories", params={"subject": CANARY, "kind": CANARY, "cursor": CANARY, "after": CANARY})
        send("GET", f"/v1/memories/{CANARY}")
        send("GET", f"/{CANARY}")
        send("GET", "/v1/stats", headers={"authorization": f"Bearer {tenant.key[:-1]}x"})
        send("GET", "/v1/stats", headers={"authorization": f"Basic {CANARY}", "x-request-id": f"{CANARY}!"})
        send("POST", "/v1/memories", json={"text": ""}, headers={"x-request-id": f"req-{CANARY}"})
        send("GET", f"/v1/memories/{CANARY}", headers={"x-request-id": f"req-{CANARY}"})
    return answers


@pytest.mark.essential
@pytest.mark.slow
def test_no_text_and_no_secret_comes_out_anywhere(service: Service, server: tuple[str, Path]) -> None:
    url, log = server
    tenant = service.tenant()
    answers = knock(url, tenant)
    service.post(tenant.tenant_id, f'{{"text":"{CANARY}'.encode())
    service.redis.xadd(f"ebbing:{{s0}}:stream:{tenant.tenant_id}", {"n": CANARY, "h": CANARY, "e": CANARY})
    worked = subprocess.run(
        [sys.executable, "-c", WORK, CANARY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert "all done" in worked.stderr, worked.stderr
    said = log.read_text() + worked.stdout + worked.stderr
    for expected in ("refused", "unexpected", "entry_failed", "dead_letter", "stage_failed", "task_failed"):
        assert expected in said, f"{expected} was never logged, so this test proves nothing"
    metrics = httpx.get(f"{url}/metrics", timeout=PATIENCE_SECONDS, trust_env=False).text
    messages = [
        (key, message)
        for queue in set(TASKS.values())
        for key in [f"ebbing:{{s0}}:celery:{queue}"]
        for message in service.redis.lrange(key, 0, -1)
    ]
    assert messages, "nothing was ever enqueued, so this test proves nothing"
    secret = tenant.key[18:-6]
    for hidden in (CANARY, tenant.key, secret):
        for where, text in (("logs", said), ("metrics", metrics), ("messages", str(messages))):
            assert hidden not in text, where
    for answer in answers:
        assert secret not in answer.text
        if answer.status_code >= 500:
            assert CANARY not in answer.text
    reasons = service.rows("SELECT stage, reason FROM dead_letters")
    assert len(reasons) >= 4
    assert CANARY not in str(reasons)


@pytest.mark.essential
@pytest.mark.slow
def test_every_line_of_the_log_is_json_of_the_same_shape(service: Service, server: tuple[str, Path]) -> None:
    url, log = server
    knock(url, service.tenant())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) > 10
    for line in lines:
        assert {"event", "level", "timestamp", "process"} <= line.keys()
    refused = [line for line in lines if line["event"] == "refused"]
    assert all({"call_id", "status", "problem", "fields", "reasons"} <= line.keys() for line in refused)
