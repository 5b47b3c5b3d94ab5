"""The database itself separates tenants: policies, roles, grants, and interleaved transactions of two tenants."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.services.jobs import schedule
from app.store.core import database
from tests.service import Service

# Ids, times and numbers without content. A transaction without a tenant, such as a worker's that looks for work, sees
# all rows; a tenant's transaction sees its own.
SHARED = {
    *("tenants", "api_keys", "tenant_work", "schedules", "runs"),
    *("rating_turns", "jobs", "ebbing_keys.erasure_ledger"),
}
# A tenant's budget also depends on the total of all tenants (tokens and costs by day), and small tenants of an
# embedding space share a basis.
UNGUARDED = {"usage", "tenant_spaces"}
WITHOUT_TENANT = {
    *("embedding_spaces", "alembic_version", "ledger_mark", "ebbing_keys.request_mark"),
    *("queue_identity", "accepted_requests", "ebbing_keys.master_keys"),
}

DRAIN_MAY = {
    "envelopes": {"SELECT", "INSERT"},
    "memories": {"SELECT", "INSERT"},  # reads ids and versions only, see below: no text
    "memory_state": {"SELECT", "INSERT"},  # reads ids and the source of the salience only, see below
    "rating_turns": {"SELECT"},  # one column, see below
    "imports": {"SELECT", "UPDATE"},  # the position, in the transaction of their COPY; no text, no name
    "dead_letters": {"SELECT", "INSERT"},  # one column, see below
    "scores": {"SELECT"},  # numbers and versions, see below
    "self_test_runs": {"SELECT"},  # numbers only
    "tenant_work": {"SELECT", "INSERT", "UPDATE"},
    "policies": {"SELECT"},
    "erasures": {"SELECT"},
    "quarantines": {"SELECT"},  # conditions for arriving memories; ids, sources and times
    "privacy_requests": {"SELECT"},
    "tombstones": {"SELECT"},
    "tenant_counts": {"SELECT", "INSERT", "UPDATE"},
    "accepted_requests": {"SELECT", "INSERT", "DELETE"},
    "queue_gaps": {"SELECT", "INSERT", "UPDATE"},
    "changes": {"SELECT", "INSERT"},  # reads positions only, see below
    "webhooks": {"SELECT"},  # states and times, see below: no URL, no secret
    "tenants": {"SELECT"},  # three columns, see below
}


def named(schema: str, table: str) -> str:
    """Return the SQL for a table's name, with its schema for the key store."""
    return f"CASE {schema} WHEN 'public' THEN {table} ELSE {schema} || '.' || {table} END"


@pytest.fixture
def guarded(service: Service) -> list[str]:
    """Names of the tables that hold tenants' rows."""
    found = service.rows(
        f"SELECT {named('table_schema', 'table_name')} FROM information_schema.columns "  # noqa: S608 - constants
        "WHERE table_schema IN ('public', 'ebbing_keys') AND column_name = 'tenant_id' "
        "AND (table_schema, table_name) IN (SELECT schemaname, tablename FROM pg_tables) ORDER BY 1"
    )
    return [table for (table,) in found if table not in SHARED | UNGUARDED]


def test_every_table_is_guarded_or_known_to_be_shared(service: Service, guarded: list[str]) -> None:
    found = service.rows(
        f"SELECT {named('schemaname', 'tablename')} FROM pg_tables "  # noqa: S608 - constants
        "WHERE schemaname IN ('public', 'ebbing_keys')"
    )
    tables = {table for (table,) in found}
    assert tables - set(guarded) == SHARED | UNGUARDED | WITHOUT_TENANT
    found = service.rows(
        f"SELECT {named('nspname', 'relname')}, relrowsecurity, relforcerowsecurity "  # noqa: S608 - constants
        "FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE relkind IN ('r', 'p') AND nspname IN ('public', 'ebbing_keys')"
    )
    security = {table: (enabled, forced) for table, enabled, forced in found}
    assert {table for table in [*guarded, *SHARED] if security[table] != (True, True)} == set()


def test_a_view_shows_no_more_than_its_reader_may_see(service: Service) -> None:
    found = service.rows("SELECT relname, reloptions FROM pg_class WHERE relkind = 'v' AND relnamespace = "
                         "'public'::regnamespace")  # fmt: skip
    assert found
    assert [name for name, options in found if options != ["security_invoker=true"]] == []


def test_every_policy_is_for_all_commands_and_checks_what_is_written(service: Service, guarded: list[str]) -> None:
    found = service.rows(
        f"SELECT {named('schemaname', 'tablename')}, permissive, roles::text, cmd, qual, with_check "  # noqa: S608 - constants
        "FROM pg_policies"
    )
    policies = {table: rest for table, *rest in found}
    assert set(policies) == {*guarded, *SHARED}
    assert len(found) == len(policies)
    for tables, is_shared in ((guarded, False), (SHARED, True)):
        [(permissive, roles, command, reads, writes)] = {tuple(policies[table]) for table in tables}
        assert (permissive, roles, command) == ("PERMISSIVE", "{public}", "ALL")
        assert reads == writes
        assert "NULLIF(current_setting('ebbing.tenant'::text, true), ''::text)" in reads
        assert (" OR " in reads) is is_shared


def test_a_tenants_transaction_sees_its_own_rows_of_shared_tables(service: Service) -> None:
    own, other = service.tenant().tenant_id, service.tenant().tenant_id
    for tenant_id in (own, other):
        schedule.set_paused(tenant_id, "night", paused=False)  # inserts it
    for table in ("tenants", "api_keys", "schedules"):
        query = text(f"SELECT DISTINCT tenant_id FROM {table}")  # noqa: S608 - constants
        with database.tenant(own) as tx:
            assert list(tx.execute(query).scalars()) == [own], table
        with database.shared() as tx:
            assert {own, other} <= set(tx.execute(query).scalars()), table
    with database.tenant(own) as tx, suppress(DBAPIError):
        tx.execute(text("UPDATE schedules SET paused = true WHERE tenant_id = :other"), {"other": other})
    [view] = schedule.list_schedules(other)
    assert not view.schedule.paused


def test_no_role_of_the_service_can_pass_by_but_the_drain(service: Service) -> None:
    found = service.rows(
        "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles "
        "WHERE rolname IN ('ebbing_owner', 'ebbing_app', 'ebbing_drain', 'ebbing_ops')"
    )
    roles = {name: tuple(attributes) for name, *attributes in found}
    nothing = (False, False, False, False, False)
    for name in ("ebbing_owner", "ebbing_app", "ebbing_ops"):
        assert roles[name] == nothing, name
    assert roles["ebbing_drain"] == (False, True, False, False, False)


def test_the_service_owns_nothing(service: Service) -> None:
    owners = service.rows(
        "SELECT DISTINCT tableowner FROM pg_tables "
        "WHERE tablename <> 'alembic_version' AND schemaname IN ('public', 'ebbing_keys')"
    )
    assert owners == [("ebbing_owner",)]
    members = service.rows(
        "SELECT 1 FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles w ON w.oid = m.member "
        "WHERE r.rolname = 'ebbing_owner' AND w.rolname IN ('ebbing_app', 'ebbing_drain', 'ebbing_ops')"
    )
    assert members == []


def grants(service: Service, role: str) -> dict[str, set[str]]:
    """Return the privileges of a role by table, column grants included."""
    table = named("table_schema", "table_name")
    found = service.rows(
        f"SELECT {table}, privilege_type FROM information_schema.table_privileges "  # noqa: S608 - constants
        "WHERE table_schema IN ('public', 'ebbing_keys') AND grantee = %s "
        f"UNION SELECT {table}, privilege_type FROM information_schema.column_privileges "
        "WHERE table_schema IN ('public', 'ebbing_keys') AND grantee = %s",
        role,
        role,
    )
    by_table: dict[str, set[str]] = {}
    for table, privilege in found:
        by_table.setdefault(table, set()).add(privilege)
    return by_table


def test_the_drain_may_do_its_work_and_nothing_else(service: Service) -> None:
    assert grants(service, "ebbing_drain") == DRAIN_MAY


def test_the_drain_reads_no_more_than_what_is_counted(service: Service) -> None:
    found = service.rows(
        "SELECT table_name, column_name FROM information_schema.column_privileges WHERE grantee = 'ebbing_drain' "
        "AND table_name IN ('changes', 'dead_letters', 'memories', 'memory_state', 'rating_turns', 'scores', "
        "'self_test_runs', 'tenants', 'webhooks') AND privilege_type = 'SELECT'"
    )
    assert sorted(found) == [
        *(("changes", column) for column in ("last", "tenant_id")),
        *(("dead_letters", column) for column in ("discarded_at", "header", "stage", "tenant_id")),
        *(("memories", column) for column in ("deleted_at", "memory_id", "tenant_id", "text_version")),
        *(("memory_state", column) for column in ("memory_id", "salience_source", "tenant_id")),
        ("rating_turns", "tenant_id"),
        *(("scores", column) for column in ("actionable", "emotional", "memory_id", "novelty", "personal")),
        *(("scores", column) for column in ("refused_by", "rules_salience", "scored_at", "scorer", "tenant_id")),
        *(("scores", column) for column in ("text_version", "version")),
        *(("self_test_runs", column) for column in ("finished_at", "results", "started_at", "tenant_id")),
        *(("tenants", column) for column in ("deletion_id", "name", "tenant_id")),
        *(("webhooks", column) for column in ("claimed_until", "cursor", "failing_since", "next_at", "rest_until")),
        *(("webhooks", column) for column in ("status", "tenant_id", "turned_at", "webhook_id")),
    ]


def test_the_ops_role_only_reads_and_no_content(service: Service, guarded: list[str]) -> None:
    may = grants(service, "ebbing_ops")
    assert set().union(*may.values()) == {"SELECT"}
    assert not may.keys() & {"api_keys", "memories", "memory_words", "embeddings", "dead_letters", "policies", "merges"}


def test_nobody_else_may_do_anything(service: Service) -> None:
    assert grants(service, "PUBLIC") == {}
    for privilege in ("TRUNCATE", "REFERENCES", "TRIGGER"):
        assert not any(privilege in may for may in grants(service, "ebbing_app").values())
    assert "DELETE" not in grants(service, "ebbing_app")["holds"]


# --- Without a tenant ---

ROW = {
    "tenant_id": "00000000-0000-0000-0000-000000000001",
    "memory_id": "00000000-0000-0000-0000-000000000002",
}

# Tables that get rows for a memory after it was stored.
HISTORY = (
    ("memory_events", "at, kind", "now(), 'use'"),
    ("links", "other_id, kind", "gen_random_uuid(), 'related'"),
    ("decayed_sources", "source_id, tags, categories, created_at", "gen_random_uuid(), '{}', '{}', now()"),
    ("lineage", "merge_id, text_version, part", "gen_random_uuid(), 1, 'source'"),
    ("privacy_findings", "text_version, kinds, categories, pii, sensitivity", "1, '{}', '{}', 1, 1"),
    ("hidden_memories", "erasure_id, tier", "gen_random_uuid(), 'active'"),
    ("hidden_vectors", "space_id, text_version, vector", "1, 1, '[1]'"),
    ("reviews", "due_at, interval_days, reviewed_at", "now(), 1, now()"),
    ("archived_memories", "text_version", "1"),
    ("self_tests", "run_id, kind", "gen_random_uuid(), 'application'"),
    ("pca_samples", "space_id, vector", "1, '[1]'"),
    (
        "cold_memories",
        "segment_id, start, length, checksum, key_id, text_version",
        "gen_random_uuid(), 1, 1, '', gen_random_uuid(), 1",
    ),
    ("cold_links", "other_id, kind, weight, source, created_at", "gen_random_uuid(), 'x', 1, 'caller', now()"),
)

# Tables whose rows don't belong to one memory.
OTHERS = (
    ("pca_shares", "space_id, share_id, samples, drawn_at", "1, gen_random_uuid(), 1, now()"),
    ("notes", "memory_id", "gen_random_uuid()"),
    ("decay_clocks", "interval_seconds", "60"),
    ("change_heads", "newest", "0"),
    ("changes", "at, size, type, ids", "now(), 1, 'memory.stored', ARRAY[gen_random_uuid()]"),
    (
        "webhooks",
        "webhook_id, url, format, created_by, secret_id, cursor",
        "gen_random_uuid(), 'https://x', 'standard', 'x', gen_random_uuid(), 0",
    ),
    (
        "webhook_deliveries",
        "webhook_id, delivery_id, cursor, type, changed_id, changed_at",
        "gen_random_uuid(), gen_random_uuid(), 1, 'memory.stored', gen_random_uuid(), now()",
    ),
    ("memory_writers", "memory_id, key_id, first_at, last_at", "gen_random_uuid(), 'x', now(), now()"),
    (
        "quarantines",
        "quarantine_id, source, before, status, placed_at, placed_by",
        "gen_random_uuid(), 'tool', now(), 'placed', now(), 'x'",
    ),
    ("tick_averages", "tick, storage, retrieval, stability, at_risk", "1, 1, 1, 1, 0"),
    (
        "activation_history",
        "memory_id, tick, storage, retrieval, stability, salience, kind, policy_version, is_shown",
        "gen_random_uuid(), 1, 1, 1, 1, 0, 0, 1, true",
    ),
    ("note_copies", "copy_id, name", "gen_random_uuid(), 'x'"),
    ("queue_gaps", "requests, memories, first_at, last_at", "1, 1, now(), now()"),
    (
        "merges",
        "merge_id, run_id, action, status, level, cohesion, sources, created_at",
        "gen_random_uuid(), gen_random_uuid(), 'link', 'done', 'medium', 1, 2, now()",
    ),
    ("consolidation_runs", "run_id, started_by, level, as_of", "gen_random_uuid(), 'hand', 'medium', now()"),
    ("consolidation_marks", "age, after_id", "'old', gen_random_uuid()"),
    (
        "erasures",
        "erasure_id, kind, status, scope, requested_at, requested_by, erase_after",
        "gen_random_uuid(), 'user', 'grace', '{}', now(), 'x', now()",
    ),
    ("expiry_notices", "noticed_at, memories", "now(), 0"),
    ("anonymised", "digest, ground, memories", "sha256(''), 'x', 1"),
    ("tombstones", "what, digest, cut, cut_ms, erasure_id", "'subject', sha256(''), '0-0', 0, gen_random_uuid()"),
    ("ebbing_keys.digest_keys", "key", "sha256('')"),
    (
        "exports",
        "export_id, kind, status, law, requested_at, requested_by, job_id, expires_at",
        "gen_random_uuid(), 'access', 'running', 'user', now(), 'x', gen_random_uuid(), now()",
    ),
    (
        "imports",
        "import_id, job_id, format, dry_run, status, requested_at, requested_by, size_bytes, objects",
        "gen_random_uuid(), gen_random_uuid(), 'jsonl', false, 'running', now(), 'x', 1, '{}'",
    ),
    (
        "privacy_requests",
        "request_id, nature, law, manner, received_at",
        "gen_random_uuid(), 'access', 'user', 'api', now()",
    ),
    ("segments", "segment_id, path, bytes, checksum, records", "gen_random_uuid(), 'x', 1, '', 1"),
    ("self_test_runs", "run_id, as_of, seed, target_ms", "gen_random_uuid(), now(), 1, 50"),
    (
        "recorded_searches",
        "search_id, searched_at, session, request, term_ids, memory_ids, layout, parts, bases, results, corrections",
        "gen_random_uuid(), now(), 0, '{}', '{}', '{}', 1, '', '{}', '{}', '{}'",
    ),
    ("supersessions", "memory_id, named, status, source", "gen_random_uuid(), 'x', 'waiting', 'caller'"),
    (
        "hidden_supersessions",
        "supersession_id, is_added, erasure_id, memory_id, body",
        "gen_random_uuid(), true, gen_random_uuid(), gen_random_uuid(), '{}'",
    ),
    ("contradiction_watermarks", "accepted_until", "now()"),
    ("operators", "operator_id, issuer, sub, name", "gen_random_uuid(), 'x', 'x', 'x'"),
    ("missing_links", "memory_id, named, kind, weight, reason", "gen_random_uuid(), 'x', 'x', 1, 'missing'"),
    ("hold_changes", "hold_id, changed_by, reason", "gen_random_uuid(), 'x', 'x'"),
    ("subject_retention", "subject, category, keep_days, set_by", "'x', '', 1, 'x'"),
    ("ebbing_keys.owner_keys", "owner, wrapped", "'', ''"),
    ("ebbing_keys.record_keys", "key_id, owner, wrapped", "gen_random_uuid(), '', ''"),
)


@pytest.fixture
def filled(service: Service) -> Service:
    tenant = service.tenant()
    service.send(tenant.tenant_id, {"text": "x", "thread": "t", "external_id": "k"}, "y")
    service.work()
    service.send(tenant.tenant_id, {"text": "z", "external_id": "k"})
    service.post(tenant.tenant_id, b"no JSON")
    service.work()
    service.rows(
        "INSERT INTO memory_windows (tenant_id, space_id, memory_id, place, from_char, to_char, embedding) "
        "SELECT tenant_id, space_id, memory_id, 0, 0, 1, embedding FROM embeddings"
    )
    for table, columns, values in HISTORY:
        insert = f"INSERT INTO {table} (tenant_id, memory_id, {columns}) VALUES (%s, %s, {values})"  # noqa: S608 - constants
        service.rows(insert, *ROW.values())
    hold = "INSERT INTO holds (tenant_id, hold_id, subject, reason, placed_by) VALUES (%s, %s, 'x', 'x', 'x')"
    service.rows(hold, *ROW.values())
    act = (
        "INSERT INTO operator_acts (tenant_id, act_id, at, actor, act, target, reason) "
        "VALUES (%s, %s, now(), 'x', 'x', '', 'x')"
    )
    service.rows(act, *ROW.values())
    moved = "INSERT INTO tier_moves (tenant_id, day, move, rule, memories) VALUES (%s, now(), 'cold', 'decay', 1)"
    service.rows(moved, ROW["tenant_id"])
    service.rows(
        "INSERT INTO pca_bases (tenant_id, space_id, matrix, mean, variance_kept, samples) "
        "VALUES (%s, 1, '', '', 0, 0)",
        tenant.tenant_id,
    )
    for table, columns, values in OTHERS:
        insert = f"INSERT INTO {table} (tenant_id, {columns}) VALUES (%s, {values}) ON CONFLICT DO NOTHING"  # noqa: S608 - constants
        service.rows(insert, ROW["tenant_id"])
    return service


def test_without_a_tenant_there_are_no_rows(filled: Service, guarded: list[str]) -> None:
    for table in guarded:
        rows = f"SELECT count(*) FROM {table}"  # noqa: S608 - a name from the catalogue
        assert filled.one(rows) > 0, f"the test puts nothing into {table}"
        with database.shared() as tx:
            assert tx.execute(text(rows)).scalar() == 0, table


INSERT = text(
    "INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at) "
    "VALUES (:tenant_id, :memory_id, now(), now(), now())"
)


def insert_as(tenant: UUID | None) -> None:
    """Insert the row in a transaction of this tenant."""
    transaction = database.shared() if tenant is None else database.tenant(tenant)
    with transaction as tx:
        tx.execute(INSERT, ROW)


@pytest.mark.parametrize("tenant", [None, uuid4()], ids=["no tenant", "another tenant"])
def test_a_foreign_row_cant_be_written(service: Service, tenant: UUID | None) -> None:
    with pytest.raises(DBAPIError, match="row-level security"):
        insert_as(tenant)
    insert_as(UUID(ROW["tenant_id"]))
    with pytest.raises(DBAPIError, match="row-level security"), database.tenant(UUID(ROW["tenant_id"])) as tx:
        tx.execute(text("UPDATE memory_state SET tenant_id = :other"), {"other": uuid4()})


def see_and_fail(tenant_id: UUID) -> None:
    with database.tenant(tenant_id) as tx:
        assert tx.execute(text("SELECT count(*) FROM memories")).scalar_one() > 0
        tx.execute(text("SELECT 1 / 0"))


def test_after_a_failed_transaction_the_tenant_is_forgotten(filled: Service) -> None:
    filled.configure(database_pool_size=1)
    database.close()
    tenant_id = filled.one("SELECT tenant_id FROM tenants LIMIT 1")
    for _ in range(3):
        with pytest.raises(DBAPIError):
            see_and_fail(tenant_id)
        with database.shared() as tx:
            assert tx.execute(text("SELECT count(*) FROM memories")).scalar() == 0
        with pytest.raises(DBAPIError, match="row-level security"):
            insert_as(None)


@pytest.mark.parametrize("poison", ["", "x", "' OR true --"])
def test_a_tenant_of_another_form_sees_nothing(filled: Service, poison: str) -> None:
    with database.shared() as tx:
        tx.execute(text("SELECT set_config('ebbing.tenant', :poison, true)"), {"poison": poison})
        try:
            rows = tx.execute(text("SELECT count(*) FROM memories")).scalar()
        except DBAPIError:
            rows = 0
            tx.rollback()
    assert rows == 0


# --- Two tenants over two connections ---


@pytest.fixture
def two(service: Service) -> list[UUID]:
    service.configure(database_pool_size=2)
    database.close()
    tenants = [service.tenant().tenant_id for _ in range(2)]
    for tenant_id in tenants:
        with database.tenant(tenant_id) as tx:
            tx.execute(INSERT, [{"tenant_id": tenant_id, "memory_id": UUID(int=n)} for n in range(5)])
    return tenants


@pytest.mark.essential
def test_in_any_order_of_two_tenants_work_no_foreign_row_is_seen(two: list[UUID]) -> None:
    def work(turn: int) -> set[UUID]:
        chance = random.Random(turn)
        tenant_id = two[turn % 2]
        seen: set[UUID] = set()
        with suppress(DBAPIError), database.tenant(tenant_id) as tx:
            seen = set(tx.execute(text("SELECT tenant_id FROM memory_state")).scalars())
            if chance.random() < 0.3:
                tx.execute(text("UPDATE memory_state SET access_count = access_count + 1"))
            if chance.random() < 0.2:
                tx.execute(text("SELECT 1 / 0"))
        assert seen, "the transaction failed before it had seen anything"
        with database.shared() as tx:
            assert tx.execute(text("SELECT count(*) FROM memory_state")).scalar() == 0
        return seen - {tenant_id}

    with ThreadPoolExecutor(4) as pool:
        foreign = list(pool.map(work, range(1000)))
    assert foreign == [set()] * 1000
