"""Tools of the mnemex set that store, find, use and relate memories."""

from __future__ import annotations

from typing import Any, Final

from app.domain.dynamics import mnemex
from app.domain.salience import entities
from app.domain.text import content_class
from app.mcp.backend import Backend, Json, Params, ToolFailure, memory_path, read_pages
from app.mcp.mnemex import mnemex_arguments, mnemex_reading, mnemex_results
from app.mcp.mnemex.mnemex_arguments import SearchMemory, SearchUnified
from app.mcp.tool import Tool, collect

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order of lists."""
WAIT: Final = {"prefer": "wait=5"}
LINKS_PAGE: Final = 1_000
LINK_PAGES_MAX: Final = 10
NO_METADATA: Final = (
    "Relations have no metadata here: leave `metadata` out, and say what matters in `relation_type` or in `meta` of "
    "one of the memories"
)
MISSING: Final = frozenset({404, 409})

_tool = collect(TOOLS)


@_tool("Save a memory", scope="ingest", arguments=mnemex_arguments.SaveMemory, result=mnemex_results.Saved)
async def save_memory(backend: Backend, given: mnemex_arguments.SaveMemory) -> Json:
    """Store a memory. It fades unless it is used; report its uses with `observe_memory_usage`."""
    found = () if given.entities else entities.entities(given.content, foreign=False)
    strength = given.strength
    if strength is None:
        strength = mnemex.CONTENT_MULTIPLIERS.get(content_class.topic(given.content) or "", 1.0)
    extra = {name: value for name, value in (("source", given.source), ("context", given.context)) if value}
    body = {
        "text": given.content,
        "tags": given.tags or (),
        "entities": given.entities or found,
        "metadata": (given.meta or {}) | extra,
        "multiplier": strength,
    }
    reply = await backend.call("POST", "/v1/memories", body=body, headers=WAIT)
    [memory_id] = reply.body["ids"]
    return {
        "success": True,
        "memory_id": memory_id,
        "message": "Memory saved" if reply.status == 200 else "Memory accepted; searches find it within seconds",
        "has_embedding": reply.status == 200,
        "enrichment_applied": given.strength is None or not given.entities,
        "auto_entities": len(found),
        "calculated_strength": strength,
    }


@_tool(
    "Search memories",
    scope="read",
    arguments=SearchMemory,
    result=mnemex_results.FoundMemories,
    reads=True,
)
async def search_memory(backend: Backend, given: SearchMemory) -> Json:
    """Search memories by words, and with `use_embeddings` by meaning. A search strengthens nothing."""
    mode = None if given.use_embeddings else "lexical"
    review_blend = None if given.include_review_candidates else 0.0
    found = await _find(backend, given, given.top_k, mode=mode, review_blend=review_blend)
    shown, about = mnemex_reading.select_page(found, given.page, given.page_size)
    results = [
        {
            "id": memory["id"],
            "content": mnemex_reading.shorten(memory["text"], given.preview_length),
            "tags": memory["tags"],
            "score": memory["score"],
            "similarity": similarity if given.use_embeddings else None,
            "use_count": memory["access_count"],
            "last_used": mnemex_reading.last_use(memory),
            "age_days": mnemex_reading.age_days(memory),
            "review_priority": memory["review"]["priority"],
        }
        for memory, similarity in shown
    ]
    return {"success": True, "count": len(results), "results": results, **about}


@_tool(
    "Search memories and notes",
    scope="read",
    arguments=SearchUnified,
    result=mnemex_results.UnifiedFound,
    reads=True,
)
async def search_unified(backend: Backend, given: SearchUnified) -> Json:
    """Search all memories. The score of each is multiplied by the weight for promoted memories or for all others."""
    found = await _find(backend, given, given.limit)
    hits = []
    for memory, similarity in found:
        promoted = memory["promoted"]
        weight = given.ltm_weight if promoted else given.stm_weight
        hits.append(
            {
                "content": mnemex_reading.shorten(memory["text"], given.preview_length),
                "title": memory["text"].partition("\n")[0][:80] if promoted else f"Memory {memory['id'][-8:]}",
                "source": "ltm" if promoted else "stm",
                "score": weight * (similarity if similarity is not None else memory["score"] or 0.0),
                "path": promoted and promoted["note"],
                "memory_id": memory["id"],
                "tags": memory["tags"],
                "created_at": mnemex_reading.seconds(memory["created_at"]),
                "last_used": mnemex_reading.last_use(memory),
            }
        )
    hits.sort(key=lambda hit: -hit["score"])
    shown, about = mnemex_reading.select_page(hits, given.page, given.page_size)
    return {"success": True, "count": len(shown), "results": shown, **about}


async def _find(
    backend: Backend, given: SearchMemory | SearchUnified, limit: int, **options: object
) -> list[tuple[Json, float | None]]:
    """Return memories with their search scores, best first; without a query, the newest first, with None as the score.

    Without a query, only the newest 500 memories (of each tag) are considered. If a page is requested, the best 100
    memories are returned. Several tags are searched one by one, because a search returns only memories with all tags;
    the results are merged by rank.
    """
    most = limit if given.page is None and given.page_size is None else mnemex_reading.FOUND_MAX
    named = [given.status] if isinstance(given.status, str) else given.status or ["active", "promoted"]
    tiers, promoted = mnemex_reading.select_states(named)
    after = mnemex_reading.window_start(given.window_days)
    ranked: dict[str, tuple[int, float | None]] = {}
    memories: dict[str, Json] = {}
    for tag in dict.fromkeys(given.tags or ()) or [None]:
        if given.query is None:
            params = {"after": after, "tag": tag, "tier": tiers[0] if len(tiers) == 1 else None}
            params["promoted"] = None if promoted is None else str(promoted).lower()
            sent: Params = {name: value for name, value in params.items() if value is not None}
            path: Params = {**sent, "limit": mnemex_reading.LISTED_MAX}
            listed = (await backend.call("GET", "/v1/memories", params=path)).body["memories"]
            memories |= {memory["id"]: memory for memory in listed}
            hits = [{"id": memory["id"], "score": None} for memory in listed]
        else:
            tags = [] if tag is None else [tag]
            body = {"query": given.query, "limit": most, "tags": tags, "after": after, "promoted": promoted}
            body |= {"tiers": tiers, "reinforce": False, **options}
            body = {name: value for name, value in body.items() if value is not None}
            hits = (await backend.call("POST", "/v1/search", body=body)).body["results"]
        for rank, hit in enumerate(hits):
            if hit["id"] not in ranked or rank < ranked[hit["id"]][0]:
                ranked[hit["id"]] = (rank, hit["score"])
    if given.query is None:
        order = sorted(memories, key=lambda memory_id: memories[memory_id]["created_at"], reverse=True)
    else:
        order = sorted(ranked, key=lambda memory_id: ranked[memory_id][0])
        memories = await mnemex_reading.fetch(backend, order[: mnemex_reading.LISTED_MAX])
    least = given.min_score
    return [
        (memories[memory_id], ranked[memory_id][1])
        for memory_id in order
        if memory_id in memories
        and mnemex_reading.status_of(memories[memory_id]) in named
        and (least is None or (memories[memory_id]["score"] or 0.0) >= least)
    ][:most]


@_tool("Strengthen a memory", scope="ingest", arguments=mnemex_arguments.TouchMemory, result=mnemex_results.Touched)
async def touch_memory(backend: Backend, given: mnemex_arguments.TouchMemory) -> Json:
    """Record a use of a memory now, and return its score before and after."""
    try:
        done = await _touch(backend, str(given.memory_id), {"boost": given.boost_strength})
    except ToolFailure as failure:
        return refusal(failure)
    return {
        "success": True,
        "memory_id": done["id"],
        "old_score": done["score"]["before"],
        "new_score": done["score"]["after"],
        "use_count": done["access_count"],
        "strength": done["multiplier"],
        "message": "Memory strengthened" if done["reinforced"] else f"Not strengthened: {done['why']}",
    }


async def _touch(backend: Backend, memory_id: str, body: Json) -> Json:
    return (await backend.call("POST", memory_path(memory_id, "/touch"), body=body)).body


def refusal(failure: ToolFailure) -> Json:
    """Return a failure as a result if something doesn't exist or isn't possible now; otherwise raise the failure."""
    if failure.status not in MISSING:
        raise failure
    return {"success": False, "message": str(failure)}


@_tool(
    "Report used memories",
    scope="ingest",
    also=("read",),
    arguments=mnemex_arguments.ObserveUsage,
    result=mnemex_results.Observed,
)
async def observe_memory_usage(backend: Backend, given: mnemex_arguments.ObserveUsage) -> Json:
    """Report the memories that an answer used: each becomes stronger, more if `context_tags` differ from its tags."""
    wanted = list(dict.fromkeys(map(str, given.memory_ids)))
    if not wanted:
        return {"reinforced": False, "count": 0, "reason": "no ids were given"}
    before = await mnemex_reading.fetch(backend, wanted)
    touched = {
        memory_id: await _touch(backend, memory_id, {"context_tags": given.context_tags or ()})
        for memory_id in wanted
        if memory_id in before
    }
    if not touched:
        return {"reinforced": False, "count": 0, "reason": "no memory has one of these ids"}
    after = await mnemex_reading.fetch(backend, list(touched))
    results = []
    for memory_id in wanted:
        if memory_id not in touched or memory_id not in after:
            results.append({"id": memory_id, "status": "not_found"})
            continue
        memory = after[memory_id]
        crossed = memory["cross_domain_count"] > before[memory_id]["cross_domain_count"]
        results.append(
            {
                "id": memory_id,
                "status": touched[memory_id].get("why", "reinforced"),
                "cross_domain": crossed,
                "new_use_count": memory["access_count"],
                "new_review_count": memory["review"]["review_count"],
                "strength": memory["multiplier"],
            }
        )
    crossings = sum(bool(result.get("cross_domain")) for result in results)
    return {"reinforced": True, "count": len(touched), "cross_domain_count": crossings, "results": results}


@_tool(
    "Relate two memories",
    scope="ingest",
    also=("read",),
    arguments=mnemex_arguments.CreateRelation,
    result=mnemex_results.Related,
    repeats=True,
)
async def create_relation(backend: Backend, given: mnemex_arguments.CreateRelation) -> Json:
    """Relate a memory to another one. An existing relation remains as it is."""
    if given.metadata:
        return {"success": False, "message": NO_METADATA}
    ends = {"from": str(given.from_memory_id), "to": str(given.to_memory_id)}
    known = mnemex_reading.relation_id(ends["from"], ends["to"], given.relation_type)
    body = {**ends, "kind": given.relation_type, "weight": given.strength}
    try:
        found = await backend.call("GET", "/v1/links", params={**ends, "kind": given.relation_type})
        if found.body["links"]:
            return {"success": False, "message": "The relation exists", "existing_relation_id": known}
        await backend.call("POST", "/v1/links", body=body)
    except ToolFailure as failure:
        return refusal(failure)
    about = {"relation_id": known, "type": given.relation_type, "strength": given.strength}
    return {"success": True, **ends, **about, "message": "Relation created"}


@_tool(
    "Open memories",
    scope="read",
    arguments=mnemex_arguments.OpenMemories,
    result=mnemex_results.Opened,
    reads=True,
)
async def open_memories(backend: Backend, given: mnemex_arguments.OpenMemories) -> Json:
    """Return memories by their ids, with their relations."""
    ids = given.memory_ids if isinstance(given.memory_ids, list) else [given.memory_ids]
    wanted, about = mnemex_reading.select_page(list(dict.fromkeys(map(str, ids))), given.page, given.page_size)
    found = await mnemex_reading.fetch(backend, wanted)
    memories = [
        mnemex_reading.render_fully(found[memory_id], with_score=given.include_scores)
        for memory_id in wanted
        if memory_id in found
    ]
    if given.include_relations:
        for shown in memories:
            links = (await backend.call("GET", "/v1/links", params={"memory": shown["id"]})).body["links"]
            shown["relations"] = mnemex_reading.render_ends(links, shown["id"])
    missing = [memory_id for memory_id in wanted if memory_id not in found]
    return {"success": True, "count": len(memories), "memories": memories, "not_found": missing, **about}


@_tool(
    "Read the graph of memories",
    scope="read",
    arguments=mnemex_arguments.ReadGraph,
    result=mnemex_results.Graph,
    reads=True,
)
async def read_graph(backend: Backend, given: mnemex_arguments.ReadGraph) -> Json:
    """Return the newest memories of a state, and the relations between them."""
    named = ["active", "archived", "promoted"] if given.status == "all" else [given.status]
    tiers, promoted = mnemex_reading.select_states(named)
    params: dict[str, str | int] = {"limit": given.limit or mnemex_reading.LISTED_MAX}
    params |= {"tier": tiers[0]} if len(tiers) == 1 else {}
    params |= {} if promoted is None else {"promoted": str(promoted).lower()}
    listed = (await backend.call("GET", "/v1/memories", params=params)).body["memories"]
    found = [memory for memory in listed if memory["tier"] in tiers]
    ids = {memory["id"] for memory in found}
    links, is_complete = await read_pages(backend, "/v1/links", "links", LINK_PAGES_MAX, limit=LINKS_PAGE)
    relations = [mnemex_reading.render_relation(link) for link in links if {link["from"], link["to"]} <= ids]
    count = len(found) or 1
    stats = {
        "total_memories": len(found),
        "total_relations": len(relations),
        "avg_score": sum(memory["score"] or 0.0 for memory in found) / count,
        "avg_use_count": sum(memory["access_count"] for memory in found) / count,
        "status_filter": given.status,
        "relations_complete": is_complete,
    }
    shown, about = mnemex_reading.select_page(found, given.page, given.page_size)
    memories = [mnemex_reading.render(memory, with_score=given.include_scores) for memory in shown]
    return {"success": True, "memories": memories, "relations": relations, "stats": stats, **about}
