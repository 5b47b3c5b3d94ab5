"""Lane `ingest`: store memories from the stream and index their words."""

from __future__ import annotations

from app import queues
from app.services.enrichment import stage_runner
from app.services.ingest.drain import drain_and_index
from workers.base import task


@task(queues.DRAIN)
def drain() -> None:
    """Store the backlog of the streams, and index it if it is a few memories."""
    drain_and_index()


@task(queues.INDEX)
def index() -> None:
    """Index stored memories to make them searchable by words."""
    stage_runner.run_index_stage()
