"""Read the declaration of a memory's fields: their types, their tables, and the effects of changing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UnsetType

ValueType = Literal["text", "choice", "labels", "json", "moment"]
_TYPES: Final[Mapping[Any, ValueType]] = {
    str: "text",
    Literal: "choice",
    tuple: "labels",
    dict: "json",
    datetime: "moment",
}


@dataclass(frozen=True, slots=True)
class Column:
    """Storage of a field, as an annotation of its type; fields without it are ordinary columns of `memories`.

    Attributes:
        table: The table with a column of the field's name; None if no table has one.
        is_key: The field is the caller's id of the memory. Edits and upserts keep the id; the COPY statement for new
            memories (`MEMORIES_COPY` in `store.core.binary_copy`) omits it.
        is_clearable: An edit may set the field to null, if its type allows null.
        is_enriched: A change of the field changes the indexed words or the vector of the memory or its neighbours.
        is_cold: If the memory is in cold storage, its record there contains the value; the row in PostgreSQL contains
            the column's default, or an abridged text.
        is_kept: The field keeps its value if a memory is sent again by its external id without the field.
        sets: The column that a field without its own column sets, such as `expires_at` for `keep_days`.
    """

    table: Literal["memories", "memory_state"] | None = "memories"
    is_key: bool = False
    is_clearable: bool = True
    is_enriched: bool = False
    is_cold: bool = False
    is_kept: bool = False
    sets: str | None = None

    @property
    def is_editable(self) -> bool:
        """True if an edit may change the field."""
        return (self.table is not None or self.sets is not None) and not self.is_key


@dataclass(frozen=True, slots=True)
class Field:
    """A declared field.

    Attributes:
        submitted: Type of the field with limits.
        plain: Type of the field without limits.
        default: Value of an omitted field; `NODEFAULT` for a required field.
    """

    name: str
    column: Column
    submitted: Any = field(repr=False)
    plain: Any
    default: Any

    @property
    def is_required(self) -> bool:
        """True if a memory without the field is refused."""
        return self.default is NODEFAULT

    @property
    def edited(self) -> Any:
        """Type of the field in an edit, where it is optional."""
        return (self.submitted if self.column.is_clearable else without_null(self.submitted)) | UnsetType

    @property
    def value_type(self) -> ValueType:
        """Type of the field's values, apart from null."""
        plain = without_null(self.plain)
        return _TYPES[get_origin(plain) or plain]

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible values of a field of the type `choice`; empty for other types."""
        return get_args(without_null(self.plain)) if self.value_type == "choice" else ()


def declared(shape: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the declared fields of a struct, in order."""
    submitted, plain = get_type_hints(shape, include_extras=True), get_type_hints(shape)
    fields = []
    for member in msgspec.structs.fields(shape):
        hint, column = submitted[member.name], Column()
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[-1], Column):
            column = hint.__metadata__[-1]
        fields.append(Field(member.name, column, hint, plain[member.name], member.default))
    return tuple(fields)


def without_null(hint: Any) -> Any:
    """Return a type without null among its alternatives."""
    if get_origin(hint) is Annotated:
        return Annotated[without_null(hint.__origin__), *hint.__metadata__]
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, (alternative for alternative in get_args(hint) if alternative is not NoneType))
    return hint
