"""The whole service as it runs in production: the API, a worker for each lane, and beat."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, NamedTuple

import psycopg
import redis
from celery import Celery
from psycopg import sql

from app import queues
from tests.fundamentals.client import Client, read
from tests.processes import Processes

Row = tuple[Any, ...]

# Backlog limit per tenant, in requests; low, so that tests can fill the queue quickly.
BACKLOG_ENTRIES = 5


class Tenant(NamedTuple):
    """A new tenant as returned to the operator: its id, and the key that is shown only once."""

    tenant_id: str
    api_key: str


@dataclass
class Service:
    """The running service, and operator actions on it."""

    url: str
    operator: Client
    database_url: str
    redis: redis.Redis
    sender: Celery
    processes: Processes
    clients: list[Client] = field(default_factory=list)

    def new_tenant(self) -> Tenant:
        answer = self.operator.http.post("/v1/admin/tenants", json={"name": f"tenant {token_hex(6)}"})
        made = read(answer, dict[str, str])
        return Tenant(made["tenant_id"], made["api_key"])

    def client(self, key: str) -> Client:
        made = Client(self.url, key)
        self.clients.append(made)
        return made

    @contextmanager
    def paused(self, lane: str) -> Iterator[None]:
        """Stop a lane's worker during the block, as if it were very busy."""
        self.processes.signal_all_of(f"worker-{lane}", signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes.signal_all_of(f"worker-{lane}", signal.SIGCONT)

    def tick(self) -> None:
        """Evaluate the schedule now, as beat requests every few seconds."""
        self.sender.send_task(queues.TICK, queue=queues.MAINTAIN)

    def rows(self, statement: sql.SQL, *values: object) -> list[Row]:
        """Query the database where the API doesn't expose a fact that a chapter needs."""
        with psycopg.connect(self.database_url) as tx:
            found = tx.execute(statement, values)
            return found.fetchall() if found.description else []
