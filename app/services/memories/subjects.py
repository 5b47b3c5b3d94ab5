"""Summarise what is stored about a subject: memories, legal holds, exports and open erasures."""

from __future__ import annotations

from app.store.core import database
from app.store.memories import subjects

get = database.in_tenant(subjects.read)
"""Return the counts for a subject."""
