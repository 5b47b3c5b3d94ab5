"""Alembic's entry: online only, one transaction a migration, with limits on locks and statements.

A migration that can't get its lock in time fails and may be run again, instead of queueing every query of the
service behind it.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, pool

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "15min"


def run() -> None:
    """Run the migrations asked for on the URL that `app.store.core.migrate` gives."""
    url = context.config.attributes["url"]
    engine = create_engine(
        url,
        poolclass=pool.NullPool,
        connect_args={"options": f"-c lock_timeout={LOCK_TIMEOUT} -c statement_timeout={STATEMENT_TIMEOUT}"},
    )
    with engine.connect() as connection:
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()


run()
