"""Write the configuration with which clients of the Model Context Protocol start or reach Ebbing."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.cli.core.connection import API_KEY, API_URL, HOME, ApiConnection, load_settings, read_note

NAME: Final = "ebbing"
INPUT: Final = "ebbing-key"


@dataclass(frozen=True)
class McpClient:
    """A client's configuration format.

    Attributes:
        title: Name of the client, and the file or command that takes the configuration.
        key: Reference to the API key in the configuration's syntax, or a placeholder for the key.
        section: Name of the object with servers in the client's file; empty if a command adds them.
        has_http: True if the configuration can name an HTTP address with a header.
    """

    title: str
    key: str
    section: str
    has_http: bool = True


CLIENTS: Final = {
    "claude-desktop": McpClient(
        "Claude Desktop: claude_desktop_config.json", "YOUR-API-KEY", "mcpServers", has_http=False
    ),
    "claude-code": McpClient("Claude Code: run this command", f"${API_KEY}", ""),
    "cursor": McpClient("Cursor: ~/.cursor/mcp.json", f"${{env:{API_KEY}}}", "mcpServers"),
    "vscode": McpClient("VS Code: .vscode/mcp.json", f"${{input:{INPUT}}}", "servers"),
    "zed": McpClient("Zed: settings.json", "YOUR-API-KEY", "context_servers"),
}
"""Clients by the names of `ebbing mcp install`."""


def configure(name: str, place: ApiConnection, *, http: bool, key: str | None) -> dict[str, Any] | str | None:
    """Return a client's configuration: the content of its file, or a command; None if it can't connect over HTTP.

    Args:
        http: Connect to the service's `/mcp` instead of starting `ebbing mcp`.
        key: The API key to show; None refers to it by name.
    """
    client = CLIENTS[name]
    if http and not client.has_http:
        return None
    server = _reach(client, place, key) if http else _start(client, place, key)
    if not client.section:
        return _claude_command(server)
    shown: dict[str, Any] = {client.section: {NAME: server}}
    if client.section == "servers" and client.key in json.dumps(shown):
        shown["inputs"] = [{"type": "promptString", "id": INPUT, "description": "API key of Ebbing", "password": True}]
    return shown


def describe(name: str, configuration: dict[str, Any] | str | None) -> str:
    """Return a configuration as text, with its place as a heading."""
    if configuration is None:
        text = "# Its file has no entry for an HTTP server: use it without --http."
    else:
        text = configuration if isinstance(configuration, str) else json.dumps(configuration, indent=2)
    return f"# {CLIENTS[name].title}\n{text}\n"


def _reach(client: McpClient, place: ApiConnection, key: str | None) -> dict[str, Any]:
    """Return the entry of an HTTP server."""
    kind = {"type": "http"} if client.section == "servers" else {}
    return {**kind, "url": f"{place.url}/mcp", "headers": {"Authorization": f"Bearer {key or client.key}"}}


def _start(client: McpClient, place: ApiConnection, key: str | None) -> dict[str, Any]:
    """Return the entry of a server that the client starts itself."""
    kind = {"type": "stdio"} if client.section == "servers" else {}
    command = shutil.which("ebbing") or str(Path(sys.argv[0]).absolute())
    return {**kind, "command": command, "args": ["mcp"], "env": _environment(client, place, key)}


def _environment(client: McpClient, place: ApiConnection, key: str | None) -> dict[str, str]:
    """Return the environment variables with which the client's server finds the address and the key.

    Only the service's home is named if it contains both, so that the key isn't copied.
    """
    home = load_settings().home
    has_both = read_note(home / "api-url") == place.url and read_note(home / "api-key") == place.key is not None
    if has_both and key is None:
        return {HOME: str(home.absolute())}
    return {API_URL: place.url, API_KEY: key or client.key}


def _claude_command(server: dict[str, Any]) -> str:
    """Return the command that adds a server to Claude Code; the shell replaces the name of the key's variable."""
    if "url" in server:
        header = f"Authorization: {server['headers']['Authorization']}"
        return f'claude mcp add --transport http {NAME} {shlex.quote(server["url"])} --header "{header}"'
    variables = " ".join(
        f'--env {name}="{value}"' if value.startswith("$") else f"--env {name}={shlex.quote(value)}"
        for name, value in server["env"].items()
    )
    return f"claude mcp add {NAME} {variables} -- {shlex.quote(server['command'])} mcp"
