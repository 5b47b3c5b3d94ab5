"""Write an erasure's plan, and count the data that all passes over the plan have removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.services.erasure.steps import StepCount
from app.services.erasure.tenant_steps import steps_for
from app.store.erasure.requests import Erasure


def write_plan(found: Mapping[str, StepCount], previous: Erasure) -> list[dict[str, Any]]:
    """Return an erasure's plan in the form that is stored and reported: the work found for each step.

    Counts include the data that earlier passes removed; a step's field `earlier` is the number removed by them.

    Args:
        found: The work found now, by step.
        previous: The erasure with the plan to be replaced and the executed steps of that plan.
    """
    planned = {step["step"]: step for step in previous.plan or ()}
    executed = {step["step"]: step for step in previous.executed}
    steps, plan = steps_for(previous), []
    for name, step in found.items():
        earlier_entry = planned.get(name, {})
        executed_step = executed.get(name, {"removed": earlier_entry.get("earlier", 0)})
        entry: dict[str, Any] = {"step": name, "store": steps[name].store, "method": steps[name].method}
        # Data that an unfinished pass found and removed is counted in that pass's plan but in no executed step.
        entry["found"] = max(earlier_entry.get("found", 0), executed_step["removed"] + step.count)
        entry |= step.more
        if segments := {*earlier_entry.get("segments", ()), *step.more.get("segments", ())}:
            # A nightly run rewrites all segments of all passes; several passes may touch the same segment.
            entry |= {"found": len(segments), "segments": sorted(segments)}
        if "tables" in step.more:
            earlier_tables = earlier_entry.get("tables", {})
            removed_tables = executed_step.get("tables", earlier_tables if name in executed else {})
            entry["tables"] = {
                table: max(earlier_tables.get(table, 0), removed_tables.get(table, 0) + count)
                for table, count in step.more["tables"].items()
            }
        if kinds := earlier_entry.get("kinds", {}) | step.more.get("kinds", {}):
            earlier_kinds = earlier_entry.get("kinds", {})
            removed_kinds = earlier_kinds if name in executed else {}
            now = step.more.get("kinds", {})
            entry["kinds"] = {
                kind: max(earlier_kinds.get(kind, 0), removed_kinds.get(kind, 0) + now.get(kind, 0)) for kind in kinds
            }
        if executed_step["removed"]:
            entry["earlier"] = executed_step["removed"]
        plan.append(entry)
    return plan


def total_removed(
    erasure: Erasure, left: Mapping[str, StepCount], tables_left: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the executed steps with the totals removed by all passes, including workers that crashed.

    Data that a plan found and that no longer exists counts as removed, even if a worker crashed before counting it.

    Args:
        left: The work that verification finds, by step.
        tables_left: Number of remaining rows of the erasure's memories, by table, including memories under legal hold.
    """
    planned = {step["step"]: step for step in erasure.plan or ()}
    executed = []
    for step in erasure.executed:
        plan_entry, remaining = planned[step["step"]], left[step["step"]]
        totals = {
            **step,
            "removed": max(step["removed"], plan_entry["found"] - remaining.count - remaining.retained),
        }
        if "tables" in plan_entry:
            # Tables are already counted if a worker crashed between the end of a pass and the plan of the next pass.
            counted_tables = step.get("tables", {})
            tables = {
                table: max(counted_tables.get(table, 0), count - tables_left.get(table, 0))
                for table, count in plan_entry["tables"].items()
            }
            totals |= {"removed": max(step["removed"], tables["memories"]), "tables": tables}
        executed.append(totals)
    return executed
