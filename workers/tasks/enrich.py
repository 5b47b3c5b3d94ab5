"""Lanes `embed` and `score`: what stored memories mean, and what they are worth."""

from __future__ import annotations

from app import queues
from app.services.enrichment import enrichment, rate
from workers.base import task


@task(queues.EMBED_MEMORIES)
def embed() -> None:
    """Make what was stored searchable by meaning."""
    enrichment.embed(enrichment.EMBED_THREADS)


@task(queues.SCORE_MEMORIES)
def score() -> None:
    """Judge what was stored."""
    enrichment.score()


@task(queues.RATE_MEMORIES)
def rate_memories() -> None:
    """Ask a model about what only the rules have judged."""
    rate.rate()
