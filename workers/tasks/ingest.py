"""Lane `ingest`: from the stream into rows, and from rows to words."""

from __future__ import annotations

from app import queues
from app.services.enrichment import enrichment
from app.services.ingest import ingest
from workers.base import task


@task(queues.DRAIN)
def drain() -> None:
    """Store what waits in the streams."""
    ingest.drain()


@task(queues.INDEX)
def index() -> None:
    """Make what was stored searchable by words."""
    enrichment.index()
