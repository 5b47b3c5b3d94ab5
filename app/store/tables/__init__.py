"""SQLAlchemy Core definitions of the tables. A test compares them with the schema that the migrations create."""

from app.store.tables import (
    cold,  # noqa: F401 - registers its tables
    consolidation,  # noqa: F401 - registers its tables
    exports,  # noqa: F401 - registers its tables
    privacy,  # noqa: F401 - registers its tables
    searches,  # noqa: F401 - registers its tables
    self_tests,  # noqa: F401 - registers its tables
    service,  # noqa: F401 - registers its tables
    supersessions,  # noqa: F401 - registers its tables
)
from app.store.tables.columns import metadata
from app.store.tables.memories import memories, memory_state, memory_words

__all__ = ["memories", "memory_state", "memory_words", "metadata"]
