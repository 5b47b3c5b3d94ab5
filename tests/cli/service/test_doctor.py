"""Findings of `ebbing doctor`, with and without a running service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis

from app.clients.redis import stream
from app.domain.health_findings import Finding, attention, dead_letter_finding, exposed_secret_finding, ok, trouble
from app.domain.provider_health import CONNECTION, ProviderHealth, working_providers
from app.queues import LANES
from app.store.core import database
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

READY = {"status": "ready", "dependencies": [{"name": "redis", "well": True, "detail": "answers"}]}
SICK = {"status": "not ready", "dependencies": [{"name": "redis", "well": False, "detail": "Redis can't be reached."}]}
LATE = attention("old_embed", "the oldest entry in the embed queue has waited 5 min", "read its log")
DEAD = Finding(
    "trouble", "lane_embed", "the embed worker hasn't sent a heartbeat for 1 min", "restart it", command="kill  1 # `"
)
LETTERS = dead_letter_finding(2)
WELL = [*(ok(f"lane_{lane}", "last heartbeat 1 s ago") for lane in LANES), ok("beat", "last heartbeat 1 s ago")]


def status(*findings: Finding) -> Reply:
    """The service's answer with these findings."""
    return Reply(200, {"status": "x", "summary": "y", "findings": [asdict(one) | {"new": 1} for one in findings]})


def levels(cli: Cli, arguments: Sequence[str] = (), **environment: str) -> tuple[int, dict[str, str]]:
    done = cli("doctor", "--json", *arguments, **environment)
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
    api.replies["GET /v1/status"] = status(*WELL, ok("redis", "answers"), ok("provider", "none configured"))
    code, found = levels(cli, arguments=["--strict"])
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
    assert cli("doctor").out.endswith("\nNo problems found.\n")


def test_what_is_not_well_is_a_fail_each(cli: Cli, api: Stub, folder: Path) -> None:
    home = folder / ".ebbing"
    home.mkdir()
    home.chmod(0o755)
    api.replies["GET /readyz"] = Reply(503, SICK)
    away = trouble("redis", "Redis can't be reached", "start it")
    api.replies["GET /v1/status"] = status(DEAD, away, LATE, LETTERS, ok("lane_ingest", "last heartbeat 1 s ago"))
    done = cli("doctor", COLUMNS="300")
    assert done.code == 1
    for line in (
        "✗ api ",
        "✗ api: redis          Redis can't be reached.\n                      Start it.\n",
        "✗ lane embed          The embed worker hasn't sent a heartbeat for 1 min.\n",
        "                      Restart it:\n                      kill  1 # `\n",
        "! lane embed          The oldest entry in the embed queue has waited 5 min.\n",
        "                      Read its log.\n",
        "! dead letters        2 dead letters need a decision.\n",
        "! home",
        "✓ lane ingest",
    ):
        assert line in done.out, line
    assert done.out.count("api: redis") == 1, "the same state isn't reported in other words"
    assert "chmod 700" in done.out
    assert done.out.endswith("\n3 problems need action now, 3 warnings to review.\n")


@pytest.mark.parametrize(
    ("findings", "arguments", "end"),
    [
        ([], [], (0, "No problems found.")),
        ([LETTERS], [], (0, "1 warning to review.")),
        ([LETTERS], ["--strict"], (1, "1 warning to review.")),
        ([LETTERS, DEAD], [], (1, "1 problem needs action now, 1 warning to review.")),
    ],
    ids=["well", "warning", "warning, strict", "problem"],
)
def test_the_exit_code_and_the_last_line_say_how_it_is(
    cli: Cli, api: Stub, folder: Path, findings: list[Finding], arguments: list[str], end: tuple[int, str]
) -> None:
    (folder / ".ebbing").mkdir(mode=0o700)
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/status"] = status(*findings)
    done = cli("doctor", *arguments)
    assert (done.code, done.out.splitlines()[-1]) == end
    found = json.loads(cli("doctor", "--json", *arguments).out)
    assert (found["well"], found["warnings"]) == (
        DEAD not in findings,
        len([one for one in findings if one == LETTERS]),
    )


def test_the_settings_of_the_shell_say_nothing_of_a_service_that_cannot_be_asked(cli: Cli) -> None:
    _, found = levels(cli, EBBING_API_URL="http://127.0.0.1:9")
    assert found["provider"] == "warn"


def test_an_earlier_api_is_said_to_be_one(cli: Cli, api: Stub) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    done = cli("doctor", COLUMNS="300")
    assert "! provider            The state of the model provider is unknown, because the service has an e" in done.out
    assert "Upgrade it." in done.out


def test_a_secret_that_the_shell_and_the_service_read_is_reported_once(cli: Cli, api: Stub, folder: Path) -> None:
    secret = folder / "key"
    secret.write_text("k")
    secret.chmod(0o644)
    both = exposed_secret_finding("EBBING_OPENAI_API_KEY_FILE", str(secret))
    other = exposed_secret_finding("EBBING_MASTER_KEY_FILE", "/run/master")
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/status"] = status(both, other)
    done = cli("doctor", COLUMNS="300", EBBING_OPENAI_API_KEY_FILE=str(secret))
    assert done.out.count(f"chmod 400 {secret}") == 1
    assert "chmod 400 /run/master" in done.out


def test_a_refused_key_is_a_fail(cli: Cli, api: Stub) -> None:
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/status"] = Reply(401, problem(401, "not-authenticated"))
    code, found = levels(cli)
    assert code == 1
    assert found["api key"] == "fail"


def test_a_service_that_waits_for_a_replay_is_no_refused_key(cli: Cli, api: Stub) -> None:
    older = "The data is an older copy, with 1 erasure to replay: run `ebbing privacy replay`."
    sick = {"status": "not ready", "dependencies": [{"name": "erasures", "well": False, "detail": older}]}
    api.replies["GET /readyz"] = Reply(503, sick)
    api.replies["GET /v1/status"] = Reply(503, problem(503, "not-replayed"))
    done = cli("doctor", COLUMNS="300")
    assert done.code == 1
    assert (
        "✗ api: erasures       The data is an older copy, with 1 erasure to replay: run `ebbing privacy replay`.\n"
        in done.out
    )
    assert f"✗ api                 {api.url} isn't ready.\n" in done.out, "a URL isn't capitalised"
    assert "api key" not in done.out
    assert "because the service refuses requests" in done.out
    api.replies["GET /readyz"] = Reply(200, READY)
    assert "✗ api: status" in cli("doctor").out


def test_uses_of_a_provider_have_the_names_of_the_dashboard(cli: Cli, api: Stub) -> None:
    uses = [
        ProviderHealth(use, "models:80", model, "ok", 60.0, None, "", 0, "closed")
        for use, model in ((CONNECTION, ""), ("contradict", "small"))
    ]
    api.replies["GET /readyz"] = Reply(200, READY)
    api.replies["GET /v1/status"] = status(*working_providers(uses))
    shown = cli("doctor", COLUMNS="300").out
    assert "✓ provider            connection: models:80, last success 1 minute ago\n" in shown
    assert "✓ provider            contradiction checks: small at models:80, last success 1 minute ago\n" in shown


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
    ],
    ids=str,
)
def test_provider_prices_and_budget_are_looked_at(cli: Cli, environment: dict[str, str], lines: list[str]) -> None:
    done = cli("doctor", EBBING_API_URL="http://127.0.0.1:9", **environment)
    for line in lines:
        assert line in done.out, line


@pytest.mark.slow
def test_a_shell_without_urls_imports_no_drivers(folder: Path) -> None:
    code = "import sys; from app.services.monitoring import doctor; list(doctor.examine()); print(*sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EBBING_")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "app.clients.embedding.static_embedder" in loaded
    assert not loaded & {"sqlalchemy", "psycopg", "redis", "celery", "alembic", "app.domain.policy.policy"}
