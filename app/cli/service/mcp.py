"""`ebbing mcp`: serve the Model Context Protocol over standard input and output; print the configuration of clients."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.connection import find_connection, load_settings
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import AsJson, Url, examples, print_json
from app.cli.service import mcp_clients
from app.mcp.backend import Params, Reply, ToolFailure, describe_problem

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATIENCE_SECONDS: Final = 5.0
"""Time for which a request is repeated while the service restarts."""

router = typer.Typer(
    name="mcp",
    cls=Commands,
    invoke_without_command=True,
    epilog=examples("ebbing mcp", "ebbing mcp install claude-desktop", "ebbing mcp install cursor --http"),
)


class ServiceBackend:
    """Access to a running service by the connection settings of the command line."""

    scopes = None
    owner = "service"

    def __init__(self, api: Api) -> None:
        self._api = api

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request in a thread; see `app.mcp.backend.Backend`."""
        from anyio import to_thread

        return await to_thread.run_sync(self._send, method, path, params, body, headers)

    def _send(self, method: str, path: str, params: Any, body: object, headers: Any) -> Reply:
        from app.cli.core.client import ApiRefusal

        try:
            answer = self._api.call(method, path, json=body, params=params, headers=headers)
        except ApiRefusal as refusal:
            raise describe_problem(refusal.status, refusal.body) from None
        except CommandFailure as failure:
            raise ToolFailure(str(failure)) from None
        return Reply(answer.status, answer.body)


@router.callback()
def serve(context: typer.Context, url: Url = None) -> None:
    """Serve an agent over standard input and output (MCP), with the tools of EBBING_MCP_TOOLS.

    The agent's program starts this command itself: `ebbing mcp install` prints its configuration. The command calls a
    running service with the API key of EBBING_API_KEY, or of the service's home.
    """
    if context.invoked_subcommand is not None:
        return
    import anyio
    from mcp.server.stdio import stdio_server

    from app import logs
    from app.cli.core.client import Api
    from app.mcp import server

    tools = load_settings().mcp_tools
    logs.configure("mcp")  # standard output belongs to the protocol
    if sys.stdin.isatty():
        typer.echo("Waiting for messages of an agent. To configure one, run `ebbing mcp install`.", err=True)

    async def run(api: Api) -> None:
        backend = ServiceBackend(api)
        built = server.build(tools, lambda _: backend)
        async with stdio_server() as (incoming, outgoing):
            await built.run(incoming, outgoing, built.create_initialization_options())

    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        anyio.run(run, api)


@router.command(
    epilog=examples("ebbing mcp install", "ebbing mcp install claude-code", "ebbing mcp install vscode --http")
)
def install(
    client: Annotated[
        str | None,
        typer.Argument(help=f"Client: {', '.join(mcp_clients.CLIENTS)}. Default: all.", metavar="[CLIENT]"),
    ] = None,
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Connect to the service's /mcp, instead of starting `ebbing mcp`.")
    ] = False,
    show_key: Annotated[
        bool, typer.Option("--show-key", help="Print the API key itself, instead of the name of its variable.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print the configuration that lets a client use this service. Nothing is written."""
    if client is not None and client not in mcp_clients.CLIENTS:
        raise CommandFailure(f"unknown client: expected one of {', '.join(mcp_clients.CLIENTS)}", Code.USAGE)
    place = find_connection(url)
    if show_key and place.key is None:
        raise CommandFailure(f"no API key for {place.url} to show: set EBBING_API_KEY", Code.NOT_ALLOWED)
    key = place.key if show_key else None
    names = [client] if client else mcp_clients.CLIENTS
    found = {name: mcp_clients.configure(name, place, http=http, key=key) for name in names}
    if as_json:
        print_json(found)
        return
    for name, configuration in found.items():
        typer.echo(mcp_clients.describe(name, configuration))
