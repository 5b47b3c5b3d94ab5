"""Build the server from a set of tools: lists, calls, resources and prompts."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final, TypeAlias

import mcp_types as types
import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import NotAllowed
from app.mcp import texts, tool_sets, tool_timings
from app.mcp.backend import Backend, Json, ToolFailure, describe_error
from app.mcp.tool import Tool

Context: TypeAlias = ServerRequestContext[Any, Any]
Connect: TypeAlias = Callable[[Any], Backend]
"""Function that returns the access to the API with the key of a request; over standard input, the request is None."""

FAILED: Final = "The tool failed. The service's log names the cause."

log = structlog.get_logger(__name__)


def build(tool_set: str, connect: Connect) -> Server[dict[str, Any]]:
    """Return a server with the tools, prompts and resources of a set, and the resources that all sets share."""
    # The library logs messages of exceptions and names that callers made up.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    tools = {tool.name: tool for tool in tool_sets.load(tool_set)}
    handlers = _Handlers(tools, texts.list_resources(tool_set), texts.list_prompts(tool_set), connect)
    server: Server[dict[str, Any]] = Server(
        "ebbing",
        title="Ebbing",
        version=version("ebbing"),
        instructions=tool_sets.SETS[tool_set].instructions,
        get_tool_input_schema=lambda name: tools[name].input_schema if name in tools else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    # The library's spans would carry names and messages of callers.
    server.middleware.clear()
    return server


def build_app(tool_set: str, body_max_bytes: int, connect: Connect) -> ASGIApp:
    """Return the server as an ASGI application, which keeps no sessions.

    Each request gets a session manager of its own, so that the application needs no lifespan (startup and shutdown).
    """
    server = build(tool_set, connect)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=body_max_bytes
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return serve


class _Handlers:
    """Handlers of the protocol's requests."""

    def __init__(
        self,
        tools: dict[str, Tool[Any]],
        resources: Mapping[str, texts.Resource],
        prompts: Mapping[str, texts.PromptText],
        connect: Connect,
    ) -> None:
        self._tools = tools
        self._resources = resources
        self._prompts = prompts
        self._connect = connect
        self._described = {name: _describe(tool) for name, tool in tools.items()}

    async def list_tools(self, ctx: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return the tools that the key may use, or all if its scopes aren't known."""
        scopes = self._connect(ctx.request).scopes
        shown = [self._described[name] for name, tool in self._tools.items() if scopes is None or tool.scopes <= scopes]
        return types.ListToolsResult(tools=shown)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a tool; a failure is a result too, so that the model can correct its call."""
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: expected one of {', '.join(self._tools)}")
        backend, started = self._connect(ctx.request), time.perf_counter()
        try:
            _check_scopes(tool, backend)
            found = await tool.call(backend, params.arguments or {})
        except ToolFailure as failure:
            return _failed(str(failure))
        except Exception as error:  # noqa: BLE001 - its message may contain memory text
            _note(error, tool.name)
            return _failed(FAILED)
        finally:
            tool_timings.add(backend.owner, tool.name, time.perf_counter() - started)
        if isinstance(found, str):
            return types.CallToolResult(content=[types.TextContent(text=found)])
        return types.CallToolResult(content=[types.TextContent(text=_as_json(found))], structured_content=found)

    async def list_resources(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """Return the resources with a fixed address; the addresses of memories follow a template (`list_templates`)."""
        listed = [
            types.Resource(
                name=one.name, title=one.title, uri=uri, description=one.description, mime_type="application/json"
            )
            for uri, one in self._resources.items()
        ]
        return types.ListResourcesResult(resources=listed)

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the URI template of memories."""
        memory = types.ResourceTemplate(
            name="memory",
            uri_template=texts.MEMORY_TEMPLATE,
            description="A memory with its state and links, as JSON.",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(resource_templates=[memory])

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Return the content of a resource."""
        uri = str(params.uri)
        found = await _reported(texts.read_resource(self._connect(ctx.request), self._resources, uri))
        if found is None:
            expected = " or ".join([texts.MEMORY_TEMPLATE, *self._resources])
            raise MCPError(types.INVALID_PARAMS, f"Unknown resource: expected {expected}")
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=_as_json(found))
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        """Return the prompts."""
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(name=argument, description=about, required=True)
                        for argument, about in prompt.arguments.items()
                    ],
                )
                for name, prompt in self._prompts.items()
            ]
        )

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the text of a prompt."""
        backend, given = self._connect(ctx.request), params.arguments or {}
        text = await _reported(texts.write_prompt(backend, self._prompts, params.name, given))
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(messages=[message])


def _check_scopes(tool: Tool[Any], backend: Backend) -> None:
    """Refuse a tool if the key lacks one of its scopes; if the key's scopes aren't known, the routes check them.

    Raises:
        ToolFailure: The key lacks a scope.
    """
    for needed in sorted(tool.scopes.difference(tool.scopes if backend.scopes is None else backend.scopes)):
        log.info("mcp_refused", tool=tool.name, scope=needed)
        raise describe_error(NotAllowed(f"this tool requires a key with the scope {needed!r}"))


async def _reported(work: Any) -> Any:
    """Return the result of a coroutine; failures become errors of the protocol."""
    try:
        return await work
    except ToolFailure as failure:
        raise MCPError(types.INVALID_PARAMS, str(failure)) from None
    except Exception as error:  # noqa: BLE001 - its message may contain memory text
        _note(error, "")
        raise MCPError(types.INTERNAL_ERROR, FAILED) from None


def _note(error: Exception, tool: str) -> None:
    """Log an unexpected error by its type and place."""
    log.error("mcp_failed", tool=tool, error=type(error).__name__, exc_info=error)


def _describe(tool: Tool[Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=False,
        ),
    )


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


def _as_json(found: Json) -> str:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
