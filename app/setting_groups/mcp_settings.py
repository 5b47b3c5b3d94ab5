"""Settings of the server for the Model Context Protocol, a part of `app.settings`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import field_validator
from pydantic_settings import BaseSettings, NoDecode

ToolSetName = Literal["ebbing", "mnemex", "knowledge_graph", "files"]


class McpSettings(BaseSettings):
    """Settings of `/mcp` and of `ebbing mcp`."""

    mcp: Literal["on", "off"] = "on"
    """Serve the Model Context Protocol at `/mcp`. Its library, 25 MB of memory, is loaded at the first request."""
    mcp_tools: ToolSetName = "ebbing"
    """Tools that `/mcp` and `ebbing mcp` offer. `ebbing`: Ebbing's own twelve; `mnemex`: eighteen with the names and
    shapes of cortexgraph's; `knowledge_graph`: the nine of the protocol's reference memory server; `files`: the six
    commands of Anthropic's memory tool."""
    mcp_hosts: Annotated[frozenset[str], NoDecode] = frozenset()
    """Host names by which clients may reach `/mcp`, in addition to `localhost`, `HOST` and the host of `PUBLIC_URL`,
    such as `ebbing.internal,api`. Requests for other hosts, and from browser pages of other hosts, get a 421; `*`
    allows all of them."""

    @field_validator("mcp_hosts", mode="before")
    @classmethod
    def _host_names(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return frozenset(name.strip().lower() for name in given.split(",") if name.strip())
