"""Columns that many tables have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, Column, DateTime, MetaData, Text, Uuid, text

metadata = MetaData()


def moment(name: str, *, needed: bool = False, default: str | None = None) -> Column[Any]:
    """A time with its zone."""
    return Column(name, DateTime(timezone=True), nullable=not needed, server_default=text(default) if default else None)


def tenant() -> Column[Any]:
    """What every key begins with."""
    return Column("tenant_id", Uuid, primary_key=True)


def labels(name: str) -> Column[Any]:
    """A list of words, empty where there are none."""
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))
