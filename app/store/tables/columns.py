"""Columns shared by many tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, Column, DateTime, MetaData, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from app.domain.ingest.fields import Field

metadata = MetaData()


def moment(name: str, *, needed: bool = False, default: str | None = None) -> Column[Any]:
    """Return a `timestamptz` column."""
    return Column(name, DateTime(timezone=True), nullable=not needed, server_default=text(default) if default else None)


def tenant() -> Column[Any]:
    """Return the tenant id column, with which every key begins."""
    return Column("tenant_id", Uuid, primary_key=True)


def labels(name: str) -> Column[Any]:
    """Return a column with an array of words, empty by default."""
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


def declared(field: Field) -> Column[Any]:
    """Return the column of a declared field of a memory."""
    if field.value_type == "labels":
        return labels(field.name)
    types: dict[str, TypeEngine[Any]] = {"json": JSONB(), "moment": DateTime(timezone=True)}
    return Column(field.name, types.get(field.value_type, Text()), nullable=not field.is_required)
