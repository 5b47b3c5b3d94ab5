"""List the copies of erased data that no query reaches, and the event or time at which each of them disappears."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from app.settings import settings

RECIPIENTS_GO: Final = "by the recipients' own rules: notify the recipients"


def describe_backups(now: datetime) -> dict[str, Any]:
    """Return the retention of backups, and the time at which the last backup that contains the erased data expires."""
    days = settings().backup_days
    return {
        "kept_days": days,
        "newest_affected_expires": (now + timedelta(days=days)).isoformat(),
        "replayed_on_restore": True,
    }


def list_copies(now: datetime) -> list[dict[str, str]]:
    """List copies that no query can reach, each with the event or time at which the copy disappears."""
    later = now + timedelta(hours=settings().idempotency_hours)
    rows = [{"where": where, "goes": goes, "code": code} for code, (where, goes) in _COPIES.items()]
    for row in rows:
        if row["code"] == "idempotency":
            row |= {"goes": row["goes"].format(at=f"{later:%Y-%m-%d %H:%M} UTC"), "at": later.isoformat()}
    return rows


_COPIES: Final = {
    "free_space": (
        "deleted rows in PostgreSQL's files and indexes",
        "by vacuum, which frees their space; reuse of the space overwrites the bytes, or VACUUM FULL does so at once",
    ),
    "samples": (
        "PostgreSQL's samples of columns, for its plans",
        (
            "when autovacuum next analyses the tables, or immediately with ANALYZE. A table that has become empty "
            "keeps its last sample: the runbook has the statement that deletes it"
        ),
    ),
    "wal": ("PostgreSQL's write-ahead log", "as it is recycled, and with the backups that keep it"),
    "key_dumps": (
        "dumps of the key store (backups of the encryption keys)",
        (
            "with the next dump, which replaces them; they contain keys that were destroyed since then, and names in "
            "requests and legal holds that have ended since then"
        ),
    ),
    "dumps": (
        "dumps of the tenant that were saved (`ebbing dump`), and saved exports",
        (
            "when you delete the files; this installation loads such a dump without the erased data; before you load "
            "it into another installation, remove the subject from it"
        ),
    ),
    "idempotency": (
        "responses stored under idempotency keys in Redis",
        "when they expire, the last at {at}; they contain digests, so that a retry stores nothing again",
    ),
    "found_ids": (
        "ids of memories that a conversation has recently found, in Redis",
        "when they expire, an hour after the conversation's last search",
    ),
    "append_only_file": ("Redis's append-only file", "as Redis rewrites it"),
    "query_vectors": (
        "vectors of queries in the memory of processes",
        "some minutes after the search; stored under digests made with a key of the process",
    ),
    "webhook_urls": (
        "URLs of webhooks, which operators wrote",
        "when you change or delete the webhook; they aren't searched for the person's name, so look yourself",
    ),
    "logs": ("logs", "when you rotate them; they contain ids and numbers, no text and no name"),
    "recipients": (
        "data sent to the recipients",
        RECIPIENTS_GO,
    ),
    "mentions": (
        "mentions of the subject in other subjects' memories",
        "only if these memories are erased too: they belong to the other subjects",
    ),
    "jobs": ("job arguments and results", "never stored: tasks carry only ids and store no results"),
}
