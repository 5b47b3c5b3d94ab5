"""Write the plan of an erasure, and count the data that all passes over it have removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.services.erasure.steps import STEPS, StepCount
from app.store.erasure.requests import Erasure


def write_plan(found: Mapping[str, StepCount], previous: Erasure) -> list[dict[str, Any]]:
    """Return the plan of an erasure as it is stored and reported: the work found for each step.

    Counts include the data that earlier passes over the plan removed; `earlier` is their share of a step.

    Args:
        found: The work found now, by step.
        previous: The erasure with the plan that this one replaces, and the steps executed of it.
    """
    planned = {each["step"]: each for each in previous.plan or ()}
    executed = {each["step"]: each for each in previous.executed}
    plan = []
    for name, each in found.items():
        before = planned.get(name, {})
        done = executed.get(name, {"removed": before.get("earlier", 0)})
        entry: dict[str, Any] = {"step": name, "store": STEPS[name].store, "method": STEPS[name].method}
        # Data that an unfinished pass found and removed is counted in no executed step, but in its plan.
        entry["found"] = max(before.get("found", 0), done["removed"] + each.count)
        entry |= each.more
        if segments := {*before.get("segments", ()), *each.more.get("segments", ())}:
            # A nightly run rewrites all of them. Passes may touch the same one.
            entry |= {"found": len(segments), "segments": sorted(segments)}
        if "tables" in each.more:
            known = before.get("tables", {})
            removed = done.get("tables", known if name in executed else {})
            entry["tables"] = {
                table: max(known.get(table, 0), removed.get(table, 0) + count)
                for table, count in each.more["tables"].items()
            }
        if done["removed"]:
            entry["earlier"] = done["removed"]
        plan.append(entry)
    return plan


def total_removed(
    erasure: Erasure, left: Mapping[str, StepCount], tables_left: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the executed steps with all data removed so far, of every pass and also by workers that crashed.

    Data that a plan found and that is not there any more was removed, even if a worker crashed before it counted it.

    Args:
        left: The work that verification finds, by step.
        tables_left: Rows of the erasure's memories that remain, by table; those under a legal hold included.
    """
    planned = {each["step"]: each for each in erasure.plan or ()}
    executed = []
    for each in erasure.executed:
        found, now = planned[each["step"]], left[each["step"]]
        done = {**each, "removed": max(each["removed"], found["found"] - now.count - now.retained)}
        if "tables" in found:
            # Counted before, if a worker crashed between the end of a pass and the plan of the next one.
            known = each.get("tables", {})
            tables = {
                table: max(known.get(table, 0), count - tables_left.get(table, 0))
                for table, count in found["tables"].items()
            }
            done |= {"removed": max(each["removed"], tables["memories"]), "tables": tables}
        executed.append(done)
    return executed
