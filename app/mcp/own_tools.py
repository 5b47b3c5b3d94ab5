"""Ebbing's own tools."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.domain.ingest.memory import decode_patch
from app.errors import EbbingError
from app.mcp import own_arguments, own_results
from app.mcp.backend import Backend, Json, Params, ToolFailure, describe_error, memory_path
from app.mcp.tool import Tool, collect, given_fields

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order in which `tools/list` returns them."""
WAIT: Final = {"prefer": "wait=5"}
"""Preference of a request to wait until a stored memory can be found, at most 5 seconds."""
LINKS_MAX: Final = 100

_tool = collect(TOOLS)


@_tool("Remember", scope="ingest", arguments=own_arguments.Remember, result=own_results.Remembered)
async def remember(backend: Backend, given: own_arguments.Remember) -> Json:
    """Store a memory that should outlast the conversation.

    Store facts, preferences, decisions and events, each as one self-contained sentence. Do not store secrets. Memories
    fade unless they are used. To change a stored memory use `correct`; if a fact has changed, store the new one with
    `supersedes`.
    """
    reply = await backend.call("POST", "/v1/memories", body=given_fields(given), headers=WAIT)
    [memory_id] = reply.body["ids"]
    return {"id": memory_id, "searchable": reply.status == 200, "supersedes": reply.body.get("supersedes", [])}


@_tool(
    "Recall for a conversation",
    scope="read",
    arguments=own_arguments.Recall,
    result=own_results.Recalled,
    reads=True,
)
async def recall(backend: Backend, given: own_arguments.Recall) -> Json:
    """Return the memories that matter for a conversation, before you answer.

    Returns nothing if no memory is relevant enough. Afterwards call `observe` with the ids that your answer used.
    """
    return (await backend.call("POST", "/v1/recall", body=given_fields(given))).body


@_tool("Search", scope="read", arguments=own_arguments.Search, result=own_results.FoundMemories, reads=True)
async def search(backend: Backend, given: own_arguments.Search) -> Json:
    """Search memories by words and by meaning, with filters.

    Always returns the best matches, even if none is good; for a conversation use `recall`. A search doesn't strengthen
    its results: call `observe` with the ids that your answer used.
    """
    return (await backend.call("POST", "/v1/search", body=given_fields(given) | {"reinforce": False})).body


@_tool("Get a memory", scope="read", arguments=own_arguments.OneMemory, result=own_results.MemoryShown, reads=True)
async def get(backend: Backend, given: own_arguments.OneMemory) -> Json:
    """Return a memory by its id, with its state, its links, and what it replaced."""
    memory = (await backend.call("GET", memory_path(given.id), params=given_fields(given, "id"))).body
    params: Params = {"memory": str(given.id), "limit": LINKS_MAX}
    return memory | (await backend.call("GET", "/v1/links", params=params)).body


@_tool(
    "Correct a memory",
    scope="ingest",
    arguments=own_arguments.Correct,
    result=own_results.Corrected,
    destroys=True,
    repeats=True,
)
async def correct(backend: Backend, given: own_arguments.Correct) -> Json:
    """Change fields of a stored memory that are wrong, such as its text.

    Without `confirm`, returns the stored and the new values and changes nothing. If a fact was true and has changed,
    use `remember` with `supersedes` instead, which keeps the history.
    """
    after = given_fields(given, "id", "confirm")
    if not given.confirm:
        _check_correction(after)
        stored = (await backend.call("GET", memory_path(given.id))).body
        before = {name: stored["salience"]["value"] if name == "salience" else stored[name] for name in after}
        return _corrected(given, before, after, "Call `correct` again with confirm=true to change the memory.")
    await backend.call("PATCH", memory_path(given.id), body=after)
    return _corrected(given, {}, after, None)


def _corrected(given: own_arguments.Correct, before: Json, after: Json, next_step: str | None) -> Json:
    return {"id": str(given.id), "changed": given.confirm, "before": before, "after": after, "next_step": next_step}


def _check_correction(after: Json) -> None:
    """Refuse what an edit would refuse, so that a preview shows only what can be done.

    Raises:
        ToolFailure: A value is invalid, or there is nothing to change.
    """
    if not after:
        raise ToolFailure("Nothing to change: give at least one field, such as `text`")
    try:
        decode_patch(msgspec.json.encode(after))
    except EbbingError as error:
        raise describe_error(error) from None


@_tool(
    "Replace an outdated memory",
    scope="ingest",
    arguments=own_arguments.Supersede,
    result=own_results.Superseded,
    repeats=True,
)
async def supersede(backend: Backend, given: own_arguments.Supersede) -> Json:
    """Mark a stored memory as replaced by a newer stored one: searches return only the newer one from now on.

    Both memories are retained, and a person can undo the replacement. If the key's source is lower than that of the
    older memory, the replacement is only proposed, and a person decides.
    """
    made = (await backend.call("POST", "/v1/supersessions", body=given_fields(given))).body
    return {**made, "memory": made["memory"]["id"], "supersedes": made["supersedes"]["id"]}


@_tool(
    "Forget a memory",
    scope="ingest",
    arguments=own_arguments.Forget,
    result=own_results.Forgotten,
    destroys=True,
    repeats=True,
)
async def forget(backend: Backend, given: own_arguments.Forget) -> Json:
    """Delete a memory.

    Without `confirm`, returns the memory and the legal holds that would prevent the deletion, and deletes nothing. A
    deleted memory disappears at once. After a grace period it is erased permanently; until then, a person can cancel
    the deletion.
    """
    if given.confirm:
        return (await backend.call("DELETE", memory_path(given.id))).body | {"forgotten": True}
    memory = (await backend.call("GET", memory_path(given.id))).body
    holds = []
    if memory["status"] != "pending":
        explained = (await backend.call("GET", memory_path(given.id, "/why"))).body
        holds = [hold["id"] for hold in explained["holds"]]
    step = "Ask a person to release the legal holds first." if holds else "Call `forget` again with confirm=true."
    return {"id": memory["id"], "forgotten": False, "text": memory["text"], "holds": holds, "next_step": step}


@_tool("Report used memories", scope="ingest", arguments=own_arguments.Observe, result=own_results.Observed)
async def observe(backend: Backend, given: own_arguments.Observe) -> Json:
    """Report the memories that your answer used: they become stronger, which postpones their fading.

    Leave out memories that were recalled or found and not used.
    """
    await backend.call("POST", "/v1/observations", body=given_fields(given))
    return {"accepted": len(given.ids)}


@_tool(
    "Explain a memory's tier",
    scope="read",
    arguments=own_arguments.OneMemory,
    result=own_results.Explained,
    reads=True,
)
async def why(backend: Backend, given: own_arguments.OneMemory) -> Json:
    """Explain why a memory is in its tier, and when it will fade if it isn't used."""
    return (await backend.call("GET", memory_path(given.id, "/why"), params=given_fields(given, "id"))).body


@_tool("Link two memories", scope="ingest", arguments=own_arguments.LinkTwo, result=own_results.Linked, repeats=True)
async def link(backend: Backend, given: own_arguments.LinkTwo) -> Json:
    """Link a memory to a related one. If the link exists, its weight is updated."""
    body = {"from": str(given.from_id), "to": str(given.to_id), **given_fields(given, "from_id", "to_id")}
    return (await backend.call("POST", "/v1/links", body=body)).body


@_tool("Review memories", scope="read", arguments=own_arguments.Reviews, result=own_results.ReviewList, repeats=True)
async def reviews(backend: Backend, given: own_arguments.Reviews) -> Json:
    """List memories that are due for review, most urgent first.

    To let a person practise, ask about one memory at a time, then call this tool with its `id` and `result`, which
    needs a key with the scope ingest. A passed review strengthens the memory.
    """
    recorded = None
    if (given.id is None) != (given.result is None):
        missing = "id" if given.id is None else "result"
        raise ToolFailure(f"A request field is invalid: {missing} is missing: give `id` and `result` together")
    if given.id is not None:
        body = {"result": given.result}
        recorded = (await backend.call("POST", f"/v1/reviews/{given.id}", body=body)).body
    listed = await backend.call("GET", "/v1/reviews", params=given_fields(given, "id", "result"))
    return listed.body | {"recorded": recorded}


@_tool("Count memories", scope="read", arguments=own_arguments.Stats, result=own_results.Counted, reads=True)
async def stats(backend: Backend, _: own_arguments.Stats) -> Json:
    """Return the number of memories by tier, pending work, and storage use."""
    return (await backend.call("GET", "/v1/stats")).body
