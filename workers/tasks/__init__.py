"""Tasks, one module a lane."""

from workers.tasks import enrich, ingest, maintain

__all__ = ["enrich", "ingest", "maintain"]
