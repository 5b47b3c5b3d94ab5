"""The eighteen tools of the mnemex set: names, arguments and shapes are those of cortexgraph's tools."""

from __future__ import annotations

from typing import Any, Final

from app.mcp.mnemex import mnemex_maintenance, mnemex_memories, mnemex_messages
from app.mcp.tool import Tool

TOOLS: Final[list[Tool[Any]]] = [*mnemex_memories.TOOLS, *mnemex_maintenance.TOOLS, *mnemex_messages.TOOLS]
"""The tools, in the order of lists."""
