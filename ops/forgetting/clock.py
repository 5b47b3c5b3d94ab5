"""Set the clocks that the service reads: the database's, and the one to which times in queries refer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from unittest import mock
from uuid import UUID

from app.services.search import search
from app.store.core import database


@contextmanager
def at(tenant_id: UUID, moment: datetime) -> Iterator[None]:
    """Let it be this moment for a simulated tenant; results then don't depend on the day of the measurement."""
    # A search reads the wall clock to resolve times such as "last week".
    with database.at(tenant_id, moment), mock.patch.object(search, "datetime", SimpleNamespace(now=moment.astimezone)):
        yield
