"""Tools of the mnemex set that judge a message of a conversation, and those that measure the tools."""

from __future__ import annotations

from typing import Any, Final

from app.domain.dynamics import mnemex
from app.domain.formatting import count_memories
from app.domain.recall.conversation_features import is_question
from app.domain.recall.knowledge import knowledge
from app.domain.salience import entities
from app.domain.text import content_class
from app.mcp import tool_timings
from app.mcp.backend import Backend, Json
from app.mcp.mnemex import mnemex_arguments, mnemex_results
from app.mcp.tool import Tool, collect

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order of lists."""
LASTING: Final = frozenset({"correction", "instruction"})
SAVED_FROM: Final = 0.5
"""Confidence from which a message should be stored."""
PLAIN: Final = 0.6
"""Confidence in a statement without a topic; small talk has a tenth of it."""

_tool = collect(TOOLS)


@_tool(
    "Judge whether to save",
    scope="read",
    arguments=mnemex_arguments.OneMessage,
    result=mnemex_results.SaveAdvice,
    reads=True,
)
async def analyze_message(_: Backend, given: mnemex_arguments.OneMessage) -> Json:
    """Judge by rules whether a message contains something to store, and how strong the memory should be."""
    topic, kind = content_class.topic(given.message), content_class.importance_class(given.message, None)
    named = topic is not None or kind in LASTING
    confidence = knowledge(given.message) * (1.0 if named else PLAIN * (0.1 if kind == "routine" else 1.0))
    reasons = [f"topic {topic}"] * (topic is not None) + [f"{kind}"] * (kind != "normal")
    return {
        "should_save": confidence >= SAVED_FROM,
        "confidence": round(confidence, 3),
        "suggested_entities": list(entities.entities(given.message, foreign=False)),
        "suggested_tags": [topic] if topic else [],
        "suggested_strength": mnemex.CONTENT_MULTIPLIERS.get(topic or "", 1.0),
        "reasoning": ", ".join(reasons) or ("question" if is_question(given.message) else "plain statement"),
        "phrase_signals": {"topic": topic, "class": kind, "question": is_question(given.message)},
    }


@_tool(
    "Judge whether to search",
    scope="read",
    arguments=mnemex_arguments.OneMessage,
    result=mnemex_results.RecallAdvice,
    reads=True,
)
async def analyze_for_recall(backend: Backend, given: mnemex_arguments.OneMessage) -> Json:
    """Judge whether stored memories matter for a message: by a recall, whose best relevance is the confidence."""
    memories = await _recall(backend, given.message)
    tags = {tag: None for memory in memories for tag in memory["tags"]}
    found = len(memories)
    return {
        "should_search": bool(memories),
        "confidence": memories[0]["relevance"] if memories else 0.0,
        "suggested_query": given.message,
        "suggested_tags": list(tags)[:10],
        "suggested_entities": list(entities.entities(given.message, foreign=False)),
        "reasoning": f"relevant memories: {found}",
        "phrase_signals": {"question": is_question(given.message), "relevant_memories": found},
    }


async def _recall(backend: Backend, message: str) -> list[Json]:
    memories: list[Json] = (await backend.call("POST", "/v1/recall", body={"messages": [message]})).body["memories"]
    return memories


@_tool(
    "Recall and strengthen",
    scope="ingest",
    also=("read",),
    arguments=mnemex_arguments.OneMessage,
    result=mnemex_results.AutoRecalled,
)
async def auto_recall_process_message(backend: Backend, given: mnemex_arguments.OneMessage) -> Json:
    """Recall the memories that matter for a message, and report all of them as used."""
    memories = await _recall(backend, given.message)
    if memories:
        await backend.call("POST", "/v1/observations", body={"ids": [memory["id"] for memory in memories]})
    shown = [{"id": one["id"], "content": one["text"], "relevance": one["relevance"]} for one in memories]
    return {
        "success": True,
        "enabled": True,
        "topics_found": list(entities.entities(given.message, foreign=False)),
        "memories_found": len(shown),
        "memories_reinforced": [one["id"] for one in shown],
        "mode": "explicit",
        "memories": shown,
        "message": f"{count_memories(len(shown))} recalled and reported as used",
    }


@_tool(
    "Measure the tools",
    scope="read",
    arguments=mnemex_arguments.NoArguments,
    result=dict[str, Any],
    reads=True,
)
async def get_performance_metrics(backend: Backend, _: mnemex_arguments.NoArguments) -> Json:
    """Return how often your tools were called and how long they took, in this server process."""
    timings = tool_timings.read(backend.owner)
    metrics = {
        name: {
            "count": timing.count,
            "avg_ms": timing.total * 1000 / timing.count,
            "min_ms": timing.shortest * 1000,
            "max_ms": timing.longest * 1000,
            "total_ms": timing.total * 1000,
        }
        for name, timing in timings.items()
    }
    return {**metrics, **{f"{name}_count": timing.count for name, timing in timings.items()}}


@_tool(
    "Reset the measurements",
    scope="read",
    arguments=mnemex_arguments.NoArguments,
    result=mnemex_results.Done,
    repeats=True,
)
async def reset_performance_metrics(backend: Backend, _: mnemex_arguments.NoArguments) -> Json:
    """Forget the measured durations of your tools in this server process."""
    return {"success": True, "message": f"Forgot {tool_timings.reset(backend.owner)} measurements"}
