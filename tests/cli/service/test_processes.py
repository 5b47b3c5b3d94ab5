"""The commands that start single processes of the service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app import heartbeats
from app.cli.service import processes
from app.clients.redis.connection import STARTS
from app.queues import LANES
from app.store.core import database
from tests.cli.conftest import Cli
from tests.servers import Servers
from tests.service import Service
from tests.waiting import PATIENCE_SECONDS, until, until_gone


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Return the calls that a command makes to the module that runs Celery."""
    calls: list[tuple[object, ...]] = []

    class Programs:
        def run_worker(self, lane: str, queues: tuple[str, ...], processes: int) -> None:
            calls.append((lane, queues, processes, os.environ.get("REMAP_SIGTERM")))

        def run_beat(self) -> None:
            calls.append(("beat",))

    monkeypatch.setattr(processes, "_celery", Programs)
    monkeypatch.setenv("EBBING_DATABASE_URL", "postgresql://x")
    monkeypatch.setenv("EBBING_REDIS_URL", "redis://x")
    monkeypatch.setenv("REMAP_SIGTERM", "")  # restored after the test
    return calls


@pytest.mark.parametrize("lane", LANES)
def test_a_worker_processes_the_queues_of_its_lane(cli: Cli, ran: list[tuple[object, ...]], lane: str) -> None:
    assert cli("worker", "--lane", lane).code == 0
    assert ran == [(lane, LANES[lane], 2 if lane in {"ingest", "score"} else 1, "SIGQUIT")]


def test_where_a_model_is_asked_the_rules_have_a_process_besides(
    cli: Cli, ran: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    assert cli("worker", "--lane", "score").code == 0
    assert [call[2] for call in ran] == [3]  # with the one of webhooks


def test_concurrency_is_the_operators(cli: Cli, ran: list[tuple[object, ...]]) -> None:
    assert cli("worker", "--lane", "embed", "--concurrency", "3").code == 0
    assert [call[2] for call in ran] == [3]


def test_an_unknown_lane_is_refused_with_those_there_are(cli: Cli, ran: list[tuple[object, ...]]) -> None:
    done = cli("worker", "--lane", "weeding")
    assert done.code == 2
    assert all(lane in done.err for lane in LANES)
    assert ran == []


def test_beat_is_run(cli: Cli, ran: list[tuple[object, ...]]) -> None:
    assert cli("beat").code == 0
    assert ran == [("beat",)]


@pytest.mark.parametrize(
    ("words", "call"),
    [(["worker", "--lane", "ingest"], ("ingest", LANES["ingest"], 2, "SIGQUIT")), (["beat"], ("beat",))],
    ids=["worker", "beat"],
)
def test_a_fork_runs_the_commands_of_ebbing_run_without_typer(
    ran: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, words: list[str], call: tuple[object, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ebbing", *words])
    monkeypatch.setattr("typer.Typer", lambda **_: pytest.fail("it copies shared memory"))
    processes.main()
    assert ran == [call]


def test_a_fork_fails_with_the_message_and_the_code_of_the_command(
    ran: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ebbing", "worker", "--lane", "weeding"])
    with pytest.raises(SystemExit) as end:
        processes.main()
    assert end.value.code == 2
    assert "unknown lane weeding" in capsys.readouterr().err
    assert ran == []


# Celery's programs in a process of their own, as `ebbing worker` and `ebbing beat` run them, but not started.
PROGRAMS = """
import json, sys
from workers import programs
from workers.celery_app import celery
made = []
class Program:
    exitcode = 7
    def __init__(self, **options):
        made.append(options)
    def start(self):
        pass
    run = start
celery.Worker = celery.Beat = Program
worker = lambda lane: lambda: programs.run_worker(lane, (lane,), 2)
for run in (worker("ingest"), worker("rights"), programs.run_beat):
    try:
        run()
    except SystemExit as end:
        made[-1]["exit"] = end.code
print(json.dumps([*made, celery.conf.broker_url, celery.conf.worker_soft_shutdown_timeout]))
"""


@pytest.mark.slow
def test_celery_is_run_with_our_options_and_settings() -> None:
    settings = {"EBBING_REDIS_URL": "redis://127.0.0.1:9/3", "EBBING_SHUTDOWN_SECONDS": "4"}
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS], cwd=root, env=os.environ | settings, capture_output=True, check=True
    )
    worker, rights, beat, broker, shutdown_seconds = json.loads(done.stdout)
    assert worker["hostname"].startswith("ingest@")
    assert (worker["queues"], worker["concurrency"], worker["pool"], worker["exit"]) == (["ingest"], 2, "prefork", 7)
    assert worker["without_gossip"]
    assert worker["without_mingle"]
    assert worker["max_memory_per_child"] is None
    assert rights["max_memory_per_child"] > 48 << 10, "the limit is on growth"
    assert (beat["scheduler_cls"], beat["exit"]) == ("celery.beat:Scheduler", 0)  # no file
    assert (broker, shutdown_seconds) == ("redis://127.0.0.1:9/3", 4)


@pytest.mark.slow
@pytest.mark.kills
def test_a_worker_and_beat_work_without_a_preloaded_parent_and_stop_on_sigterm(service: Service) -> None:
    root = Path(__file__).resolve().parents[3]
    started = {
        words[-1]: subprocess.Popen(
            [sys.executable, "-m", "app.cli", *words],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words in (["worker", "--lane", "rights"], ["beat"])
    }
    try:
        until(lambda: all(heartbeats.heartbeat_ages()[name] is not None for name in started), "their first heartbeats")
        until(lambda: service.redis.zcard(STARTS) == 2, "their starts")
        for process in started.values():
            process.terminate()
        printed = {name: process.communicate(timeout=PATIENCE_SECONDS)[0] for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
    assert [process.returncode for process in started.values()] == [0, 0], printed
    lines = {name: [json.loads(line) for line in text.splitlines()] for name, text in printed.items()}
    for name, program in (("rights", "worker"), ("beat", "beat")):
        events = [line for line in lines[name] if line["level"] == "info"]
        assert [one["event"] for one in events] == [f"{program}_started", f"{program}_stopped"]
        assert {one["pid"] for one in events} == {started[name].pid}
        assert all(one["timestamp"] for one in events)
    assert lines["rights"][-1]["how"] == "cold", "it would finish its tasks first"
    assert heartbeats.list_restarts() == {}
    for name in started:
        heartbeats.record_start(name)
    assert heartbeats.list_restarts() == {}, "a requested stop and the next start are no restart"


@pytest.mark.parametrize("words", [["api"], ["worker", "--lane", "ingest"], ["beat"]])
def test_a_missing_url_is_named(cli: Cli, words: list[str]) -> None:
    done = cli(*words)
    assert done.code == 1
    assert "isn't set" in done.err
    assert "ebbing run" in done.err


@pytest.fixture
def empty_database_url(servers: Servers) -> Iterator[str]:
    """URL of a database without tables."""
    name = f"empty_{token_hex(6)}"
    with psycopg.connect(servers.database_url, autocommit=True) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(servers.database_url)._replace(path=f"/{name}"))
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_migrate_says_from_where_to_where(cli: Cli, empty_database_url: str) -> None:
    first = json.loads(cli("migrate", "--json", EBBING_DATABASE_URL=empty_database_url).out)
    assert first["from"] is None
    assert first["to"]
    assert cli("migrate").out == f"schema: {first['to']} → {first['to']}\n"
    unknown = cli("migrate", "--revision", "nowhere")
    assert unknown.code == 1
    assert "revision nowhere can't be reached" in unknown.err
    database.close()


def test_migrate_without_a_server_ends_with_3(cli: Cli) -> None:
    done = cli("migrate", EBBING_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none")
    assert done.code == 3
    assert "can't be reached" in done.err


PARENT = """
import os, signal
from app.system.parent_death import die_with_parent
parent = os.getpid()
child = os.fork()
if not child:
    die_with_parent(parent)
    print(os.getpid(), flush=True)
    while True:
        signal.pause()
signal.pause()
"""


@pytest.mark.slow
def test_a_watching_child_dies_with_its_killed_parent() -> None:
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until_gone(child)


ORPHAN = """
import os, time
from app.system.parent_death import die_with_parent
die_with_parent(os.getppid() + 1)
"""


@pytest.mark.slow
def test_a_child_whose_parent_went_before_it_could_watch_ends() -> None:
    root = Path(__file__).resolve().parents[3]
    assert subprocess.run([sys.executable, "-c", ORPHAN], cwd=root, check=False).returncode == 1
