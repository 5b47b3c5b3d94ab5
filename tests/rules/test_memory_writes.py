"""Memories are written in one way: by the unit of work, through the store modules that hold the SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = "app/services/storage/memory_write.py"

STATEMENT = re.compile(
    r"""\b(?:insert\s+into|update|delete\s+from|copy|merge\s+into|truncate)\s+(?:only\s+)?(?:memories|memory_state)\b
    |   \b(?:insert|update|delete)\(\s*tables\.(?:memories|memory_state)\b
    |   =\s*tables\.(?:memories|memory_state)\b""",
    re.VERBOSE | re.IGNORECASE,
)

SQL = {
    "app/store/memories/memories.py": "edits and upserts",
    "app/store/core/binary_copy.py": "the drain's COPY",
    "app/store/ingest/import_copy.py": "the COPY of imports, and the state of memories that they insert",
    "app/store/consolidation/merged_memories.py": "summaries, and the tiers of their sources",
    "app/store/memories/provenance.py": "sources that renames of files lower",
    "app/store/files/file_memories.py": "external ids of renamed files, and former texts of edited ones",
    "app/store/tiers/tiers.py": "moves and restores",
    "app/store/tiers/cold_segments.py": "texts that leave for cold storage and return",
    "app/store/tiers/row_deletion.py": "permanent deletion",
    "app/store/erasure/whole_tenant.py": "rows of a tenant that is deleted",
    "app/store/erasure/hidden_memories.py": "hiding, and showing again",
    "app/store/privacy/holds.py": "external ids that a held memory gives up, and the next sweep after a release",
    "app/store/strength/states.py": "anchors, uses and due times",
    "app/store/strength/kinds.py": "kinds that callers say",
    "app/store/strength/promotion.py": "the promotion flag",
    "app/store/enrichment/scores.py": "salience and keep chance",
    "app/store/enrichment/keep_chances.py": "keep chance",
    "app/store/tenants/keep_calibrations.py": "the next sweep after a calibration",
    "app/store/enrichment/profile_hints.py": "a profile's hints",
    "app/store/enrichment/corrections.py": "a derived flag",
    "app/store/enrichment/reminders.py": "a derived flag",
    "app/store/enrichment/pii_findings.py": "the next sweep after a finding",
}
"""Store modules that write the two tables, with what they write."""

BOOKKEEPING = {
    "app.store.memories.writes": {"record", "lock_holds_and_erasures"},
    "app.store.memories.tenant_counts": {"add", "track_changes", "count_memories"},
    "app.store.tiers.tier_moves": {"add"},
    "app.store.tiers.row_deletion": {"remove"},
    "app.store.tiers.tiers": {"write"},
    "app.store.enrichment.work_queue": {"add"},
    "app.store.consolidation.merged_memories": {"add_summaries"},
    "app.store.files.file_memories": {"add_version"},
    "app.store.consolidation.merges": {"make_stale"},
    "app.store.privacy.holds": {"lock_shared"},
    "app.store.erasure.requests": {"lock_shared"},
    "app.services.strength.memory_strength": {"preserve_strength"},
}
"""Functions that only the unit of work calls, by module."""

OTHERS = {
    ("app/services/memories/recount.py", "add"): "corrects the counts by a recount",
    ("app/services/ingest/drain.py", "lock_shared"): "the drain has a role and a transaction of its own",
    ("app/services/ingest/import_batch.py", "lock_shared"): "its COPY has the drain's role and transaction",
    ("app/services/ingest/import_requests.py", "lock_shared"): "adds an import, writes no memory",
    ("app/services/evaluation/self_tests.py", "lock_shared"): "draws a sample, writes no memory",
    ("app/services/privacy/export_requests.py", "lock_shared"): "reads memories",
    ("app/services/privacy/export_job.py", "lock_shared"): "reads memories",
    ("app/services/privacy/quarantines.py", "lock_shared"): "hides as erasures do, with the exclusive lock",
    ("app/services/privacy/quarantines.py", "add"): "hides as erasures do, and keeps their books",
    ("app/services/privacy/rights_overview.py", "lock_shared"): "locks both exclusively or shared to request erasures",
}
"""Services that may call one of these functions, by path and function, with the reason."""

ERASURES = "app/services/erasure/"
"""Erasures lock exclusively and over several transactions; they keep their own books."""


def sources(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the path and text of every module in a folder."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def writes(text: str) -> bool:
    """Return whether a module writes one of the tables, or deletes from tables named in a list that has one of them."""
    from_list = "DELETE FROM {" in text and re.search(r'"(?:memories|memory_state)"', text)
    return bool(STATEMENT.search(text) or from_list)


def calls(text: str) -> set[str]:
    """Return the names of the bookkeeping functions that a module imports or takes from an imported module."""
    tree = ast.parse(text)
    modules, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
                found |= {name.name} & BOOKKEEPING.get(node.module, set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} & BOOKKEEPING.get(modules.get(node.value.id, ""), set())
    return found


def test_only_the_listed_store_modules_write_memories() -> None:
    assert {path for path, text in sources("app") if writes(text)} == SQL.keys()


def test_only_the_unit_of_work_keeps_the_books() -> None:
    used = {(path, name) for path, text in sources("app/services") if path != UNIT for name in calls(text)}
    assert {(path, name) for path, name in used if not path.startswith(ERASURES)} == OTHERS.keys()


@pytest.mark.parametrize(
    "text",
    [
        'SQL = "UPDATE memories AS memory SET text = 1"',
        'SQL = """\nINSERT INTO\n  memory_state (tenant_id)"""',
        'SQL = "COPY memories (tenant_id) FROM STDIN"',
        "tx.execute(update(tables.memory_state))",
        "table = tables.memories",
        'OWN = ("memories",)\nSQL = [f"DELETE FROM {table}" for table in OWN]',
    ],
)
def test_a_write_is_seen(text: str) -> None:
    assert writes(text)


def test_a_read_is_no_write() -> None:
    assert not writes('SQL = "SELECT text FROM memories JOIN memory_state USING (memory_id) FOR UPDATE"')


@pytest.mark.parametrize(
    "text",
    [
        "from app.store.tiers import tier_moves\ntier_moves.add(tx, tenant_id, {})",
        "from app.store.enrichment import work_queue as queue\nqueue.add(tx, [], tenant_id, [])",
        "from app.store.memories.tenant_counts import track_changes",
    ],
)
def test_a_call_is_seen_under_every_name(text: str) -> None:
    assert calls(text)
