"""Tasks, one module per lane."""

from workers.tasks import enrich, ingest, maintain, rights

__all__ = ["enrich", "ingest", "maintain", "rights"]
