"""Create the service's database and login on a PostgreSQL server that no other application uses (`ebbing run`)."""

from __future__ import annotations

import psycopg
from psycopg import sql

from app.errors import Misconfigured

CONNECT_TIMEOUT_SECONDS = 10


def create_database(superuser_url: str, database: str, role: str, role_password: str) -> None:
    """Create `database` and the login role `role`, which can't bypass row-level security.

    Idempotent: an existing database and role are retained, and the role's password is set to `role_password`. The
    migrations grant the role its privileges.

    Raises:
        Misconfigured: The server refused.
    """
    try:
        with psycopg.connect(superuser_url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_SECONDS) as connection:
            # Hashed on the client, so the server never sees the password itself.
            hashed = connection.pgconn.encrypt_password(role_password.encode(), role.encode(), b"scram-sha-256")
            if not connection.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone():
                connection.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
            connection.execute(
                sql.SQL(
                    "alter role {} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls "
                    "noinherit password {}"
                ).format(sql.Identifier(role), sql.Literal(hashed.decode()))
            )
            if not connection.execute("select 1 from pg_database where datname = %s", [database]).fetchone():
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(database)))
    except psycopg.Error as error:
        raise Misconfigured(f"database {database} can't be set up: {error}") from error
