"""The verdict on a chaos run: every accepted memory is accounted for, once, and erased words are nowhere."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import redis

from app.settings import settings
from app.store.core import database
from tests.chaos.load import HELD, Client
from tests.faults.conservation import Books
from tests.privacy import traces
from tests.service import Service
from tests.waiting import PATIENCE_SECONDS, until

JOBS_SECONDS: Final = 4 * PATIENCE_SECONDS
PATIENCES: Final = 4  # a lease may last ten minutes longer after a step of the clock
PAGE: Final = 100
READS_MAX: Final = 400
_OPEN_JOBS: Final = """
SELECT kind, status, coalesce(error, ''), attempts FROM jobs WHERE status IN ('queued', 'running')
  AND (not_before IS NULL OR not_before <= now())
"""
_OPEN_ERASURES: Final = """
SELECT 'erasure', status, count(*) FROM erasures WHERE tenant_id = %s
  AND (status = 'running' OR status = 'grace' AND erase_after <= now()) GROUP BY status
"""
# What each statement keeps, the report of an erasure and the runbook name; both say how to remove it.
_CLEANUP: Final = (
    "DELETE FROM pg_statistic USING pg_class WHERE pg_class.oid = starelid AND relnamespace = 'public'::regnamespace",
    "ANALYZE",
    "VACUUM FULL",
    "CHECKPOINT",
)
_IN_FILES: Final = """
SELECT coalesce(pg_filenode_relation(0, substring(name FROM '^[0-9]+')::oid)::text, name)
FROM (SELECT 'base/' || oid || '/' AS folder FROM pg_database WHERE datname = current_database()) AS ours
CROSS JOIN pg_ls_dir(folder) AS name
WHERE name ~ '^[0-9]' AND position(%s::bytea IN pg_read_binary_file(folder || name, true)) > 0
"""


_SUMMARY: Final = """
SELECT 'tier ' || tier, count(*) FROM memory_state GROUP BY 1
UNION ALL SELECT 'merge ' || action || ' ' || status, count(*) FROM merges GROUP BY 1
UNION ALL SELECT 'erasure ' || status, count(*) FROM erasures GROUP BY 1
UNION ALL SELECT 'job ' || kind || ' ' || status, count(*) FROM jobs GROUP BY 1
ORDER BY 1
"""


class Owner:
    """Reads all tables, with the methods that `tests.privacy.traces` asks of the service."""

    def __init__(self, books: Books) -> None:
        self._connection = psycopg.connect(books.database_url, autocommit=True)

    def rows(self, statement: str, *values: object) -> list[Any]:
        done = self._connection.execute(statement.encode(), values or None)
        return done.fetchall() if done.description is not None else []

    def one(self, statement: str, *values: object) -> Any:
        [[value]] = self.rows(statement, *values)
        return value

    def close(self) -> None:
        self._connection.close()


def wait_until_quiet(books: Books, tenants: Sequence[Client]) -> list[str]:
    """Wait until no memory, job or erasure is under way; return what still is, if that doesn't end."""
    for attempt in range(PATIENCES):
        try:
            books.wait_until_settled(tenants, scored=True)
            break
        except AssertionError as error:
            if attempt == PATIENCES - 1:
                return [f"work is still pending: {error}"]
    with psycopg.connect(books.database_url, autocommit=True) as owner:

        def under_way() -> list[Any]:
            jobs = owner.execute(_OPEN_JOBS).fetchall()
            return jobs + [
                row for each in tenants for row in owner.execute(_OPEN_ERASURES, [each.tenant_id]).fetchall()
            ]

        def changed_from(earlier: Counter[str]) -> bool:
            return Counter(map(str, under_way())) != earlier

        # A busy machine may take long; what matters is that some of the work ends each time.
        while waiting := Counter(map(str, under_way())):
            try:
                until(partial(changed_from, waiting), str(waiting), JOBS_SECONDS)
            except AssertionError as error:
                return [f"jobs or erasures are still under way: {error}"]
        try:
            books.wait_until_settled(tenants, scored=True)
        except AssertionError as error:
            return [f"work is still pending: {error}"]
    return []


def still_stored(books: Books, tenant: Client) -> list[str]:
    """Return the persons to be erased of whom memories are stored: the last one, and those accepted too late."""
    with psycopg.connect(books.database_url) as owner:
        rows = owner.execute(
            "SELECT DISTINCT subject FROM memories WHERE tenant_id = %s", [tenant.tenant_id]
        ).fetchall()
    subjects = {str(subject) for (subject,) in rows}
    return [leaver for leaver in tenant.ledger.leavers if leaver in subjects]


def account(books: Books, tenant: Client) -> tuple[dict[str, int], list[str]]:
    """Compare a tenant's ledger with its tables; return the figures, and what doesn't add up."""
    ledger = tenant.ledger
    with psycopg.connect(books.database_url) as owner:
        rows = owner.execute(
            "SELECT memory_id::text, deleted_at IS NOT NULL, metadata->>'code', subject FROM memories "
            "WHERE tenant_id = %s AND made_by = 'caller'",
            [tenant.tenant_id],
        ).fetchall()
        states = {
            str(memory_id)
            for (memory_id,) in owner.execute(
                "SELECT memory_id FROM memory_state WHERE tenant_id = %s", [tenant.tenant_id]
            ).fetchall()
        }
        letters = owner.execute(
            "SELECT stage, reason, memories FROM dead_letters WHERE tenant_id = %s", [tenant.tenant_id]
        ).fetchall()
    accepted, stored = set(ledger.texts), {str(memory_id) for memory_id, *_ in rows}
    hidden = {str(memory_id) for memory_id, is_hidden, *_ in rows if is_hidden}
    codes = Counter(code for _, _, code, _ in rows if code is not None)
    gone = accepted - stored
    lost = gone - ledger.erased - ledger.deleted - ledger.uncertain
    may_hide = ledger.deleted | ledger.uncertain | ledger.held
    figures = {
        "accepted": len(accepted),
        "stored": len(stored & accepted - hidden),
        "pending holds": len(stored & ledger.held),
        "deleted": len(accepted & ledger.deleted),
        "erased": len(gone & ledger.erased),
        "dead letters": sum(int(memories) for *_, memories in letters),
        "poison": ledger.poison,
        "pending": books.waiting(tenant)["drain"],
        "lost": len(lost),
        "never accepted": len(stored - accepted),
        "twice": sum(count - 1 for count in codes.values()),
    }
    wrong = [
        f"{figures[name]} memories {name}" for name in ("lost", "never accepted", "twice", "pending") if figures[name]
    ]
    if lost:
        wrong.append(f"lost: {sorted(lost)[:3]}")
    if left := stored & ledger.erased:
        wrong.append(f"{len(left)} memories of erased persons are stored, such as {min(left)}")
    if strange := hidden - may_hide:
        wrong.append(f"{len(strange)} memories are hidden without a deletion, such as {min(strange)}")
    if shown := (stored - hidden) & ledger.deleted - ledger.uncertain:
        wrong.append(f"{len(shown)} deleted memories are back, such as {min(shown)}")
    if missing := stored ^ (states & stored):
        wrong.append(f"{len(missing)} memories have no state, such as {min(missing)}")
    if len(letters) != ledger.poison:
        found = Counter(f"{stage}: {reason}" for stage, reason, _ in letters)
        wrong.append(f"{len(letters)} dead letters, but {ledger.poison} poisoned entries: {dict(found)}")
    return figures, wrong


def check_texts(tenant: Client) -> list[str]:
    """Check through the API that each memory has a text that the ledger knows, and that no deleted one is shown."""
    ledger, shown, cursor = tenant.ledger, dict[str, str](), ""
    while True:
        answer, _ = tenant.ask("list", "GET", f"/v1/memories?limit={PAGE}{cursor}")
        page = answer.json()
        shown |= {each["id"]: each["text"] for each in page["memories"]}
        if not page.get("next_cursor"):
            break
        cursor = f"&cursor={page['next_cursor']}"
    out = ledger.erased | ledger.deleted | ledger.held | ledger.uncertain
    wanted = ledger.texts.keys() - out
    unlisted = sorted(wanted - shown.keys())
    wrong = Counter[str]()
    for memory_id in tenant.random.sample(unlisted, min(READS_MAX, len(unlisted))):
        answer, _ = tenant.ask("read", "GET", f"/v1/memories/{memory_id}", 404)
        wrong["an accepted memory isn't returned"] += not answer.is_success
        if answer.is_success:
            shown[memory_id] = answer.json()["text"]
    for memory_id in wanted & shown.keys():
        wrong["a memory has another text"] += shown[memory_id] not in ledger.texts[memory_id]
    wrong["an erased or deleted memory is listed"] = len(
        shown.keys() & (ledger.erased | ledger.deleted) - ledger.uncertain
    )
    return [f"{what}: {count}" for what, count in wrong.items() if count]


def check_audit(tenant: Client) -> list[str]:
    """Verify the tenant's audit chain."""
    cursor = ""
    while True:
        answer, _ = tenant.ask("verify", "GET", f"/v1/privacy/audit/verify{cursor}")
        found = answer.json()
        if found["broken"] or (not found["next_cursor"] and not found["well"]):
            return [f"the audit chain is broken: {found}"]
        if not found["next_cursor"]:
            return []
        cursor = f"?cursor={found['next_cursor']}"


def check_erasures(owner: Owner, tenant: Client) -> list[str]:
    """Check that no erasure has left anything, and that only those of the person under legal hold wait."""
    rows = owner.rows(
        "SELECT status, scope->>'subject', residue FROM erasures WHERE tenant_id = %s AND (residue > 0 "
        "OR status = 'held' OR status = 'grace' AND NOT scope ? 'memory_ids')",
        tenant.tenant_id,
    )
    return [
        f"an erasure is {status} with {residue} rows left"
        for status, subject, residue in rows
        if residue or subject != HELD
    ]


def check_counts(owner: Owner, tenant: Client) -> list[str]:
    """Check that the tenant's counts equal what is stored."""
    counted = owner.rows(
        "SELECT sum(active), sum(archived), sum(cold) FROM tenant_counts WHERE tenant_id = %s", tenant.tenant_id
    )
    stored = owner.rows(
        "SELECT count(*) FILTER (WHERE tier = 'active'), count(*) FILTER (WHERE tier = 'archived'), "
        "count(*) FILTER (WHERE tier = 'cold') FROM memory_state WHERE tenant_id = %s",
        tenant.tenant_id,
    )
    [before], [after] = counted, stored
    return [] if [int(each or 0) for each in before] == list(after) else [f"counted {before}, stored {after}"]


@contextmanager
def inside(books: Books, home: Path) -> Iterator[None]:
    """Let this process read as the service does, to open what is in cold storage."""
    given = {
        "EBBING_DATABASE_URL": books.database_url,
        "EBBING_REDIS_URL": books.redis_url,
        "EBBING_MASTER_KEY": (home / "master-key").read_text(encoding="utf-8").strip(),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    settings.cache_clear()
    database.close()
    try:
        yield
    finally:
        database.close()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
        settings.cache_clear()


def find_word(books: Books, owner: Owner, tenants: Sequence[Client], home: Path, word: str) -> list[str]:
    """Return the places that contain a word: tables, Redis, cold storage, logs, and the servers' files."""
    found = [f"table {table}" for table in traces.in_tables(cast("Service", owner), word)]
    server, password = urlsplit(books.redis_url), (home / "redis-admin-password").read_text(encoding="utf-8").strip()
    with redis.Redis(server.hostname or "", server.port or 0, username="admin", password=password) as queue:
        found += [f"Redis key {key}" for key in traces.in_redis(queue, word)]
        queue.bgrewriteaof()
        until(lambda: not queue.info("persistence")["aof_rewrite_in_progress"], "the log of Redis is rewritten")
        until(lambda: not queue.info("persistence")["aof_rewrite_scheduled"], "the log of Redis is rewritten")
    with inside(books, home):
        folder = home / "cold"
        for tenant in tenants:
            found += [f"cold {name}" for name in _in_cold(UUID(tenant.tenant_id), folder, word)]
    for folder in (home / "logs", home / "redis"):
        found += [
            f"file {path.relative_to(home)}"
            for path in sorted(folder.rglob("*"))
            if path.is_file() and word.encode() in path.read_bytes()
        ]

    def in_files() -> list[str]:
        for statement in _CLEANUP:
            owner.rows(statement)
        return [name for (name,) in owner.rows(_IN_FILES, word.encode())]

    try:
        until(lambda: not in_files(), "PostgreSQL's files are clean")
    except AssertionError:
        found += [f"PostgreSQL's file of {name}" for name in in_files()]
    return found


def _in_cold(tenant_id: UUID, folder: Path, word: str) -> list[str]:
    wanted, found = word.encode(), []
    for path in sorted(folder.glob(f"*/{tenant_id}/**/*")):
        if path.is_file():
            data, name = path.read_bytes(), path.relative_to(folder).as_posix()
            is_export = name.startswith("exports/")
            read = traces.exported(tenant_id, name, data) if is_export else traces.opened(tenant_id, data)
            if wanted in data or any(wanted in each for each in read):
                found.append(name)
    return found


def summarise(books: Books) -> dict[str, int]:
    """Return how much was moved, merged and erased, and how many jobs of each kind were done."""
    with psycopg.connect(books.database_url) as owner:
        return {str(name): int(count) for name, count in owner.execute(_SUMMARY).fetchall()}


def errors_in(logs: Path) -> dict[str, int]:
    """Return the errors in the processes' logs with their number."""
    errors: Counter[str] = Counter()
    for log in sorted(logs.glob("*.log*")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                described = json.loads(line)
            except ValueError:
                errors[f"{log.stem}: {line.strip()[:160]}"] += "Traceback" in line or "Error" in line
                continue
            if isinstance(described, dict) and described.get("level") in {"error", "critical"}:
                parts = (described.get(name) for name in ("event", "task", "kind", "error", "reason", "at"))
                errors[f"{log.stem}: " + " ".join(str(part) for part in parts if part)] += 1
    return {line: number for line, number in errors.most_common() if number}
