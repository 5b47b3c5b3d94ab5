"""Lanes `embed` and `score`: embed stored memories, rate their salience, and send webhooks."""

from __future__ import annotations

from app import queues
from app.services.enrichment import score_by_model, stage_runner
from app.services.webhooks import delivery
from workers.base import task


@task(queues.EMBED_MEMORIES)
def embed() -> None:
    """Embed stored memories to make them searchable by meaning."""
    stage_runner.embed(stage_runner.EMBED_THREADS)


@task(queues.SCORE_MEMORIES)
def score() -> None:
    """Score stored memories."""
    stage_runner.run_score_stage()


@task(queues.RATE_MEMORIES)
def rate_memories() -> None:
    """Have a model rate memories that only have a rule-based score."""
    score_by_model.rate_memories()


@task(queues.WEBHOOKS)
def send_webhooks() -> None:
    """Send changes to the receivers of webhooks."""
    queues.clear_nudge(queues.WEBHOOKS)
    delivery.deliver_webhooks()
