"""SQLAlchemy Core definitions of the two tables whose columns are updated by name.

A test compares their columns with the schema that the migrations create; `ops/schema.md` lists all tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB, REAL
from sqlalchemy.types import TypeEngine

from app.domain.ingest.fields import Field
from app.domain.ingest.memory import COLUMNS

metadata = MetaData()
_MOMENT = DateTime(timezone=True)


def declared(field: Field) -> Column[Any]:
    """Return the column of a declared field of a memory."""
    types: dict[str, TypeEngine[Any]] = {"json": JSONB(), "moment": _MOMENT, "labels": ARRAY(Text)}
    is_needed = field.is_required or field.value_type == "labels"
    return Column(field.name, types.get(field.value_type, Text()), nullable=not is_needed)


memories = Table(
    "memories",
    metadata,
    Column("tenant_id", Uuid, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    *map(declared, COLUMNS),
    Column("text_version", Integer, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    Column("updated_at", _MOMENT),
    Column("deleted_at", _MOMENT),
    Column("made_by", Text, nullable=False),
    Column("written_by", Text),
    Column("says_change", Boolean, nullable=False),
)

memory_state = Table(
    "memory_state",
    metadata,
    Column("tenant_id", Uuid, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("tier", Text, nullable=False),
    Column("salience", REAL),
    Column("salience_source", Text),
    Column("keep_chance", REAL),
    Column("multiplier", REAL, nullable=False),
    Column("access_count", Integer, nullable=False),
    Column("accessed_at", _MOMENT, nullable=False),
    Column("anchored_at", _MOMENT, nullable=False),
    Column("kind", SmallInteger, nullable=False),
    Column("pace", REAL, nullable=False),
    Column("suggested_multiplier", REAL),
    Column("created_at", _MOMENT, nullable=False),
    Column("level", Double, nullable=False),
    Column("retrieval", Double, nullable=False),
    Column("stability", Double, nullable=False),
    Column("policy_version", Integer, nullable=False),
    Column("wanted_tier", Text, nullable=False),
    Column("next_due_at", _MOMENT, nullable=False),
    Column("cross_domain_count", Integer, nullable=False),
    Column("promoted_at", _MOMENT),
    Column("promoted_for", Text),
    Column("promoted_strength", REAL),
    Column("demoted_at", _MOMENT),
    Column("restored_at", _MOMENT),
    Column("reminders", Integer),
)
