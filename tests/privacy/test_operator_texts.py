"""Every column that can hold an operator's words is searched by the sweep that verifies an erasure, or has a reason."""

from __future__ import annotations

from uuid import uuid4

import pytest

from app.domain.privacy.audit_chain import check_details
from app.services.erasure import requests
from app.store.core import database
from app.store.erasure import residue
from app.store.erasure.requests import Erasure
from tests.service import Service
from tests.services.privacy.test_retained_texts import MAIL, Office, write_everywhere

NAMED = f"letter of {MAIL}"
TEXT = "%s::text"
_GROUND = "jsonb_build_object('code', 'anonymous', 'ground', %s::text, 'values', '{}'::jsonb)"

# The columns that the sweep reads, with SQL for a value that names the person.
SWEPT = {
    "erasures.controller": TEXT,
    "erasures.case_reference": TEXT,
    "erasures.legal_basis": TEXT,
    "erasures.reason": TEXT,
    "erasures.report": f"jsonb_build_object('kept', jsonb_build_array({_GROUND}))",
    "privacy_requests.controller": TEXT,
    "privacy_requests.case_reference": TEXT,
    "privacy_requests.basis": TEXT,
    "privacy_requests.extension_reason": TEXT,
    "holds.reason": TEXT,
    "holds.release_reason": TEXT,
    "hold_changes.reason": TEXT,
    "ebbing_keys.kept_holds.placed": "placed || jsonb_build_object('reason', %s::text)",
    "ebbing_keys.erasure_requests.asked": "asked || jsonb_build_object('case_reference', %s::text)",
    "ebbing_keys.erasure_requests.logged": "jsonb_build_object('basis', %s::text)",
    "operator_acts.reason": TEXT,
    "operator_acts.target": TEXT,
    "dead_letters.discard_reason": TEXT,
    "exports.reason": TEXT,
    "anonymised.ground": TEXT,
    "webhooks.description": TEXT,
}

# Rows that may have such a value, where a constraint refuses it in others.
ROWS = {"privacy_requests": " AND answer IS NOT NULL", "holds.release_reason": " AND released_at IS NOT NULL"}

WORDS_OF_CODE = "the service writes ids, digests, times, numbers and fixed words"
CONTENT = "content of memories, deleted with its rows and swept by memory id or subject"
NAMES = "names that operators give to tenants, keys, models and hosts, which identify them"
SUBJECTS = "subjects, threads and labels in the scope of a request, cleared with it by `store.erasure.references`"
REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("accepted_requests.entry_ids", "api_keys.key_id", "api_keys.scopes", "audit.actor", "audit.action"),
            *("changes.type",),
            *("consolidation_marks.age", "consolidation_runs.started_by", "consolidation_runs.level"),
            *("dead_letters.stage", "dead_letters.reason", "dead_letters.entry_id"),
            *("ebbing_keys.erasure_ledger.cut", "erasures.kind", "erasures.status", "erasures.requested_by"),
            *("erasures.cut", "erasures.plan", "erasures.executed", "exports.kind", "exports.status", "exports.law"),
            *("exports.requested_by", "exports.place", "exports.parts", "exports.counts", "hidden_memories.tier"),
            *(
                "holds.placed_by",
                "holds.released_by",
                "holds.ground",
                "hold_changes.changed_by",
                "hold_changes.ground",
                "jobs.kind",
                "jobs.status",
                "jobs.state",
            ),
            *("jobs.counts", "jobs.log", "jobs.error", "lineage.part", "links.kind", "links.source"),
            *("cold_links.kind", "cold_links.source"),
            *("memory_events.kind", "memory_state.tier", "memory_state.salience_source", "memory_state.wanted_tier"),
            *(
                "memory_state.promoted_for",
                "subject_retention.set_by",
                "operator_acts.actor",
                "operator_acts.act",
                "privacy_findings.kinds",
            ),
            *("privacy_findings.categories", "privacy_requests.nature", "privacy_requests.law"),
            *("privacy_requests.manner", "privacy_requests.answer", "privacy_requests.identity_method"),
            *("privacy_requests.identity_checked_by", "privacy_requests.notice_recorded_by", "runs.task", "runs.kind"),
            *("privacy_requests.partial_recorded_by", "privacy_requests.extended_by", "ebbing_keys.master_keys.key_id"),
            *("ebbing_keys.owner_keys.master_key_id", "subject_retention.set_by"),
            *("runs.skipped", "schedules.task", "segments.status", "segments.path", "self_test_runs.results"),
            *("self_tests.kind", "tenant_work.stage", "tier_moves.move", "tier_moves.rule", "tombstones.what"),
            *("imports.format", "imports.status", "imports.requested_by", "imports.objects", "imports.counts"),
            *("imports.reasons", "imports.skipped", "imports.failure"),
            *("api_keys.source", "memory_writers.key_id", "quarantines.key_id", "quarantines.source"),
            *("quarantines.status", "quarantines.placed_by", "quarantines.lifted_by"),
            *("webhooks.types", "webhooks.format", "webhooks.status", "webhooks.reason", "webhooks.created_by"),
            *("webhook_deliveries.type", "webhook_deliveries.status", "webhook_deliveries.outcome"),
            *("tombstones.cut", "usage.purpose", "supersessions.decided_by", "merges.decided_by"),
        ),
        WORDS_OF_CODE,
    ),
    **dict.fromkeys(
        (
            *(
                "api_keys.name",
                "note_copies.name",
                "tenants.name",
                "embedding_spaces.model",
                "embedding_spaces.embedder",
            ),
            *("usage.host", "usage.model"),
        ),
        NAMES,
    ),
    **dict.fromkeys(
        (
            *("erasures.scope", "erasures.aliases", "exports.subject", "jobs.parameters", "pca_samples.subject"),
            *("recorded_searches.subject", "recorded_searches.thread", "recorded_searches.request"),
            *("recorded_searches.bases", "holds.subject", "holds.thread", "holds.tags", "holds.categories"),
            *("holds.kinds", "subject_retention.subject", "subject_retention.category"),
        ),
        SUBJECTS,
    ),
    **dict.fromkeys(
        ("operators.issuer", "operators.sub", "operators.name"),
        "people who log in to the dashboard; deleted by name, or 730 days after the last log-in",
    ),
    "webhooks.url": "an address, which every report lists in `elsewhere` as not searched",
    "audit.details": "`check_details` refuses everything except whole numbers, ids and fixed words",
    "privacy_requests.identity_note": "deleted with the answer, and swept by a statement for these notes",
    "policies.body": "limits, patterns and labels that `Policy` declares; no field takes a sentence about a person",
    "policies.author": WORDS_OF_CODE,
    "tenants.keep_calibration": "numbers by role, computed from counts of uses",
    "tenants.learned_rates": "numbers by parameter, computed from times of uses",
    "alembic_version.version_num": WORDS_OF_CODE,
}
# Names can be in bytes too, which the sweep for operators' texts can't read.
DIGESTS = "a digest or checksum"
KEYS = "a wrapped key, or the keyed digest of its owner"
BYTES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("anonymised.digest", "api_keys.digest", "audit.subject", "audit.digest", "audit.previous", "audit.hash"),
            *("audit_heads.hash", "cold_memories.checksum", "ebbing_keys.erasure_ledger.subject"),
            *("ebbing_keys.erasure_ledger.thread", "notes.digest", "scores.digest", "segments.checksum"),
            "tombstones.digest",
        ),
        DIGESTS,
    ),
    **dict.fromkeys(
        (
            *("audit_heads.subject_key", "ebbing_keys.digest_keys.key", "ebbing_keys.owner_keys.owner"),
            *("ebbing_keys.owner_keys.wrapped", "ebbing_keys.record_keys.owner", "ebbing_keys.record_keys.wrapped"),
        ),
        KEYS,
    ),
    **dict.fromkeys(("pca_bases.matrix", "pca_bases.mean", "recorded_searches.parts"), "numbers"),
    "dead_letters.payload": "rewritten without the erased data, and swept for the subject's name",
    "dead_letters.header": "ids and times; `test_byte_search.py` has a letter with a caller's request id",
}
CONTENT_TABLES = {
    *("memories", "scores", "words", "merges", "decayed_sources", "supersessions", "hidden_supersessions"),
    "missing_links",
}


@pytest.fixture
def office(service: Service) -> Office:
    """A tenant whose records of other requests have a text in each column, none of which names the person."""
    office = Office(service)
    write_everywhere(office, "about a customer")
    service.rows(
        "INSERT INTO exports (tenant_id, export_id, kind, law, status, requested_at, requested_by, job_id, expires_at) "
        "VALUES (%s, %s, 'access', 'gdpr', 'ready', now(), 'key', %s, now())",
        *(office.tenant_id, uuid4(), uuid4()),
    )
    return office


def count(office: Office, erasure: Erasure) -> int:
    with database.tenant(office.tenant_id) as tx:
        return sum(residue.counts(tx, office.tenant_id, [], erasure).values())


def test_the_verifying_sweep_finds_a_name_in_each_of_these_columns(office: Office) -> None:
    erasure_id = office.erase(7)
    erasure = requests.get(office.tenant_id, erasure_id)
    unnamed = count(office, erasure)
    for place, value in SWEPT.items():
        table, _, column = place.rpartition(".")
        rest = " AND erasure_id <> %s" if "erasure" in table else ROWS.get(place, ROWS.get(table, ""))
        given = (NAMED, office.tenant_id, *([erasure_id] if "erasure" in table else []))
        office.service.rows(f"UPDATE {table} SET {column} = {value} WHERE tenant_id = %s{rest}", *given)  # noqa: S608
        now = count(office, erasure)
        assert now > unnamed, place
        unnamed = now


def columns(service: Service, *types: str) -> set[str]:
    """Return the columns of these types, or of arrays of them, by their PostgreSQL names."""
    rows = service.rows(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns "
        "JOIN information_schema.tables USING (table_schema, table_name) WHERE table_type = 'BASE TABLE' AND "
        "table_schema IN ('public', 'ebbing_keys') AND ltrim(udt_name, '_') = ANY (%s)",
        list(types),
    )
    return {f"{schema}.{table}.{column}".removeprefix("public.") for schema, table, column in rows}


def test_every_column_with_bytes_has_a_reason_not_to_be_swept_for_names(service: Service) -> None:
    assert columns(service, "bytea") == BYTES.keys(), "add the column to BYTES, with the reason"


def test_every_other_column_with_text_has_a_reason_not_to_be_swept(service: Service) -> None:
    found = columns(service, "text", "jsonb", "json", "varchar")
    assert not SWEPT.keys() & REASONS.keys()
    assert set(SWEPT) <= found, "a swept column is gone"
    unknown = {
        place for place in found - SWEPT.keys() - REASONS.keys() if place.rpartition(".")[0] not in CONTENT_TABLES
    }
    assert not unknown, "add the column to residue's statements and to SWEPT, or to REASONS"
    assert not REASONS.keys() - found, "a listed column is gone"


@pytest.mark.parametrize("words", ["Orla Quinn", "orla@example.com", "0033 6123", "x" * 65])
def test_details_of_the_audit_log_refuse_words_of_operators(words: str) -> None:
    with pytest.raises(ValueError, match="neither a whole number nor a word"):
        check_details({"target": words})
