"""Tools of the mnemex set that merge, promote and remove memories, by jobs of the service."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from app.domain.formatting import count_memories, count_of
from app.mcp.backend import Backend, Json, ToolFailure, memory_path
from app.mcp.mnemex import mnemex_arguments, mnemex_reading, mnemex_results
from app.mcp.mnemex.mnemex_memories import refusal
from app.mcp.tool import Tool, collect

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order of lists."""
GROUPS_MAX: Final = 1_000
RELATED: Final = "related"

_tool = collect(TOOLS)


@_tool(
    "Find groups of similar memories",
    scope="maintain",
    arguments=mnemex_arguments.ClusterMemories,
    result=mnemex_results.Clusters,
    reads=True,
)
async def cluster_memories(backend: Backend, given: mnemex_arguments.ClusterMemories) -> Json:
    """Return the groups of similar memories that a consolidation would merge or link, with the reason for each."""
    groups = await _groups(backend)
    least = given.duplicate_threshold if given.find_duplicates else given.threshold
    chosen = [
        group
        for group in groups
        if (least is None or group["cohesion"] >= least)
        and (given.max_cluster_size is None or len(group["memory_ids"]) <= given.max_cluster_size)
        and (not given.find_duplicates or group["action"] == "duplicates")
    ]
    return {"success": True, "clusters_found": len(chosen), "clusters": chosen}


async def _groups(backend: Backend) -> list[Json]:
    body = {"dry_run": True, "limit": GROUPS_MAX}
    found = (await backend.call("POST", "/v1/maintenance/consolidate", body=body)).body
    return [
        {
            "id": sha256(" ".join(sorted(group["memories"])).encode()).hexdigest()[:16],
            "memory_ids": group["memories"],
            "cohesion": group["cohesion"],
            "action": group["action"],
            "reason": group["why"],
        }
        for group in found["changes"]
    ]


@_tool(
    "Consolidate memories",
    scope="maintain",
    arguments=mnemex_arguments.ConsolidateMemories,
    result=mnemex_results.Clusters,
    repeats=True,
)
async def consolidate_memories(backend: Backend, given: mnemex_arguments.ConsolidateMemories) -> Json:
    """Preview, start or replace by links the merging of similar memories.

    `apply` starts the consolidation that also runs at night: it merges every group, waits for approval where the policy
    demands it, and can be undone. A single group can only be previewed or linked.
    """
    groups = [group for group in await _groups(backend) if group["cohesion"] >= given.cohesion_threshold]
    if not given.auto_detect:
        groups = [group for group in groups if group["id"] == given.cluster_id]
        if not groups:
            return {"success": False, "message": "No such group: see `cluster_memories`"} | _clusters(groups)
    shown = {"success": True, "mode": given.mode} | _clusters(groups)
    if given.mode == "link":
        return shown | {"relations_created": await _link(backend, groups)}
    if given.mode == "apply":
        if not given.auto_detect:
            return shown | {"success": False, "message": "Only all groups can be merged: give auto_detect=true"}
        job = (await backend.call("POST", "/v1/maintenance/consolidate", body={})).body
        return shown | {"job_id": job["job_id"], "message": "The consolidation has started"}
    return shown


def _clusters(groups: list[Json]) -> Json:
    return {"clusters_found": len(groups), "clusters": groups}


async def _link(backend: Backend, groups: list[Json]) -> int:
    """Link the first memory of each group with its others, and return the number of new links."""
    links = [
        {"from": group["memory_ids"][0], "to": other, "kind": RELATED, "weight": group["cohesion"]}
        for group in groups
        for other in group["memory_ids"][1:]
    ]
    if not links:
        return 0
    added: int = (await backend.call("POST", "/v1/links", body=links[:GROUPS_MAX])).body["added"]
    return added


@_tool(
    "Promote memories",
    scope="ingest",
    arguments=mnemex_arguments.PromoteMemory,
    result=mnemex_results.Promoted,
    repeats=True,
)
async def promote_memory(backend: Backend, given: mnemex_arguments.PromoteMemory) -> Json:
    """Promote a memory that is used often, or with `auto_detect` all that meet the criteria (scope maintain).

    A promoted memory gets a note if the service has a folder for notes, and the policy can keep it from fading.
    """
    if (given.memory_id is None) != given.auto_detect:
        raise ToolFailure("A request field is invalid: give either `memory_id` or auto_detect=true", 422)
    if given.memory_id is not None:
        return await _promote_one(backend, given, str(given.memory_id))
    preview = {"dry_run": True, "limit": GROUPS_MAX}
    changes = (await backend.call("POST", "/v1/maintenance/promote", body=preview)).body["changes"]
    ids = [change["id"] for change in changes]
    if given.dry_run:
        return _promoted(ids, f"{count_memories(len(ids))} would be promoted", dry_run=True)
    job = (await backend.call("POST", "/v1/maintenance/promote", body={})).body
    return _promoted(ids, "The promotion has started", dry_run=False) | {"job_id": job["job_id"]}


async def _promote_one(backend: Backend, given: mnemex_arguments.PromoteMemory, memory_id: str) -> Json:
    try:
        if given.dry_run:
            memory = (await backend.call("GET", memory_path(memory_id))).body
            state = "is promoted already" if memory["promoted"] else f"has score {memory['score']}"
            message = f"The memory {state} and {count_of(memory['access_count'], 'use', 'uses')}"
            return _promoted([], message, dry_run=True)
        body = {"force": given.force}
        promoted = (await backend.call("POST", memory_path(memory_id, "/promote"), body=body)).body
    except ToolFailure as failure:
        return _promoted([], "", dry_run=given.dry_run) | refusal(failure)
    return _promoted([promoted["id"]], "Memory promoted", dry_run=False)


def _promoted(ids: list[str], message: str, *, dry_run: bool) -> Json:
    return {
        "success": True,
        "message": message,
        "dry_run": dry_run,
        "promoted_count": len(ids),
        "promoted_ids": ids,
    }


@_tool(
    "Remove forgotten memories",
    scope="maintain",
    also=("read",),
    arguments=mnemex_arguments.Gc,
    result=mnemex_results.Collected,
    destroys=True,
    repeats=True,
)
async def gc(backend: Backend, given: mnemex_arguments.Gc) -> Json:
    """List the memories that meet the policy's conditions of deletion. With dry_run=false, start their deletion.

    With `archive_instead`, faded memories move to the archive, from which a use brings them back.
    """
    path = f"/v1/maintenance/{'archive' if given.archive_instead else 'delete'}"
    preview = {"dry_run": True, "limit": given.limit or 100}
    ids = [change["id"] for change in (await backend.call("POST", path, body=preview)).body["changes"]]
    scores = await mnemex_reading.fetch(backend, ids[: mnemex_reading.LISTED_MAX])
    shown = {
        "success": True,
        "dry_run": given.dry_run,
        "removed_count": 0 if given.archive_instead else len(ids),
        "archived_count": len(ids) if given.archive_instead else 0,
        "freed_score_sum": sum(memory["score"] or 0.0 for memory in scores.values()),
        "memory_ids": ids,
        "total_affected": len(ids),
    }
    if given.dry_run:
        return shown | {"message": f"Would affect {count_memories(len(ids))}. Call again with dry_run=false."}
    job = (await backend.call("POST", path, body={})).body
    return shown | {"job_id": job["job_id"], "message": "The job has started; it takes all memories that are due"}


@_tool(
    "Embed memories again",
    scope="maintain",
    arguments=mnemex_arguments.Backfill,
    result=mnemex_results.Backfilled,
    repeats=True,
)
async def backfill_embeddings(backend: Backend, given: mnemex_arguments.Backfill) -> Json:
    """Move memories to the configured embedding model, or only count those that lack its vectors."""
    preview = (await backend.call("POST", "/v1/maintenance/reembed", body={"dry_run": True})).body
    count = preview["counts"]["memories"]
    shown = {"success": True, "dry_run": given.dry_run, "memories": count}
    if given.dry_run or not count:
        return shown | {"message": f"{count_memories(count)} without a vector of the configured model"}
    job = (await backend.call("POST", "/v1/maintenance/reembed", body={})).body
    return shown | {"job_id": job["job_id"], "message": "The job has started"}
