"""Checks of an installation in which two versions have worked: what is stored, counted, finished and erased."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from ops.upgrade.load import Book, Caller

SETTLE_SECONDS: Final = 300
POLL_SECONDS: Final = 1.0
READERS: Final = 4
PAGE: Final = 100
ERRORS: Final = frozenset({"error", "critical"})
JUDGED: Final = frozenset({"dead_letter", "erasure_residue", "job_failed"})
"""Errors in logs that other checks judge by their result."""

_OPEN_WORK: Final = """
SELECT (SELECT count(*) FROM tenant_work), (SELECT count(*) FROM jobs
  WHERE status IN ('queued', 'running') AND (not_before IS NULL OR not_before <= now()))
"""
# A nightly run continues an erasure whose job failed, so `check_erasure` decides.
_FAILED_JOBS: Final = """
SELECT kind, error, count(*) FROM jobs WHERE status = 'failed' AND kind <> 'erase' GROUP BY 1, 2
"""
_SUMMARY: Final = """
SELECT (SELECT count(*) FROM memories WHERE made_by = 'caller'),
  (SELECT count(*) FROM memories WHERE made_by <> 'caller'),
  (SELECT count(*) FROM jobs WHERE status = 'done'), (SELECT count(*) FROM erasures WHERE status = 'verified'),
  (SELECT count(*) FROM dead_letters)
"""
_SERIES: Final = re.compile(r"^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? ", re.IGNORECASE | re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="(?:[^"\\]|\\.)*"')


def metric_names(exposition: str) -> dict[str, frozenset[str]]:
    """Return the label names of each metric in Prometheus's text format."""
    return {found[1]: frozenset(_LABEL.findall(found[2] or "")) for found in _SERIES.finditer(exposition)}


def missing_metrics(old: str, new: str) -> list[str]:
    """Return a finding for each metric of the old version that the new one lacks or labels in another way."""
    here = metric_names(new)
    return [
        f"metric {name}: {'labelled ' + ', '.join(sorted(here[name])) if name in here else 'gone'}"
        for name, labels in metric_names(old).items()
        if here.get(name) != labels
    ]


def missing_routes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a finding for each route, parameter and body field in `old` that the OpenAPI description `new` lacks."""
    findings = []
    for path, methods in old["paths"].items():
        for method, described in methods.items():
            there = new["paths"].get(path, {}).get(method)
            if there is None:
                findings.append(f"route {method.upper()} {path}: gone")
                continue
            gone = {each["name"] for each in described.get("parameters", ())}
            gone -= {each["name"] for each in there.get("parameters", ())}
            findings += [f"route {method.upper()} {path}: no parameter {name}" for name in sorted(gone)]
    schemas = new["components"]["schemas"]
    for name, schema in old["components"]["schemas"].items():
        lost = set(schema.get("properties", {})) - set(schemas.get(name, {}).get("properties", {}))
        findings += [f"body {name}: no field {field}" for field in sorted(lost)]
    return findings


def check_answers(book: Book) -> list[str]:
    """Return the faults recorded by callers, each with its number."""
    return [f"{wrong} (×{number})" for wrong, number in Counter(book.wrong).items()]


def wait_until_settled(owner_url: str, callers: Iterable[Caller]) -> list[str]:
    """Wait until no memory and no job is pending. Return what is still pending after `SETTLE_SECONDS`."""
    deadline = time.monotonic() + SETTLE_SECONDS
    with psycopg.connect(owner_url, autocommit=True) as owner:
        while True:
            work, jobs = owner.execute(_OPEN_WORK).fetchone() or (0, 0)
            pending = {"memories": work, "jobs": jobs}
            for caller in callers:
                stats = caller.ask("stats", "GET", "/v1/stats").json()
                pending["memories"] += max(stats["pending"].values())
            if not any(pending.values()):
                return []
            if time.monotonic() > deadline:
                return [f"{number} {what} are still pending" for what, number in pending.items() if number]
            time.sleep(POLL_SECONDS)


def check_memories(owner_url: str, book: Book, erased: set[str], readers: Mapping[str, Caller]) -> list[str]:
    """Check that each accepted memory is stored exactly once, and that the API returns it unless it was deleted."""
    with psycopg.connect(owner_url) as owner:
        rows = owner.execute(
            "SELECT memory_id::text, metadata->>'code' FROM memories WHERE made_by = 'caller'"
        ).fetchall()
    stored = Counter(memory_id for memory_id, _ in rows)
    codes = Counter(code for _, code in rows if code is not None)  # what is in cold storage has none here
    wanted = book.texts.keys() - erased
    findings = []
    if lost := wanted - book.deleted - stored.keys():
        findings.append(f"{len(lost)} accepted memories aren't stored, such as {min(lost)}")
    if strange := stored.keys() - book.texts.keys():
        findings.append(f"{len(strange)} stored memories were never accepted")
    if twice := [code for code, number in codes.items() if number > 1]:
        findings.append(f"{len(twice)} memories are stored twice")
    if left := stored.keys() & erased:
        findings.append(f"{len(left)} memories of erased subjects are stored")

    shown = {memory_id: text for reader in readers.values() for memory_id, text in _list_memories(reader)}

    def read(memory_id: str) -> str | None:
        is_gone = memory_id in book.deleted or memory_id in erased
        if memory_id not in shown:  # the list leaves it out: what does its own route return?
            answer = readers[book.keys[memory_id]].ask("read", "GET", f"/v1/memories/{memory_id}", 404)
            if answer.is_success == is_gone:
                return "a deleted memory is returned" if is_gone else "an accepted memory isn't returned"
            shown[memory_id] = answer.json()["text"] if answer.is_success else ""
        elif is_gone:
            return "a deleted memory is listed"
        return None if is_gone or shown[memory_id] == book.texts[memory_id] else "a memory has another text"

    with ThreadPoolExecutor(READERS) as pool:
        wrong = Counter(found for found in pool.map(read, book.texts) if found)
    return findings + [f"{what}: {number} times" for what, number in wrong.items()]


class Departed(NamedTuple):
    """Accepted memories of a tenant that were deleted by a caller, and those of erased subjects."""

    deleted: set[str]
    erased: set[str]


def check_tenant(owner_url: str, tenant_id: str, accepted: set[str], departed: Departed, name: str) -> list[str]:
    """Check that a tenant's accepted memories are its stored, deleted and erased ones, and that no other has any."""
    with psycopg.connect(owner_url) as owner:
        rows = owner.execute(
            "SELECT memory_id::text, tenant_id::text FROM memories WHERE made_by = 'caller' AND memory_id = ANY (%s)",
            (sorted(accepted),),
        ).fetchall()
    stored = {memory_id for memory_id, holder in rows if holder == tenant_id}
    print(
        f"{name}: {len(accepted):,} accepted, {len(stored):,} stored, {len(departed.deleted - stored):,} deleted and "
        f"gone, {len(departed.erased - stored):,} erased",
        flush=True,
    )
    left = accepted - stored - departed.deleted - departed.erased
    found = [f"{name}: {len(left)} accepted memories are neither stored, deleted nor erased"] if left else []
    strange = len(rows) - len(stored)
    return found + ([f"{name}: {strange} memories are stored with another tenant"] if strange else [])


def _list_memories(reader: Caller) -> Iterator[tuple[str, str]]:
    """Yield ids and texts of the tenant's listed memories, page by page."""
    given: dict[str, str | int] = {"limit": PAGE}
    while True:
        page = reader.ask("list", "GET", "/v1/memories", params=given).json()
        yield from ((each["id"], each["text"]) for each in page["memories"])
        if not page["next_cursor"]:
            return
        given["cursor"] = page["next_cursor"]


def check_counts(owner_url: str, exposition: str, provoked: set[str]) -> list[str]:
    """Check that no nightly recount corrected a tenant's counts, no job failed, and all dead letters were provoked."""
    findings = []
    corrected = re.search(r"^ebbing_counts_corrected_total (\S+)", exposition, re.MULTILINE)
    if corrected is None or float(corrected[1]):
        findings.append(f"counts corrected by a recount: {corrected[1] if corrected else 'unknown'} tenants")
    with psycopg.connect(owner_url) as owner:
        failed = owner.execute(_FAILED_JOBS).fetchall()
        letters = owner.execute(
            "SELECT stage, reason, count(*) FROM dead_letters WHERE reason <> ALL (%s) GROUP BY 1, 2", (list(provoked),)
        ).fetchall()
    findings += [f"{number} jobs of kind {kind} failed: {error}" for kind, error, number in failed]
    findings += [f"{number} unprovoked dead letters of {stage}: {reason}" for stage, reason, number in letters]
    return findings


def summarise(owner_url: str) -> str:
    """Return the numbers of stored memories, finished jobs, erasures and dead letters."""
    with psycopg.connect(owner_url) as owner:
        counted = owner.execute(_SUMMARY).fetchone() or ()
    what = ("memories stored", "summaries stored", "jobs done", "erasures verified", "dead letters")
    return ", ".join(f"{number:,} {name}" for number, name in zip(counted, what, strict=True))


def check_audit(caller: Caller) -> list[str]:
    """Verify the tenant's audit chain through the API."""
    cursor = ""
    while True:
        given = {"cursor": cursor} if cursor else {}
        found = caller.ask("verify", "GET", "/v1/privacy/audit/verify", params=given).json()
        cursor = found["next_cursor"]
        if found["broken"] or (cursor is None and not found["well"]):
            return [f"audit chain: {found}"]
        if cursor is None:
            return []


def check_erasure(caller: Caller, erasure_id: str, subject: str) -> list[str]:
    """Check that an erasure is verified, that its final scan found nothing, and that the subject is unknown."""
    found = caller.ask("erasure", "GET", f"/v1/privacy/erasures/{erasure_id}").json()
    if found["status"] != "verified" and found["verified_at"] is None:
        return [f"erasure of {subject}: {found['status']}"]
    report = caller.ask("report", "GET", f"/v1/privacy/erasures/{erasure_id}/report").json()
    left = {store: number for store, number in report["left"].items() if number}
    listed = caller.ask("list", "GET", "/v1/memories", params={"subject": subject}).json()["memories"]
    findings = [f"erasure of {subject}: {store} has {number} rows left" for store, number in left.items()]
    return findings + ([f"erasure of {subject}: {len(listed)} memories are listed"] if listed else [])


def list_errors(logs: Path) -> Iterator[str]:
    """Yield each error in the processes' logs once, with its process and number."""
    for log in sorted(logs.glob("*.log")):
        if not log.name.startswith(("old-", "new-")):
            continue
        errors: Counter[str] = Counter()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                described = json.loads(line)
            except ValueError:
                errors[line.strip()] += "Traceback" in line or "Error" in line
                continue
            if (
                isinstance(described, dict)
                and described.get("level") in ERRORS
                and described.get("event") not in JUDGED
            ):
                parts = (described.get(name) for name in ("event", "task", "kind", "error", "reason", "at"))
                errors[" ".join(str(part) for part in parts if part)] += 1
        yield from (f"{log.stem}: {line} (×{number})" for line, number in errors.items() if number)
