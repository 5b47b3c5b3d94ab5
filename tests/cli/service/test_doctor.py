"""Findings of `ebbing doctor`, with and without a running service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis

from app.clients.redis import stream
from app.queues import LANES
from app.store.core import database
from tests.cli.conftest import Cli
from tests.cli.core.test_connection import NUMBERS
from tests.cli.stub import Reply, Stub, problem

READY = {"status": "ready", "dependencies": [{"name": "redis", "well": True, "detail": "answers"}]}
SICK = {"status": "not ready", "dependencies": [{"name": "redis", "well": False, "detail": "can't be reached"}]}
CALLED = {
    "use": "score",
    "address": "127.0.0.1:9",
    "model": "some-model",
    "state": "failing",
    "success_seconds": None,
    "failure_seconds": 20.0,
    "failure": "unreachable",
    "failures_in_row": 7,
    "breaker": "open",
    "waiting": 1951,
}
CHECKED = CALLED | {"use": "connection", "model": "", "failures_in_row": 2, "breaker": "closed", "waiting": None}
HEARD = {**dict.fromkeys(LANES, 2.5), "embed": 95.0, "beat": 1.5}


def levels(cli: Cli, **environment: str) -> tuple[int, dict[str, str]]:
    done = cli("doctor", "--json", **environment)
    return done.code, {check["name"]: check["level"] for check in json.loads(done.out)["checks"]}


def test_without_a_service_it_says_what_is_not_there(cli: Cli) -> None:
    done = cli("doctor", EBBING_API_URL="http://127.0.0.1:9")
    assert done.code == 1
    assert "✓ python" in done.out
    assert "✓ embedder" in done.out
    assert "! home" in done.out
    assert "✗ api" in done.out
    assert "ebbing run" in done.out


def test_a_service_that_is_well(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / ".ebbing").mkdir(mode=0o700)
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | {"silent_seconds": HEARD | {"embed": 5.0}, "providers": []})
    code, found = levels(cli)
    assert code == 0
    names = {
        "python",
        "home",
        "embedder",
        "reranker",
        "provider",
        "dynamics",
        "cold storage",
        "api",
        "api: redis",
        "api key",
        *(f"lane {lane}" for lane in LANES),
        "beat",
    }
    assert found == dict.fromkeys(names, "ok")


def test_what_is_not_well_is_a_fail_each(cli: Cli, api: Stub, folder: Path) -> None:
    home = folder / ".ebbing"
    home.mkdir()
    home.chmod(0o755)
    late = {"lanes": {"embed": {"depth": 7, "oldest_age_seconds": 300.0}}, "dead_letters": 2}
    late |= {"silent_seconds": HEARD | {"score": 7.0}}
    api.replies["GET /readyz"] = Reply(503, SICK)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | late)
    done = cli("doctor")
    assert done.code == 1
    for line in (
        "✗ api ",
        "✗ api: redis",
        "✗ lane embed",
        "! lane embed",
        "! dead letters        2 dead letters need a decision",
        "! home",
    ):
        assert line in done.out, line
    for line in (
        "✓ lane ingest",
        "! lane score          no heartbeat from the score worker for 7 s",
    ):
        assert line in done.out, line
    assert "chmod 700" in done.out
    assert "restart it: `ebbing worker --lane embed`" in done.out


def test_a_lane_that_was_never_heard_of_is_named(cli: Cli, api: Stub) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | {"silent_seconds": HEARD | {"maintain": None}})
    _, found = levels(cli)
    assert found["lane maintain"] == "warn"


@pytest.mark.parametrize(
    ("installation", "command"),
    [
        ({}, "restart it: `ebbing worker --lane embed`"),
        ({"installation": "compose"}, "restart it: `docker compose restart worker-embed`"),
        (
            {"installation": "kubernetes"},
            "restart it: `kubectl --namespace ebbing rollout restart deploy/worker-embed`",
        ),
        (
            {"installation": "run", "worker_pids": {"embed": 4711}},
            "end the process: it is started again at once: `kill -KILL 4711`",
        ),
    ],
    ids=["earlier version", "compose", "kubernetes", "run"],
)
def test_the_command_fits_the_installation_of_the_service(
    cli: Cli, api: Stub, installation: dict[str, object], command: str
) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | {"silent_seconds": HEARD} | installation)
    assert f"no heartbeat from the embed worker for 1 min: {command}" in cli("doctor", COLUMNS="300").out


def test_the_provider_of_the_service_counts_and_not_that_of_the_shell(cli: Cli, api: Stub) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | {"providers": [CHECKED, CALLED]})
    done = cli("doctor", COLUMNS="300")
    assert "none required" not in done.out
    assert "! provider" in done.out
    assert "the model provider at 127.0.0.1:9 can't be reached (no connection)" in done.out
    assert "EBBING_OPENAI_BASE_URL" in done.out
    assert done.out.count("127.0.0.1:9 ") == 1  # the calls that fail for the same reason aren't reported again

    well = {"state": "ok", "success_seconds": 5.0, "failures_in_row": 0, "breaker": "closed"}
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | {"providers": [CHECKED | well, CALLED | well]})
    _, found = levels(cli)
    assert (found["provider connection"], found["provider score"]) == ("ok", "ok")


def test_the_settings_of_the_shell_say_nothing_of_a_service_that_cannot_be_asked(cli: Cli) -> None:
    _, found = levels(cli, EBBING_API_URL="http://127.0.0.1:9")
    assert found["provider"] == "warn"


def test_an_earlier_api_says_nothing_of_processes(cli: Cli, api: Stub) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS)
    _, found = levels(cli)
    assert "beat" not in found


def test_a_tenant_in_another_embedding_space_is_said_to_be(cli: Cli, api: Stub) -> None:
    space = {"model": "m-1", "dimensions": 64, "is_settings": False}
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS | {"embedding_space": space})
    _, found = levels(cli)
    assert found["embedding space"] == "warn"


def test_a_refused_key_is_a_fail(cli: Cli, api: Stub) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/stats"] = Reply(401, problem(401, "not-authenticated"))
    code, found = levels(cli)
    assert code == 1
    assert found["api key"] == "fail"


@pytest.fixture
def service_url(database_url: str) -> Iterator[str]:
    """URL of the database for a login that can't bypass row-level security, like the service's own."""
    login = f"doctor_{token_hex(4)}"
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(f"create role {login} login password 'doctor' noinherit in role ebbing_app, ebbing_drain")
        url = urlsplit(database_url)
        yield urlunsplit(url._replace(netloc=f"{login}:doctor@{url.netloc.rpartition('@')[2]}"))
        owner.execute(f"drop role {login}")


def test_databases_by_url_are_asked_directly(cli: Cli, service_url: str, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as server:
        durable = server.config_get("appendonly")["appendonly"] == "yes"
    code, found = levels(
        cli, EBBING_DATABASE_URL=service_url, EBBING_REDIS_URL=redis_url, EBBING_API_URL="http://127.0.0.1:9"
    )
    assert code == 1  # no API is running
    well = (
        "postgresql",
        "pgvector",
        "schema",
        "row-level security",
        "embedding spaces",
        "keys of cold storage",
        "redis",
    )
    for name in well:
        assert found[name] == "ok", name
    assert found["redis settings"] == ("ok" if durable else "fail")
    assert found["lane ingest"] == "fail"
    stream.close()
    database.close()


def test_databases_that_are_away_are_said_to_be(cli: Cli) -> None:
    done = cli(
        "doctor",
        EBBING_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none",
        EBBING_REDIS_URL="redis://127.0.0.1:9/0",
        EBBING_API_URL="http://127.0.0.1:9",
    )
    assert done.code == 1
    assert "✗ postgresql" in done.out
    assert "EBBING_DATABASE_URL" in done.out
    assert "✗ redis" in done.out
    assert "EBBING_REDIS_URL" in done.out
    stream.close()
    database.close()


PRICED = '{"gpt-5.4-mini": {"input": 1}}'
KEYED = {"EBBING_OPENAI_API_KEY": "k"}


@pytest.mark.parametrize(
    ("environment", "lines"),
    [
        (KEYED, ["✓ models", "gpt-5.4-mini at api.openai.com; no price", "! budget", "EBBING_BUDGET_TOKENS"]),
        (KEYED | {"EBBING_BUDGET_TOKENS": "5000"}, ["✓ budget", "tokens 5,000 a day"]),
        (KEYED | {"EBBING_BUDGET_COST": "5"}, ["✗ budget", "BUDGET_COST is set but gpt-5.4-mini has no price"]),
        (KEYED | {"EBBING_BUDGET_COST": "5", "EBBING_PRICES": PRICED}, ["prices are known", "✓ budget"]),
        ({"EBBING_OPENAI_BASE_URL": "nowhere"}, ["✗ models", "EBBING_OPENAI_BASE_URL"]),
    ],
    ids=str,
)
def test_provider_prices_and_budget_are_looked_at(cli: Cli, environment: dict[str, str], lines: list[str]) -> None:
    done = cli("doctor", EBBING_API_URL="http://127.0.0.1:9", **environment)
    for line in lines:
        assert line in done.out, line
