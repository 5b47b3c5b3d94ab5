"""Names of the lanes, and their queues. `app.queues`, which imports Celery, decides which task goes to which queue."""

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
