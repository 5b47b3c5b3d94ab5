"""Anthropic's memory tool: `EbbingMemoryTool` and its asyncio form, whose files are memories of an Ebbing service."""

from __future__ import annotations

from typing import Any

from ebbing_client.adapters.memory_files import FileResult, run_command
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing
from ebbing_client.errors import Conflict, Invalid

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise ImportError("anthropic isn't installed: pip install 'ebbing-client[anthropic]'") from error


class EbbingMemoryTool(BetaAbstractMemoryTool):
    """Memory tool for `client.beta.messages.run_tools(tools=[EbbingMemoryTool(ebbing)])`.

    A file is a memory whose `external_id` is the path. The default policy protects files from decay. Edits keep the
    former text, and deletions can be cancelled during the grace period.

    Args:
        client: Client of the service; its key needs the scopes `read` and `ingest`.
        options: Options of the SDK's tool, such as `cache_control`.
    """

    def __init__(self, client: Ebbing, **options: Any) -> None:
        super().__init__(**options)
        self._client = client

    def _run(self, command: Any) -> str:
        try:
            return _text(self._client.send(run_command(command.to_dict())))
        except (Conflict, Invalid) as error:
            raise ToolError(str(error)) from None

    def view(self, command: Any) -> str:
        """Show a file with line numbers, or a directory."""
        return self._run(command)

    def create(self, command: Any) -> str:
        """Create a file."""
        return self._run(command)

    def str_replace(self, command: Any) -> str:
        """Replace a string that occurs exactly once in a file."""
        return self._run(command)

    def insert(self, command: Any) -> str:
        """Insert lines into a file."""
        return self._run(command)

    def delete(self, command: Any) -> str:
        """Delete a file, or a directory with its files."""
        return self._run(command)

    def rename(self, command: Any) -> str:
        """Rename a file, or a directory with its files."""
        return self._run(command)


class AsyncEbbingMemoryTool(BetaAsyncAbstractMemoryTool):
    """`EbbingMemoryTool` for `AsyncAnthropic`; `client` is an `AsyncEbbing`."""

    def __init__(self, client: AsyncEbbing, **options: Any) -> None:
        super().__init__(**options)
        self._client = client

    async def _run(self, command: Any) -> str:
        try:
            return _text(await self._client.send(run_command(command.to_dict())))
        except (Conflict, Invalid) as error:
            raise ToolError(str(error)) from None

    async def view(self, command: Any) -> str:
        """Show a file with line numbers, or a directory."""
        return await self._run(command)

    async def create(self, command: Any) -> str:
        """Create a file."""
        return await self._run(command)

    async def str_replace(self, command: Any) -> str:
        """Replace a string that occurs exactly once in a file."""
        return await self._run(command)

    async def insert(self, command: Any) -> str:
        """Insert lines into a file."""
        return await self._run(command)

    async def delete(self, command: Any) -> str:
        """Delete a file, or a directory with its files."""
        return await self._run(command)

    async def rename(self, command: Any) -> str:
        """Rename a file, or a directory with its files."""
        return await self._run(command)


def _text(result: FileResult) -> str:
    """Return the text of a result.

    Raises:
        ToolError: The command failed; the SDK shows the error's text to the model.
    """
    if result.is_error:
        raise ToolError(result.content)
    return result.content
