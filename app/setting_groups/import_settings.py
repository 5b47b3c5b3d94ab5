"""Settings of imports, a part of `app.settings`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

MIB = 1024 * 1024


class ImportSettings(BaseSettings):
    """Limits of imported files."""

    import_max_bytes: int = Field(256 * MIB, ge=MIB, le=2048 * MIB)
    """Maximum size of a file to import. A worker reads SQLite databases and JSON arrays into its memory."""
