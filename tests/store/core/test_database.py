"""Transactions and pools: one role per pool, no connection shared with a child process, no values in errors."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.store.core import database
from tests.service import Service

CANARY = "canary-6a1f"


def test_each_role_is_whom_it_is_named_for(service: Service) -> None:
    with database.shared() as app, database.drain() as drain:
        assert app.execute(text("SELECT current_user")).scalar() == "ebbing_app"
        assert drain.execute(text("SELECT current_user")).scalar() == "ebbing_drain"


def test_a_transaction_ends_with_all_or_nothing(service: Service) -> None:
    def insert(name: str, then: str = "SELECT 1") -> None:
        with database.shared() as tx:
            tx.execute(text("INSERT INTO tenants (tenant_id, name) VALUES (:id, :name)"), {"id": uuid4(), "name": name})
            tx.execute(text(then))

    insert("kept")
    with pytest.raises(DBAPIError):
        insert("rolled back", "SELECT 1 / 0")
    assert service.rows("SELECT name FROM tenants") == [("kept",)]


def test_an_error_tells_the_statement_without_its_values(service: Service) -> None:
    with pytest.raises(DBAPIError, match="division by zero") as raised, database.shared() as tx:
        tx.execute(text("SELECT 1 / 0 WHERE CAST(:given AS text) <> ''"), {"given": CANARY})
    assert CANARY not in f"{raised.value} {raised.value!r}"


def test_a_statement_has_its_time(service: Service) -> None:
    service.configure(statement_timeout_seconds=0.2)
    database.close()
    with pytest.raises(DBAPIError, match="statement timeout") as raised, database.shared() as tx:
        tx.execute(text("SELECT pg_sleep(3600)"))
    assert database.is_passing(raised.value)


@pytest.mark.slow
def test_a_forked_child_shares_no_connection(service: Service) -> None:
    database.close()  # of several connections, the pool gives another one each time
    with database.shared() as tx:
        mine = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
    reads, writes = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - another process
        try:
            with database.shared() as tx:
                theirs = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
            os.write(writes, str(theirs).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        theirs = int(pipe.read())
    assert theirs != mine
    with database.shared() as tx:
        assert tx.execute(text("SELECT pg_backend_pid()")).scalar_one() == mine


def test_a_connection_that_was_cut_is_replaced(service: Service) -> None:
    with database.shared() as tx:
        role = tx.execute(text("SELECT session_user")).scalar_one()
    service.rows(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE usename = %s AND datname = current_database() AND pid <> pg_backend_pid()",
        role,
    )
    with pytest.raises(DBAPIError) as raised, database.shared() as tx:
        tx.execute(text("SELECT 1"))
    assert database.is_passing(raised.value)
    with database.shared() as tx:
        assert tx.execute(text("SELECT 1")).scalar() == 1
