"""Open connections and transactions: one engine per role, and transactions that see only one tenant's rows.

Pools are opened on first use and dropped in forked children, so processes never share a socket.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from itertools import count
from typing import Concatenate, Literal, ParamSpec, TypeVar
from uuid import UUID

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.errors import Misconfigured
from app.settings import settings
from app.store.core import pools
from app.store.core.pools import PoolUsage

Role = Literal["ebbing_app", "ebbing_drain"]
P = ParamSpec("P")
R = TypeVar("R")

_engines: dict[Role, Engine] = {}
_numbers = count(1)
_opened = 0
_BIND = "SELECT set_config('ebbing.tenant', %(tenant)s, true)"
_SIMULATED = "ebbing_simulated_now"
_SETTINGS = "ebbing_settings"

_simulated: ContextVar[tuple[UUID, datetime] | None] = ContextVar("simulated", default=None)

# SQLSTATE prefixes of transient errors: connection, resources, operator, system, read-only server, rollback, lock.
_PASSING = ("08", "53", "57", "58", "25006", "40", "55P03")


# Aliases for the services, which don't import the driver.
DatabaseError = SQLAlchemyError
Transaction = Connection


@contextmanager
def tenant(tenant_id: UUID, settings_sql: str = "") -> Iterator[Connection]:
    """Open a transaction that sees only this tenant's rows; commit at the end, roll back on an error.

    Args:
        settings_sql: Further settings of the transaction, as `set_config` calls separated by commas.
    """
    with pools.begin_transaction(engine("ebbing_app")) as tx:
        tx.exec_driver_sql(f"{_BIND}, {settings_sql}" if settings_sql else _BIND, {"tenant": str(tenant_id)})
        if settings_sql:
            tx.execution_options(**{_SETTINGS: settings_sql})
        simulated = _simulated.get()
        if simulated is not None and simulated[0] == tenant_id:
            tx.execution_options(**{_SIMULATED: simulated[1]})
        yield tx


@contextmanager
def at(tenant_id: UUID, moment: datetime) -> Iterator[None]:
    """Override `now` within this block and thread for transactions of a simulated tenant.

    Raises:
        ValueError: The tenant isn't simulated.
    """
    with shared() as tx:
        if not tx.execute(_IS_SIMULATED, {"tenant": tenant_id}).scalar():
            raise ValueError(f"the tenant {tenant_id} isn't simulated: its time is the database's")
    token = _simulated.set((tenant_id, moment))
    try:
        yield
    finally:
        _simulated.reset(token)


_IS_SIMULATED = text("SELECT simulated FROM tenants WHERE tenant_id = :tenant")


@contextmanager
def shared() -> Iterator[Connection]:
    """Open a transaction without a tenant: it sees all rows of the shared tables, and no tenant's memories."""
    with pools.begin_transaction(engine("ebbing_app")) as tx:
        yield tx


@contextmanager
def drain() -> Iterator[Connection]:
    """Open a transaction of the role `ebbing_drain`, which sees the rows of all tenants and may COPY.

    The role can read only the tables and columns granted to it.
    """
    with pools.begin_transaction(engine("ebbing_drain")) as tx:
        yield tx


def in_tenant(function: Callable[Concatenate[Connection, UUID, P], R]) -> Callable[Concatenate[UUID, P], R]:
    """Wrap a store function so that it opens the tenant's transaction itself."""

    def run(tenant_id: UUID, /, *args: P.args, **options: P.kwargs) -> R:
        with tenant(tenant_id) as tx:
            return function(tx, tenant_id, *args, **options)

    return run


def in_shared(function: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Wrap a store function so that it opens a transaction of `shared` itself."""

    def run(*args: P.args, **options: P.kwargs) -> R:
        with shared() as tx:
            return function(tx, *args, **options)

    return run


def engine(role: Role) -> Engine:
    """Return this process's engine for a role."""
    if role not in _engines:
        _engines[role] = _open(role)
    return _engines[role]


def pool() -> PoolUsage:
    """Return this process's connection pool usage and reset its peaks."""
    return pools.read_usage(list(_engines.values()))


def count_opened() -> int:
    """Return a number that grows with each connection opened by this process.

    A caller that caches facts about the database must discard them when the number changes: the new connection may lead
    to a different database.
    """
    return _opened


def _count_opening(*_: object) -> None:
    global _opened  # noqa: PLW0603 - process-wide state
    _opened = next(_numbers)


def now(tx: Connection) -> datetime:
    """Return the transaction's simulated time, or else the database's current time, which is authoritative.

    The database's time is `clock_timestamp()`, so time spent waiting for locks is included.
    """
    moment: datetime = simulated_now(tx) or tx.execute(text("SELECT clock_timestamp()")).scalar_one()
    return moment


def initial_settings(tx: Connection) -> str:
    """Return the `settings_sql` with which this transaction was opened."""
    settings_sql: str = tx.get_execution_options().get(_SETTINGS, "")
    return settings_sql


def simulated_now(tx: Connection) -> datetime | None:
    """Return the simulated time of this transaction, or None if it was opened without one (see `at`)."""
    moment: datetime | None = tx.get_execution_options().get(_SIMULATED)
    return moment


def bypasses_row_security() -> bool:
    """Return True if the service's role bypasses row-level security, which would expose every tenant's rows."""
    with shared() as tx:
        return bool(tx.execute(_BYPASSES).scalar_one())


_BYPASSES = text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")


def is_passing(error: BaseException) -> bool:
    """Return True if the error is transient: a retry of the unchanged operation may succeed."""
    if isinstance(error, DBAPIError):
        if error.connection_invalidated or isinstance(error, InterfaceError):
            return True
        error = error.orig if error.orig is not None else error
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        return state.startswith(_PASSING) or (not state and isinstance(error, psycopg.OperationalError))
    return isinstance(error, PoolTimeoutError | ConnectionError | TimeoutError)


def is_locked_out(error: BaseException) -> bool:
    """Return True if a lock of another transaction prevented the operation: a lock timeout or a deadlock."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected)


def is_too_slow(error: BaseException) -> bool:
    """Return True if PostgreSQL cancelled the statement, as it does after `EBBING_STATEMENT_TIMEOUT_SECONDS`."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.errors.QueryCanceled)


def database_url() -> str:
    """Return the URL of the service's PostgreSQL.

    Raises:
        Misconfigured: No URL is set.
    """
    url = settings().database_url
    if url is None:
        message = "EBBING_DATABASE_URL isn't set: set it, or use `ebbing run`, which starts its own PostgreSQL"
        raise Misconfigured(message)
    return url.get_secret_value()


def driver_url(url: str) -> str:
    """Return the URL with psycopg 3 as SQLAlchemy's driver."""
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def close() -> None:
    """Close all pools, at shutdown and between tests."""
    for opened in _engines.values():
        opened.dispose()
    _engines.clear()


def close_idle() -> None:
    """Close the connections that aren't in use. Their backends, which cache plans and catalogs, then return memory."""
    for opened in list(_engines.values()):
        opened.dispose()


def _open(role: Role) -> Engine:
    config = settings()
    milliseconds = int(config.statement_timeout_seconds * 1000)
    # A plan cached while a table was empty becomes extremely slow as the table grows, so every execution is planned
    # again, except for the statements of `kept_plans`.
    options = (
        f"-c role={role} -c jit=off -c plan_cache_mode=force_custom_plan -c statement_timeout={milliseconds} "
        f"-c idle_in_transaction_session_timeout={milliseconds} -c timezone=UTC"
    )
    created = create_engine(
        driver_url(database_url()),
        pool_size=config.database_pool_size,
        max_overflow=pools.OVERFLOW,
        pool_timeout=5,
        pool_pre_ping=False,
        pool_recycle=600,
        pool_use_lifo=True,  # reuse few connections: each statement adds to its backend's caches
        hide_parameters=True,  # a failed statement must not carry memory text into an exception
        connect_args={
            "options": options,
            "application_name": f"ebbing {role.removeprefix('ebbing_')}",
            "connect_timeout": 5,
        },
    )
    event.listen(created, "connect", _count_opening)
    pools.watch_engine(created)
    return created


def _forget_after_fork() -> None:
    for inherited in _engines.values():
        inherited.dispose(close=False)
    _engines.clear()
    pools.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
