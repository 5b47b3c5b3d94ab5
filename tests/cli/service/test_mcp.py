"""`ebbing mcp install`: configurations of clients, without the key unless it is requested."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from app.cli.service import mcp_clients
from tests import documents
from tests.cli.conftest import KEY, Cli
from tests.cli.stub import Stub

SECTIONS = {"claude-desktop": "mcpServers", "cursor": "mcpServers", "vscode": "servers", "zed": "context_servers"}


PAGE = Path(__file__).resolve().parents[3] / "ops" / "mcp.md"
SHOWN = [words[1:] for words in documents.commands(PAGE.read_text()) if words[0] == "ebbing"]


def entry(out: str, client: str) -> dict[str, Any]:
    """Return the entry of a printed file, without its heading."""
    found: dict[str, Any] = json.loads(out.partition("\n")[2])[SECTIONS[client]]["ebbing"]
    return found


@pytest.mark.parametrize("client", SECTIONS)
def test_a_client_that_starts_the_command(api: Stub, cli: Cli, client: str) -> None:
    done = cli("mcp", "install", client)
    server = entry(done.out, client)
    assert server["args"] == ["mcp"]
    assert Path(server["command"]).is_absolute()
    assert server["env"]["EBBING_API_URL"] == api.url
    assert KEY not in done.out
    shown = entry(cli("mcp", "install", client, "--show-key").out, client)
    assert shown["env"]["EBBING_API_KEY"] == KEY


@pytest.mark.parametrize("client", ["cursor", "vscode", "zed"])
def test_a_client_that_connects_over_http(api: Stub, cli: Cli, client: str) -> None:
    done = cli("mcp", "install", client, "--http")
    server = entry(done.out, client)
    assert server["url"] == f"{api.url}/mcp"
    assert server["headers"]["Authorization"].startswith("Bearer ")
    assert KEY not in done.out
    shown = entry(cli("mcp", "install", client, "--http", "--show-key").out, client)
    assert shown["headers"] == {"Authorization": f"Bearer {KEY}"}


def test_a_key_in_the_services_home_is_not_copied(cli: Cli, folder: Path) -> None:
    home = folder / "home of it"
    home.mkdir()
    (home / "api-url").write_text("http://127.0.0.1:8123\n")
    (home / "api-key").write_text("ebb_home\n")
    done = cli("mcp", "install", "cursor", EBBING_HOME=str(home))
    assert entry(done.out, "cursor")["env"] == {"EBBING_HOME": str(home)}
    other = cli("mcp", "install", "cursor", "--url", "http://127.0.0.1:8999", EBBING_HOME=str(home))
    assert entry(other.out, "cursor")["env"]["EBBING_API_URL"] == "http://127.0.0.1:8999"


def test_claude_code_is_configured_by_a_command(api: Stub, cli: Cli) -> None:
    words = shlex.split(cli("mcp", "install", "claude-code").out.partition("\n")[2])
    assert words[:4] == ["claude", "mcp", "add", "ebbing"]
    assert f"EBBING_API_URL={api.url}" in words
    assert "EBBING_API_KEY=$EBBING_API_KEY" in words
    assert words[-1] == "mcp"
    assert words[words.index("--") + 1] == words[-2]
    words = shlex.split(cli("mcp", "install", "claude-code", "--http").out.partition("\n")[2])
    assert words[-3:] == [f"{api.url}/mcp", "--header", "Authorization: Bearer $EBBING_API_KEY"]


def test_vscode_asks_for_a_key_that_the_file_does_not_contain(api: Stub, cli: Cli) -> None:
    printed = json.loads(cli("mcp", "install", "vscode").out.partition("\n")[2])
    [given] = printed["inputs"]
    assert (given["id"], given["password"]) == ("ebbing-key", True)
    assert printed["servers"]["ebbing"]["env"]["EBBING_API_KEY"] == "${input:ebbing-key}"
    assert "inputs" not in json.loads(cli("mcp", "install", "vscode", "--show-key").out.partition("\n")[2])


def test_without_a_client_all_are_printed(api: Stub, cli: Cli) -> None:
    done = cli("mcp", "install")
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("# ")] == [
        f"# {client.title}" for client in mcp_clients.CLIENTS.values()
    ]
    assert KEY not in done.out
    assert api.asked == []


def test_as_json_the_configurations_have_their_clients_as_names(api: Stub, cli: Cli) -> None:
    printed = json.loads(cli("mcp", "install", "--http", "--json").out)
    assert list(printed) == list(mcp_clients.CLIENTS)
    assert printed["zed"]["context_servers"]["ebbing"]["url"] == f"{api.url}/mcp"
    assert printed["claude-code"].startswith("claude mcp add --transport http ")
    assert printed["claude-desktop"] is None


def test_mistakes_are_named(api: Stub, cli: Cli) -> None:
    unknown = cli("mcp", "install", "emacs")
    assert (unknown.code, "claude-desktop, claude-code, cursor, vscode, zed" in unknown.err) == (2, True)
    assert "without --http" in cli("mcp", "install", "claude-desktop", "--http").out
    keyless = cli("mcp", "install", "--show-key", EBBING_API_KEY="")
    assert (keyless.code, "set EBBING_API_KEY" in keyless.err) == (4, True)


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_command_of_the_page_prints_a_configuration(api: Stub, cli: Cli, words: list[str]) -> None:
    done = cli(*words)
    assert (done.code, "ebbing" in done.out) == (0, True)
