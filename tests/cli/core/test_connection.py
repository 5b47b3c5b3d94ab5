"""Lookup of the API's address and key by the command line, and the errors when it finds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.core.connection import DEFAULT_URL, ApiConnection, find_connection, load_settings
from app.cli.core.errors import CommandFailure
from app.embedded import free_ports
from app.settings import settings
from tests.cli.conftest import KEY, Cli
from tests.cli.stub import Reply, Stub, problem

NUMBERS = {
    "memories": {"active": 3, "archived": 0, "cold": 0},
    "pending": {"ingest": 0, "index": 1, "embed": 1, "score": 0},
    "dead_letters": 0,
    "lanes": {"ingest": {"depth": 1, "oldest_age_seconds": 2.5}},
}


@pytest.fixture
def home(folder: Path) -> Path:
    """A home of `ebbing run` at the default path."""
    home = folder / ".ebbing"
    home.mkdir()
    (home / "api-url").write_text("http://127.0.0.1:9999\n")
    (home / "api-key").write_text("ebb_home\n")
    return home


def test_without_anything_it_is_the_usual_address() -> None:
    assert find_connection() == ApiConnection(DEFAULT_URL, None)


def test_a_home_says_where_its_api_is_and_has_its_key(home: Path) -> None:
    assert find_connection() == ApiConnection("http://127.0.0.1:9999", "ebb_home", Path(".ebbing"))


def test_the_environment_comes_before_the_home_and_the_option_before_both(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_API_URL", "http://127.0.0.1:7777/")
    monkeypatch.setenv("EBBING_API_KEY", "ebb_mine")
    assert find_connection() == ApiConnection("http://127.0.0.1:7777", "ebb_mine")
    assert find_connection("http://127.0.0.1:5555") == ApiConnection("http://127.0.0.1:5555", "ebb_mine")


def test_the_port_of_the_environment_comes_before_the_homes_note_and_one_in_a_file_after_it(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text("EBBING_PORT=6666\n")
    assert find_connection().url == "http://127.0.0.1:9999", "where `ebbing run` listens is known"
    (home / "api-url").unlink()
    assert find_connection() == ApiConnection("http://127.0.0.1:6666", "ebb_home", Path(".ebbing"))
    monkeypatch.setenv("EBBING_PORT", "8011")
    (home / "api-url").write_text("http://127.0.0.1:9999\n")
    assert find_connection() == ApiConnection("http://127.0.0.1:8011", "ebb_home", Path(".ebbing"))
    monkeypatch.setenv("EBBING_API_URL", "http://127.0.0.1:7777")
    assert find_connection().url == "http://127.0.0.1:7777"
    monkeypatch.delenv("EBBING_API_URL")
    monkeypatch.setenv("EBBING_PORT", "0")
    assert find_connection().url == "http://127.0.0.1:9999", "0 is any free port"
    monkeypatch.setenv("EBBING_PORT", "http")
    with pytest.raises(CommandFailure, match="EBBING_PORT"):
        find_connection()


def test_a_file_of_settings_counts_below_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".env").write_text("ebbing_api_url=http://127.0.0.1:7777\nEBBING_API_KEY='ebb_file'\nEBBING_EMPTY\n")
    assert find_connection() == ApiConnection("http://127.0.0.1:7777", "ebb_file")
    assert settings().api_url == "http://127.0.0.1:7777"  # the service reads the file in the same way
    monkeypatch.setenv("EBBING_API_KEY", "ebb_mine")
    assert find_connection() == ApiConnection("http://127.0.0.1:7777", "ebb_mine")


def test_the_key_of_a_home_is_not_shown_to_another_machine(home: Path) -> None:
    assert find_connection("https://elsewhere.example") == ApiConnection("https://elsewhere.example", None)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(CommandFailure, match="isn't a valid API address"):
        find_connection("localhost:8000")


def test_the_key_is_sent_and_never_printed(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS)
    done = cli("stats")
    assert done.code == 0
    assert api.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in done.out + done.err


def test_no_key_ends_with_4_and_says_where_one_is_looked_for(cli: Cli, stub: Stub) -> None:
    done = cli("stats", "--url", stub.url)
    assert done.code == 4
    assert "EBBING_API_KEY" in done.err
    assert stub.asked == []


@pytest.mark.parametrize(("status", "kind"), [(401, "not-authenticated"), (403, "not-allowed")])
def test_a_refused_key_ends_with_4(cli: Cli, api: Stub, status: int, kind: str) -> None:
    api.replies["GET /v1/stats"] = Reply(status, problem(status, kind))
    done = cli("stats")
    assert done.code == 4
    assert kind in done.err


def test_nobody_there_ends_with_3_in_one_line_with_the_way_out(cli: Cli) -> None:
    [port] = free_ports(1)
    done = cli("search", "tea", "--url", f"http://127.0.0.1:{port}", EBBING_API_KEY=KEY)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert f"http://127.0.0.1:{port}" in done.err
    assert "ebbing run" in done.err


def test_another_programs_answer_is_said_to_be_that(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/stats"] = Reply(200, b"<html>Welcome</html>")
    done = cli("stats")
    assert done.code == 1
    assert "doesn't answer like Ebbing" in done.err


def test_a_wrong_setting_is_named(cli: Cli) -> None:
    done = cli("doctor", EBBING_PORT="eight thousand")
    assert done.code == 2
    assert "EBBING_PORT" in done.err


HTTP_URL = "must be an http\\(s\\) URL"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OPENAI_BASE_URL", "127.0.0.1:18499/v1", HTTP_URL),
        ("OPENAI_BASE_URL", "http://user:secret-4711@models.example/v1", HTTP_URL),
        ("OPENAI_BASE_URL", "https://models.example/v1?key=secret-4711", HTTP_URL),
        ("OPENAI_BASE_URL", "http://models.example:port/v1", HTTP_URL),
        ("OPENAI_BASE_URL", "http://[", HTTP_URL),
        ("COLD_ENDPOINT", "minio:9000", HTTP_URL),
        ("PUBLIC_URL", "ebbing.example", HTTP_URL),
        ("DATABASE_URL", "db:5432/secret-4711", "must be a URL that begins with postgresql:// or postgres://"),
        ("OWNER_DATABASE_URL", "mysql://secret-4711@db/x", "must be a URL that begins with postgresql://"),
        ("REDIS_URL", "secret-4711:6379/0", "must be a URL that begins with redis:// or rediss:// or unix://"),
    ],
)
def test_an_unusable_url_is_refused_at_the_start_without_quoting_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"EBBING_{name}", value)
    settings.cache_clear()
    with pytest.raises(CommandFailure, match=f"^EBBING_{name}: {words}") as refused:
        load_settings()
    assert "secret-4711" not in str(refused.value)


def test_a_run_with_an_unusable_provider_url_starts_nothing(cli: Cli, folder: Path) -> None:
    done = cli("run", "--home", str(folder / "home"), EBBING_OPENAI_BASE_URL="127.0.0.1:18499/v1")
    assert done.code == 2
    assert "EBBING_OPENAI_BASE_URL: must be an http(s) URL" in done.err
    assert not (folder / "home").exists()


def test_stats_are_shown_as_a_table_and_as_they_are(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/stats"] = Reply(200, NUMBERS)
    table = cli("stats").out
    assert "active" in table
    assert "2.5 s" in table
    assert '"index": 1' in cli("stats", "--json").out


RULE = '{"staff": {"scopes": ["read"], "tenants": ["00000000-0000-0000-0000-000000000001"]}}'


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"SCOPES": "{"}, "oidc_scopes"),
        ({"SCOPES": RULE.replace("read", "reed")}, r"EBBING_OIDC_SCOPES\[staff\]\[scopes\]\[0\]: "),
        ({"SCOPES": RULE.replace("read", "ingest")}, r"EBBING_OIDC_SCOPES\[staff\]\[scopes\]: .*nobody could log in"),
        ({"SCOPES": RULE.replace("tenants", "tenant")}, r"EBBING_OIDC_SCOPES\[staff\]\[tenants\]: "),
        ({"SCOPES": RULE.replace("-0000-", "-")}, r"EBBING_OIDC_SCOPES\[staff\]\[tenants\]\[0\]: "),
        ({"SCOPES": "{}"}, "EBBING_OIDC_ISSUER: .*requires EBBING_OIDC_SCOPES"),
        ({"CLIENT_ID": ""}, "EBBING_OIDC_ISSUER: .*requires EBBING_OIDC_CLIENT_ID"),
        ({"ISSUER": "login.example"}, "EBBING_OIDC_ISSUER: "),
        ({"SESSION_HOURS": "13"}, "EBBING_OIDC_SESSION_HOURS: "),
        ({"REQUESTED_SCOPES": "profile"}, "EBBING_OIDC_REQUESTED_SCOPES: "),
    ],
)
def test_wrong_settings_of_log_ins_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], words: str
) -> None:
    usual = {"ISSUER": "https://login.example", "CLIENT_ID": "ebbing", "SCOPES": RULE}
    monkeypatch.setenv("EBBING_PUBLIC_URL", "https://ebbing.example")
    for name, value in (usual | changed).items():
        monkeypatch.setenv(f"EBBING_OIDC_{name}", value)
    settings.cache_clear()
    with pytest.raises(CommandFailure, match=words):
        load_settings()


def test_log_ins_require_a_public_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ISSUER": "https://login.example", "CLIENT_ID": "ebbing", "SCOPES": RULE}.items():
        monkeypatch.setenv(f"EBBING_OIDC_{name}", value)
    settings.cache_clear()
    with pytest.raises(CommandFailure, match="EBBING_OIDC_ISSUER requires EBBING_PUBLIC_URL"):
        load_settings()
