"""Migrations: from an empty database, down and up again, without drift, one at a time, with short lock waits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import sql
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from app.errors import Misconfigured
from app.store.core import migrate
from app.store.core.database import driver_url
from app.store.tables import metadata
from ops.checks import schema_page
from tests.servers import Servers
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def empty_url(servers: Servers) -> Iterator[str]:
    """Owner's URL of an empty database."""
    name = f"empty_{token_hex(6)}"
    with psycopg.connect(servers.database_url, autocommit=True) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield servers.database_url.rpartition("/")[0] + f"/{name}"
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def connected(url: str) -> Iterator[sqlalchemy.Connection]:
    engine = create_engine(driver_url(url), poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        yield connection


def revision(url: str) -> str | None:
    with connected(url) as connection:
        return migrate.current_revision(connection)


def schema(url: str) -> list[tuple[Any, ...]]:
    """Return columns, indexes, policies and grants from the catalogue."""
    queries = (
        (
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
            "WHERE table_schema = 'public'"
        ),
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies",
        (
            "SELECT grantee, table_name, privilege_type FROM information_schema.table_privileges "
            "WHERE table_schema = 'public'"
        ),
        (
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = 'public'::regnamespace"
        ),
        (
            "SELECT relname, relrowsecurity, relforcerowsecurity, reloptions FROM pg_class "
            "WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        ),
    )
    with psycopg.connect(url) as connection:
        return [tuple(map(str, row)) for query in queries for row in sorted(connection.execute(query), key=str)]


def test_an_empty_database_gets_the_newest_schema(empty_url: str) -> None:
    assert revision(empty_url) is None
    migrate.upgrade(empty_url)
    assert revision(empty_url) == migrate.newest_revision()
    migrate.upgrade(empty_url)
    assert revision(empty_url) == migrate.newest_revision()


@pytest.mark.slow
def test_every_step_goes_down_and_up_again_to_the_same(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    before = schema(empty_url)
    steps = [step.revision for step in ScriptDirectory(str(migrate.MIGRATIONS)).walk_revisions()]
    for step in [*steps[1:], "base"]:
        migrate.downgrade(empty_url, step)
        assert revision(empty_url) == (None if step == "base" else step)
    assert schema_page.page(empty_url) == schema_page.HEAD
    for step in reversed(steps):
        migrate.upgrade(empty_url, step)
    assert schema(empty_url) == before


def test_there_is_one_newest_revision() -> None:
    assert ScriptDirectory(str(migrate.MIGRATIONS)).get_heads() == [migrate.newest_revision()]


def drift(url: str) -> list[Any]:
    """Return differences between the tables that the code declares and the database's; indexes aren't declared."""
    opts = {
        "compare_type": True,
        "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
        "include_object": lambda _item, _name, kind, _reflected, _other: kind != "index",
    }
    with connected(url) as connection:
        return list(compare_metadata(MigrationContext.configure(connection, opts=opts), metadata))


def test_the_tables_of_the_code_are_those_of_the_migrations(database_url: str) -> None:
    assert drift(database_url) == []


def test_drift_would_be_seen(database_url: str) -> None:
    """Otherwise the test above would prove nothing."""
    with psycopg.connect(database_url) as owner:
        owner.execute("ALTER TABLE memories ADD COLUMN extra text")
        owner.execute("ALTER TABLE memories ALTER COLUMN speaker SET NOT NULL")
        owner.execute("ALTER TABLE memory_state ALTER COLUMN pace TYPE double precision")
    assert len(drift(database_url)) == 3


def test_the_page_of_tables_is_that_of_the_migrations(database_url: str) -> None:
    assert schema_page.PAGE.read_text() == schema_page.page(database_url)
    with psycopg.connect(database_url) as owner:
        owner.execute("DROP INDEX memories_subject")
    assert schema_page.PAGE.read_text() != schema_page.page(database_url)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Shorten the lock timeout of migrations to a tenth; lists the options with which they connected."""
    asked: list[str] = []
    create = sqlalchemy.create_engine

    def create_engine(url: str, *, connect_args: dict[str, str], **given: Any) -> sqlalchemy.Engine:
        asked.append(connect_args["options"])
        options = connect_args["options"].replace("lock_timeout=5s", "lock_timeout=500ms")
        return create(url, connect_args={"options": options}, **given)

    monkeypatch.setattr("sqlalchemy.create_engine", create_engine)
    return asked


def test_a_lock_that_is_held_makes_it_fail_in_time_and_leaves_nothing_half_done(
    empty_url: str, impatient: list[str]
) -> None:
    migrate.upgrade(empty_url, "0001")
    before = schema(empty_url)
    with psycopg.connect(empty_url) as holder:
        holder.execute("SELECT count(*) FROM memories")  # a plain read blocks a migration that drops the table
        with pytest.raises(OperationalError) as raised:
            migrate.downgrade(empty_url, "base")
        assert isinstance(raised.value.orig, psycopg.errors.LockNotAvailable)
    assert all("lock_timeout=5s" in options and "statement_timeout=" in options for options in impatient)
    assert revision(empty_url) == "0001"
    assert schema(empty_url) == before


UPGRADE = "import sys; from app.store.core.migrate import upgrade; upgrade(sys.argv[1])"


@pytest.mark.slow
def test_two_upgrades_at_once_are_one_after_the_other(empty_url: str) -> None:
    upgrades = [
        subprocess.Popen([sys.executable, "-c", UPGRADE, empty_url], cwd=ROOT, env=os.environ, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    failures = [upgrade.communicate(timeout=PATIENCE_SECONDS)[1] for upgrade in upgrades]
    assert [upgrade.returncode for upgrade in upgrades] == [0, 0], failures
    assert revision(empty_url) == migrate.newest_revision()


def test_what_was_there_before_is_counted(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0006")
    with psycopg.connect(empty_url) as owner:
        owner.execute(
            "INSERT INTO memories (tenant_id, memory_id, seq, text, created_at) "
            "SELECT '00000000-0000-0000-0000-000000000001', gen_random_uuid(), n, 'größe', now() "
            "FROM generate_series(1, 6) AS n"
        )
        owner.execute(
            "INSERT INTO memory_state (tenant_id, memory_id, tier, created_at, accessed_at, anchored_at) "
            "SELECT tenant_id, memory_id, (ARRAY['active', 'active', 'active', 'archived', 'cold', 'deleted'])[seq], "
            "now(), now(), now() FROM memories"
        )
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url) as owner:
        found = owner.execute("SELECT active, archived, cold, text_bytes FROM tenant_counts").fetchall()
    assert found == [(3, 1, 1, 5 * 7)]


def test_stored_memories_are_queued_to_get_their_reminders(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0025")
    with psycopg.connect(empty_url) as owner:
        owner.execute(
            "INSERT INTO memories (tenant_id, memory_id, seq, text, created_at, deleted_at) "
            "SELECT '00000000-0000-0000-0000-000000000001', gen_random_uuid(), n, 'on Mondays', now(), "
            "CASE WHEN n > 2 THEN now() END FROM generate_series(1, 3) AS n"
        )
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url) as owner:
        queued = owner.execute("SELECT unnest(memory_ids) FROM tenant_work WHERE stage = 'index'").fetchall()
        stored = owner.execute("SELECT memory_id FROM memories WHERE deleted_at IS NULL").fetchall()
    assert sorted(queued) == sorted(stored)
    assert len(stored) == 2


def test_notices_are_told_from_extensions_and_confirmations_from_answers(empty_url: str) -> None:
    migrate.upgrade(empty_url, "0040")
    with psycopg.connect(empty_url) as owner:
        owner.execute(
            "INSERT INTO privacy_requests (tenant_id, request_id, nature, law, manner, received_at, confirmed_at, "
            "answered_at, extended_at, answer) "
            "SELECT '00000000-0000-0000-0000-000000000001', gen_random_uuid(), 'access', 'gdpr', 'mail', "
            "'2026-01-01', confirmed, answered, extended, 'done' FROM (VALUES "
            "(CAST('2026-01-05' AS timestamptz), CAST('2026-01-05' AS timestamptz), CAST(NULL AS timestamptz)), "
            "('2026-01-02', '2026-01-05', '2026-01-03')) AS given (confirmed, answered, extended)"
        )
    migrate.upgrade(empty_url)
    with psycopg.connect(empty_url) as owner:
        found = owner.execute(
            "SELECT confirmed_at::date::text, notice_sent_at = extended_at FROM privacy_requests ORDER BY 1 NULLS FIRST"
        ).fetchall()
    assert found == [(None, None), ("2026-01-02", True)]


def test_a_login_without_the_rights_is_told_which_it_needs(empty_url: str) -> None:
    name = f"weak_{token_hex(4)}"
    with psycopg.connect(empty_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'weak'").format(sql.Identifier(name)))
        server.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(name)))
        try:
            host = empty_url.rpartition("@")[2]
            with pytest.raises(Misconfigured, match="EBBING_OWNER_DATABASE_URL"):
                migrate.upgrade(f"postgresql://{name}:weak@{host}")
        finally:
            server.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
    assert "memories" not in {row[0] for row in schema(empty_url)}
