"""Lanes and their queues, for modules that need no more of `app.queues`, which imports Celery."""

from __future__ import annotations

from typing import Final

INGEST: Final = "ingest"
EMBED: Final = "embed"
SCORE: Final = "score"
RIGHTS: Final = "rights"
MAINTAIN: Final = "maintain"

# Each lane has its own worker process and queues: with shared workers, ingest would wait seconds behind maintenance,
# and erasures behind a nightly run.
LANES: Final[dict[str, tuple[str, ...]]] = {
    "ingest": (INGEST,),
    "embed": (EMBED,),
    "score": (SCORE,),
    "rights": (RIGHTS,),
    "maintain": (MAINTAIN,),
}
