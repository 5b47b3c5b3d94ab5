"""Lanes `embed` and `score`: embed stored memories and rate their salience."""

from __future__ import annotations

from app import queues
from app.services.enrichment import enrichment, rate
from workers.base import task


@task(queues.EMBED_MEMORIES)
def embed() -> None:
    """Embed stored memories to make them searchable by meaning."""
    enrichment.embed(enrichment.EMBED_THREADS)


@task(queues.SCORE_MEMORIES)
def score() -> None:
    """Score stored memories."""
    enrichment.score()


@task(queues.RATE_MEMORIES)
def rate_memories() -> None:
    """Have a model rate memories that only have a rule-based score."""
    rate.rate()
