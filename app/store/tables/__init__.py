"""SQLAlchemy Core definitions of the tables. A test compares them with the schema that the migrations create."""

from app.store.tables import cold as _cold  # noqa: F401 - registers its tables
from app.store.tables import consolidation as _consolidation  # noqa: F401 - registers its tables
from app.store.tables import exports as _exports  # noqa: F401 - registers its tables
from app.store.tables import privacy as _privacy  # noqa: F401 - registers its tables
from app.store.tables import searches as _searches  # noqa: F401 - registers its tables
from app.store.tables import self_tests as _self_tests  # noqa: F401 - registers its tables
from app.store.tables import service as _service  # noqa: F401 - registers its tables
from app.store.tables import supersessions as _supersessions  # noqa: F401 - registers its tables
from app.store.tables.columns import metadata
from app.store.tables.memories import memories, memory_state, memory_words

__all__ = ["memories", "memory_state", "memory_words", "metadata"]
