"""Read and redact texts by operators that an erasure doesn't delete: references, reasons, grounds and notes.

An erasure replaces the texts that contain the erased person's name. Rows, dates and actors remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.ingest.roles import ROLES
from app.domain.privacy.case_details import REDACTED, REPLACEMENTS
from app.store.core.binary_arrays import driver_connection
from app.store.privacy.holds import HOLDS

ALIASES_MAX: Final = 20
SPEAKERS_MAX: Final = 50_000
"""Number of the tenant's latest memories in which `find_aliases` looks for a speaker under other subjects."""


class TextPlace(NamedTuple):
    """The place of a text: table, column and key of its row, which contain no words of the text."""

    table: str
    column: str
    key: str


class RetainedText(NamedTuple):
    """A text, with the table, column and key of its row.

    Attributes:
        subject: For a legal hold in force, the subject that it covers.
    """

    table: str
    column: str
    key: str
    text: str
    subject: str | None = None

    @property
    def place(self) -> TextPlace:
        """The place of the text. In `anonymised`, the key is the ground itself: the place has its digest instead."""
        key = sha256(self.key.encode()).hexdigest() if self.table == "anonymised" else self.key
        return TextPlace(self.table, self.column, key)


# By table: its key, its columns with texts, and the condition on rows whose texts are listed. Omitted are the reason of
# the erasure itself, which is deleted when it ends; reasons of holds in force on the subject's memories, which are
# needed until the release; and the notes that `store.erasure.references` clears.
_TABLES: Final = {
    "erasures": (
        "erasure_id",
        {
            "controller": "controller",
            "case_reference": "case_reference",
            "legal_basis": "legal_basis",
            "reason": "CASE WHEN erasure_id <> %(erasure)s THEN reason END",
        },
        "true",
    ),
    "privacy_requests": (
        "request_id",
        {
            "controller": "controller",
            "case_reference": "case_reference",
            "basis": "basis",
            "extension_reason": "extension_reason",
            "identity_note": "CASE WHEN answer IS NULL AND identity_note !~* %(word)s THEN identity_note END",
        },
        "true",
    ),
    "holds": (
        "hold_id",
        {"reason": "reason", "release_reason": "release_reason"},
        f"""NOT (released_at IS NULL AND EXISTS (
      SELECT FROM memories AS memory
      WHERE memory.tenant_id = %(tenant)s AND memory.subject = %(subject)s AND {HOLDS}))""",
    ),
    "hold_changes": ("change_id", {"reason": "reason"}, "true"),
    "operator_acts": ("act_id", {"reason": "reason", "target": "nullif(target, '')"}, "true"),
    "dead_letters": ("letter_id", {"discard_reason": "discard_reason"}, "true"),
    "exports": ("export_id", {"reason": "reason"}, "true"),
    "anonymised": ("ground", {"ground": "ground"}, "true"),
    "webhooks": ("webhook_id", {"description": "nullif(description, '')"}, "true"),
}


def _select(table: str) -> str:
    key, columns, condition = _TABLES[table]
    pairs = ", ".join(f"('{column}', {value})" for column, value in columns.items())
    held = "CASE WHEN hold.released_at IS NULL THEN hold.subject END" if table == "holds" else "CAST(NULL AS text)"
    return f"""
SELECT DISTINCT '{table}', written.name, CAST({key} AS text), written.text, {held}
FROM {table} AS {"hold" if table == "holds" else "kept"} CROSS JOIN LATERAL (VALUES {pairs}) AS written (name, text)
WHERE tenant_id = %(tenant)s AND written.text IS NOT NULL AND written.text <> ALL (%(replaced)s) AND {condition}"""  # noqa: S608


# The stored reports of earlier erasures quote the grounds of anonymised memories.
_REPORTS: Final = """
SELECT 'erasures', 'report', CAST(erasure_id AS text), item->>'ground', CAST(NULL AS text)
FROM erasures CROSS JOIN LATERAL jsonb_array_elements(report->'kept') AS item
WHERE tenant_id = %(tenant)s AND report IS NOT NULL AND jsonb_typeof(report->'kept') = 'array'
  AND item->>'code' = 'anonymous' AND item->>'ground' <> ALL (%(replaced)s)"""
_LIST: Final = " UNION ALL ".join([*map(_select, _TABLES), _REPORTS])


def list_texts(tx: Connection, tenant_id: UUID, erasure_id: UUID, subject: str, word: str) -> list[RetainedText]:
    """Return the texts that an erasure of a subject has to compare with the subject's names.

    Args:
        erasure_id: The erasure, whose own reason isn't listed.
        word: The subject as a regular expression. Notes on identity checks that match it are omitted, because
            `store.erasure.references` deletes them.
    """
    values = {"tenant": tenant_id, "erasure": erasure_id, "subject": subject, "word": word, "replaced": [*REPLACEMENTS]}
    return [RetainedText(*row) for row in driver_connection(tx).execute(_LIST.encode(), values).fetchall()]


def list_hold_texts(tx: Connection, tenant_id: UUID, subject: str) -> set[str]:
    """Return the keys of the released holds on a subject, and of the corrections of these holds."""
    values = {"tenant": tenant_id, "subject": subject}
    return {key for (key,) in driver_connection(tx).execute(_HOLD_TEXTS, values).fetchall()}


_HOLD_TEXTS: Final = """
WITH own AS (
  SELECT hold_id FROM holds WHERE tenant_id = %(tenant)s AND released_at IS NOT NULL AND subject = %(subject)s
)
SELECT CAST(hold_id AS text) FROM own
UNION ALL
SELECT CAST(change_id AS text) FROM hold_changes WHERE tenant_id = %(tenant)s AND hold_id IN (SELECT hold_id FROM own)
"""


def read_texts(tx: Connection, tenant_id: UUID, places: Sequence[TextPlace]) -> dict[TextPlace, RetainedText]:
    """Return the texts that are still stored at these places and weren't replaced."""
    values = {"tenant": tenant_id, "erasure": UUID(int=0), "subject": "", "word": r"\A\Z", "replaced": [*REPLACEMENTS]}
    tables = sorted({each.table for each in places})
    statements = [_select(table) for table in tables] + ([_REPORTS] if "erasures" in tables else [])
    if not statements:
        return {}
    rows = driver_connection(tx).execute(" UNION ALL ".join(statements).encode(), values).fetchall()
    texts = (RetainedText(*row) for row in rows)
    return {each.place: each for each in texts if each.place in places}


def list_all(tx: Connection, tenant_id: UUID) -> list[str]:
    """Return all retained texts, and the subjects of holds and exports, in which a restore looks for names."""
    values = {"tenant": tenant_id, "erasure": UUID(int=0), "subject": "", "word": r"\A\Z", "replaced": [*REPLACEMENTS]}
    rows = driver_connection(tx).execute(f"{_LIST} UNION ALL {_SUBJECTS}".encode(), values).fetchall()
    return [each[3] for each in rows]


_SUBJECTS: Final = """
SELECT 'holds', 'subject', '', subject, NULL FROM holds WHERE tenant_id = %(tenant)s AND subject IS NOT NULL
UNION ALL
SELECT 'exports', 'subject', '', subject, NULL FROM exports WHERE tenant_id = %(tenant)s AND subject IS NOT NULL"""


def redact(tx: Connection, tenant_id: UUID, texts: Sequence[RetainedText]) -> None:
    """Replace texts with a standard sentence, also in backups of requests in their grace period and of legal holds."""
    keys: dict[tuple[str, str], list[str]] = {}
    for each in texts:
        keys.setdefault((each.table, each.column), []).append(each.key)
    for (table, column), found in keys.items():
        tx.execute(_redaction(table, column), {"tenant": tenant_id, "keys": found, "redacted": REDACTED})
    changed = {table: [each.key for each in texts if each.table == table] for table in ("privacy_requests", "holds")}
    if changed["privacy_requests"]:
        tx.execute(_BACK_UP_REQUESTS, {"tenant": tenant_id, "keys": changed["privacy_requests"]})
    if changed["holds"]:
        tx.execute(_REDACT_BACKUPS, {"tenant": tenant_id, "keys": changed["holds"], "redacted": REDACTED})


def _redaction(table: str, column: str) -> Any:
    if column == "report":
        return _REDACT_REPORTS
    if table == "anonymised":
        return _REDACT_GROUNDS
    touch = ", status = status" if table == "erasures" else ""  # a trigger then updates the backup of an open request
    key = _TABLES[table][0]
    return text(f"""
UPDATE {table} SET {column} = :redacted{touch}
WHERE tenant_id = :tenant AND {key} = ANY (CAST(:keys AS uuid[]))
""")  # noqa: S608 - constants only


_REDACT_REPORTS: Final = text("""
UPDATE erasures SET report = jsonb_set(report, '{kept}', (
  SELECT jsonb_agg(CASE WHEN item->>'code' = 'anonymous' THEN item
      || jsonb_build_object('ground', CAST(:redacted AS text))
      || jsonb_build_object('values', (item->'values') || jsonb_build_object('ground', CAST(:redacted AS text)))
    ELSE item END ORDER BY place)
  FROM jsonb_array_elements(report->'kept') WITH ORDINALITY AS entry (item, place)))
WHERE tenant_id = :tenant AND erasure_id = ANY (CAST(:keys AS uuid[]))
""")
# After the redaction, rows of one digest may have the same ground: their counts are added.
_REDACT_GROUNDS: Final = text("""
WITH gone AS (
  DELETE FROM anonymised WHERE tenant_id = :tenant AND ground = ANY (:keys) RETURNING digest, memories, last_at
)
INSERT INTO anonymised AS known (tenant_id, digest, ground, memories, last_at)
SELECT :tenant, digest, :redacted, sum(memories), max(last_at) FROM gone GROUP BY digest
ON CONFLICT (tenant_id, digest, ground) DO UPDATE
SET memories = known.memories + excluded.memories, last_at = greatest(known.last_at, excluded.last_at)
""")
_BACK_UP_REQUESTS: Final = text("""
UPDATE erasures SET status = status
WHERE tenant_id = :tenant AND status = 'grace' AND erasure_id = ANY (CAST(:keys AS uuid[]))
""")
_REDACT_BACKUPS: Final = text("""
UPDATE ebbing_keys.kept_holds SET placed = placed || jsonb_build_object('reason', CAST(:redacted AS text))
WHERE tenant_id = :tenant AND hold_id = ANY (CAST(:keys AS uuid[]))
""")


def find_aliases(tx: Connection, tenant_id: UUID, subject: str) -> list[str]:
    """Return the speakers in a subject's memories that occur in no other subject's memory, without names of roles."""
    values = {"tenant": tenant_id, "subject": subject, "limit": ALIASES_MAX, "rows": SPEAKERS_MAX}
    return list(tx.execute(_ALIASES, values | {"roles": list(ROLES)}).scalars())


_ALIASES: Final = text("""
WITH said AS MATERIALIZED (
  SELECT DISTINCT speaker FROM memories
  WHERE tenant_id = :tenant AND subject = :subject AND speaker IS NOT NULL AND lower(speaker) <> ALL (:roles)
  LIMIT :limit
), others AS MATERIALIZED (
  SELECT subject, speaker FROM memories
  WHERE tenant_id = :tenant AND speaker IS NOT NULL AND EXISTS (SELECT FROM said) ORDER BY memory_id DESC LIMIT :rows
)
SELECT speaker FROM said
WHERE NOT EXISTS (SELECT FROM others WHERE others.speaker = said.speaker AND others.subject <> :subject)
ORDER BY speaker
""")


def find_subject(tx: Connection, tenant_id: UUID, item_id: UUID) -> str | None:
    """Return the subject of the erasure, export, legal hold or memory with this id; None if there is none."""
    return tx.execute(_SUBJECT, {"tenant": tenant_id, "id": item_id}).scalar()


_SUBJECT: Final = text("""
SELECT coalesce(
  (SELECT scope->>'subject' FROM erasures WHERE tenant_id = :tenant AND erasure_id = :id),
  (SELECT subject FROM exports WHERE tenant_id = :tenant AND export_id = :id),
  (SELECT subject FROM holds WHERE tenant_id = :tenant AND hold_id = :id),
  (SELECT subject FROM memories WHERE tenant_id = :tenant AND memory_id = :id))
""")
