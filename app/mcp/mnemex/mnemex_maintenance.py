"""Tools of the mnemex set that merge, promote and remove memories, by jobs of the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid5

from app.domain.formatting import count_memories, count_of
from app.mcp.backend import Backend, Json, ToolFailure, memory_path
from app.mcp.mnemex import mnemex_arguments, mnemex_reading, mnemex_results
from app.mcp.mnemex.mnemex_memories import refusal
from app.mcp.tool import Tool, collect

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order of lists."""
GROUPS_MAX: Final = 1_000
GROUPS_SHOWN: Final = 100
DUPLICATES_FROM: Final = 0.88
"""Cohesion from which the memories of a group count as duplicates, unless a call gives another."""
RELATED: Final = "related"
_GROUPS: Final = UUID("0c8b6d0e-58a4-5d0b-8c55-2f6b9a7a3f51")

_tool = collect(TOOLS)


@_tool(
    "Find groups of similar memories",
    scope="maintain",
    also=("read",),
    arguments=mnemex_arguments.ClusterMemories,
    result=mnemex_results.Clusters,
    reads=True,
)
async def cluster_memories(backend: Backend, given: mnemex_arguments.ClusterMemories) -> Json:
    """Return the groups of similar memories that a consolidation would merge or link, up to 100.

    With `find_duplicates`, return pairs of duplicates instead.
    """
    least = given.threshold
    if given.find_duplicates:
        least = DUPLICATES_FROM if given.duplicate_threshold is None else given.duplicate_threshold
    chosen = [
        group
        for group in await _groups(backend)
        if (least is None or group["cohesion"] >= least)
        and (given.max_cluster_size is None or group["size"] <= given.max_cluster_size)
    ]
    if not given.find_duplicates:
        return {
            "success": True,
            "mode": "clustering",
            "strategy": given.strategy,
            "threshold": given.threshold,
            "clusters_found": len(chosen),
            "clusters": await _with_previews(backend, chosen[:GROUPS_SHOWN]),
            "message": f"{count_of(len(chosen), 'group', 'groups')} of similar memories",
        }
    pairs = [
        {
            "id1": group["memory_ids"][0],
            "id2": other,
            "content1_preview": group["content_previews"][0],
            "content2_preview": preview,
            "similarity": group["cohesion"],
        }
        for group in await _with_previews(backend, chosen[:GROUPS_SHOWN])
        for other, preview in zip(group["memory_ids"][1:], group["content_previews"][1:], strict=True)
    ]
    message = f"{count_of(len(pairs), 'pair', 'pairs')} of duplicates"
    return {
        "success": True,
        "mode": "duplicate_detection",
        "duplicates_found": len(pairs),
        "duplicates": pairs,
        "message": message,
    }


async def _groups(backend: Backend) -> list[Json]:
    body = {"dry_run": True, "limit": GROUPS_MAX}
    found = (await backend.call("POST", "/v1/maintenance/consolidate", body=body)).body
    return [
        {
            "id": str(uuid5(_GROUPS, " ".join(sorted(group["memories"])))),
            "size": len(group["memories"]),
            "cohesion": group["cohesion"],
            "suggested_action": group["action"],
            "reason": group["why"],
            "memory_ids": group["memories"],
        }
        for group in found["changes"]
    ]


async def _with_previews(backend: Backend, groups: list[Json]) -> list[Json]:
    """Return groups with the beginnings of their texts; empty for memories beyond the first 500."""
    ids = [memory_id for group in groups for memory_id in group["memory_ids"]]
    found = await mnemex_reading.fetch(backend, ids[: mnemex_reading.LISTED_MAX])
    previews = {
        memory_id: mnemex_reading.shorten(memory["text"], mnemex_reading.PREVIEW) for memory_id, memory in found.items()
    }
    return [
        {**group, "content_previews": [previews.get(memory_id, "") for memory_id in group["memory_ids"]]}
        for group in groups
    ]


@_tool(
    "Consolidate memories",
    scope="maintain",
    also=("read",),
    arguments=mnemex_arguments.ConsolidateMemories,
    result=mnemex_results.Consolidated,
    repeats=True,
)
async def consolidate_memories(backend: Backend, given: mnemex_arguments.ConsolidateMemories) -> Json:
    """Preview the merging of similar memories, start it, or link the memories instead (scope ingest).

    `apply` starts the consolidation that also runs at night: it merges every group, waits for approval where the policy
    demands it, and can be undone. A single group can only be previewed or linked.
    """
    if not given.auto_detect and given.cluster_id is None:
        return _refused("`cluster_id` is missing", "Give the id of a group, or auto_detect=true for all groups")
    groups = [group for group in await _groups(backend) if group["cohesion"] >= given.cohesion_threshold]
    prefix = "auto_detect_" if given.auto_detect else ""
    if not given.auto_detect:
        groups = [group for group in groups if group["id"] == str(given.cluster_id)]
        if not groups:
            return _refused("No group has this id and cohesion", "See `cluster_memories`, or lower the threshold")
    done = {"success": True, "mode": f"{prefix}{given.mode}"}
    if given.mode == "link":
        return done | await _link(backend, groups)
    if given.mode == "apply":
        if not given.auto_detect:
            return _refused("Only all groups can be merged", "Give auto_detect=true, or mode=link for one group")
        return done | await _merge(backend, groups)
    shown = await _with_previews(backend, groups[:GROUPS_SHOWN])
    message = f"{count_of(len(groups), 'group', 'groups')} to consolidate"
    return done | {"candidates_found": len(groups), "showing": len(shown), "previews": shown, "message": message}


def _refused(error: str, hint: str) -> Json:
    return {"success": False, "error": error, "hint": hint}


async def _merge(backend: Backend, groups: list[Json]) -> Json:
    """Start the job that merges all groups."""
    job = (await backend.call("POST", "/v1/maintenance/consolidate", body={})).body
    saved = sum(group["size"] - 1 for group in groups)
    message = "The consolidation has started; the counts are those of its preview"
    return {
        "consolidated_clusters": len(groups),
        "total_memories_saved": saved,
        "job_id": job["job_id"],
        "message": message,
    }


async def _link(backend: Backend, groups: list[Json]) -> Json:
    """Link the first memory of each group with the group's other memories, in one request."""
    links = [
        {"from": group["memory_ids"][0], "to": other, "kind": RELATED, "weight": group["cohesion"]}
        for group in groups
        for other in group["memory_ids"][1:]
    ]
    added = (await backend.call("POST", "/v1/links", body=links[:GROUPS_MAX])).body["added"] if links else 0
    results = [
        {
            "success": True,
            "cluster_id": group["id"],
            "cluster_size": group["size"],
            "cohesion": group["cohesion"],
            "pairs_linked": group["size"] - 1,
            "memory_ids": group["memory_ids"],
        }
        for group in groups
    ]
    message = f"{count_of(added, 'new relation', 'new relations')}"
    return {
        "linked_clusters": len(groups),
        "total_relations_created": added,
        "results": results,
        "message": message,
    }


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
        shown = _promoted([], "", dry_run=given.dry_run)
        return shown | {"success": False, "message": "Give either `memory_id` or auto_detect=true"}
    if given.memory_id is not None:
        return await _promote_one(backend, given, str(given.memory_id))
    preview = {"dry_run": True, "limit": GROUPS_MAX}
    changes = (await backend.call("POST", "/v1/maintenance/promote", body=preview)).body["changes"]
    ids = [change["id"] for change in changes]
    memories = await mnemex_reading.fetch(backend, ids[:GROUPS_SHOWN])
    candidates = [
        mnemex_reading.candidate(memories[change["id"]], change["why"])
        for change in changes
        if change["id"] in memories
    ]
    if given.dry_run:
        message = f"{count_memories(len(ids))} would be promoted"
        return _promoted(ids, message, candidates, dry_run=True) | {"promoted_count": 0, "promoted_ids": []}
    job = (await backend.call("POST", "/v1/maintenance/promote", body={})).body
    return _promoted(ids, "The promotion has started", candidates, dry_run=False) | {"job_id": job["job_id"]}


async def _promote_one(backend: Backend, given: mnemex_arguments.PromoteMemory, memory_id: str) -> Json:
    try:
        if given.dry_run:
            memory = (await backend.call("GET", memory_path(memory_id))).body
            state = "is promoted already" if memory["promoted"] else f"has score {memory['score']}"
            message = f"The memory {state} and {count_of(memory['access_count'], 'use', 'uses')}"
            shown = [mnemex_reading.candidate(memory, message)]
            return _promoted([memory_id], message, shown, dry_run=True) | {"promoted_count": 0, "promoted_ids": []}
        body = {"force": given.force}
        promoted = (await backend.call("POST", memory_path(memory_id, "/promote"), body=body)).body
    except ToolFailure as failure:
        return _promoted([], "", dry_run=given.dry_run) | refusal(failure)
    return _promoted([promoted["id"]], "Memory promoted", dry_run=False)


def _promoted(ids: list[str], message: str, candidates: Sequence[Json] = (), *, dry_run: bool) -> Json:
    return {
        "success": True,
        "message": message,
        "dry_run": dry_run,
        "candidates_found": len(ids),
        "promoted_count": len(ids),
        "promoted_ids": ids,
        "candidates": candidates,
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
    for name, (is_given, hint) in {
        "model": (given.model is not None, "The service embeds with the model of its settings: change it there"),
        "limit": (given.limit is not None, "The job takes all memories, in parts, and can be cancelled: leave it out"),
        "force": (given.force, "Vectors of the configured model are up to date: choose another model in the settings"),
    }.items():
        if is_given:
            return _refused(f"`{name}` can't be chosen in a call", hint)
    preview = (await backend.call("POST", "/v1/maintenance/reembed", body={"dry_run": True})).body
    count = preview["counts"]["memories"]
    shown = {"success": True, "dry_run": given.dry_run, "memories": count}
    if given.dry_run or not count:
        return shown | {"message": f"{count_memories(count)} without a vector of the configured model"}
    job = (await backend.call("POST", "/v1/maintenance/reembed", body={})).body
    return shown | {"job_id": job["job_id"], "message": "The job has started"}
