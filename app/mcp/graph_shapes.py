"""Arguments and results of the knowledge graph's tools, in the names of the reference memory server."""

from __future__ import annotations

from typing import Annotated

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import Label
from app.domain.search.request import QUERY_MAX_CHARACTERS
from app.domain.strength.links import Kind
from app.mcp.tool import Arguments

ITEMS_MAX = 100
"""Maximum number of entities, relations or observations in a call."""

Content = Annotated[str, msgspec.Meta(min_length=1, max_length=QUERY_MAX_CHARACTERS)]
_Contents = Annotated[list[Content], msgspec.Meta(max_length=ITEMS_MAX)]
_Names = Annotated[list[Label], msgspec.Meta(max_length=ITEMS_MAX)]
_Query = Annotated[str, msgspec.Meta(max_length=QUERY_MAX_CHARACTERS)]


@precompile
class Entity(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """An entity.

    Attributes:
        name: Its unique name, up to 256 characters.
        entityType: Its type, such as `person`; up to 256 characters.
        observations: Facts about it, each a sentence.
    """

    name: Label
    entity_type: Label
    observations: _Contents


@precompile
class Relation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A relation between two entities, in the active voice.

    Attributes:
        from: Name of the first entity.
        to: Name of the second entity.
        relationType: Type of the relation, such as `works_at`; up to 64 characters.
    """

    from_name: Label = msgspec.field(name="from")
    to_name: Label = msgspec.field(name="to")
    relation_type: Kind = msgspec.field(name="relationType")


@precompile
class Additions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """New observations of an entity.

    Attributes:
        entityName: Name of the entity.
        contents: Facts about it, each a sentence.
    """

    entity_name: Label
    contents: _Contents


@precompile
class Deletions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """Observations to delete.

    Attributes:
        entityName: Name of the entity.
        observations: The observations, with their exact text.
    """

    entity_name: Label
    observations: _Contents


class CreateEntities(Arguments, frozen=True):
    """Entities to create.

    Attributes:
        entities: Up to 100 entities; those whose name exists are left out.
    """

    entities: Annotated[list[Entity], msgspec.Meta(max_length=ITEMS_MAX)]


class CreateRelations(Arguments, frozen=True):
    """Relations to create.

    Attributes:
        relations: Up to 100 relations; existing ones are left out.
    """

    relations: Annotated[list[Relation], msgspec.Meta(max_length=ITEMS_MAX)]


class AddObservations(Arguments, frozen=True):
    """Observations to add.

    Attributes:
        observations: Observations by entity; existing ones are left out.
    """

    observations: Annotated[list[Additions], msgspec.Meta(max_length=ITEMS_MAX)]


class DeleteEntities(Arguments, frozen=True, rename="camel"):
    """Entities to delete.

    Attributes:
        entityNames: Names of the entities.
        confirm: True deletes; false only returns what would be deleted.
    """

    entity_names: _Names
    confirm: bool = False


class DeleteObservations(Arguments, frozen=True):
    """Observations to delete.

    Attributes:
        deletions: Observations by entity.
        confirm: True deletes; false only returns what would be deleted.
    """

    deletions: Annotated[list[Deletions], msgspec.Meta(max_length=ITEMS_MAX)]
    confirm: bool = False


class DeleteRelations(Arguments, frozen=True):
    """Relations to delete.

    Attributes:
        relations: The relations.
        confirm: True deletes; false only returns what would be deleted.
    """

    relations: Annotated[list[Relation], msgspec.Meta(max_length=ITEMS_MAX)]
    confirm: bool = False


class ReadGraph(Arguments, frozen=True):
    """No arguments."""


class SearchNodes(Arguments, frozen=True):
    """A search.

    Attributes:
        query: Text that occurs in a name, a type or an observation; upper and lower case are equal.
            An empty text finds all.
    """

    query: _Query


class OpenNodes(Arguments, frozen=True):
    """Names of entities.

    Attributes:
        names: The names.
    """

    names: _Names


@precompile
class EntityShown(msgspec.Struct, rename="camel"):
    """An entity with all of its observations."""

    name: str
    entity_type: str
    observations: list[str]


class GraphShown(msgspec.Struct):
    """A part of the graph.

    Attributes:
        entities: The entities with their observations.
        relations: The relations that have at least one of these entities.
    """

    entities: list[EntityShown]
    relations: list[Relation]


class EntitiesShown(msgspec.Struct):
    """The entities that were created."""

    entities: list[EntityShown]


class RelationsShown(msgspec.Struct):
    """The relations that were created."""

    relations: list[Relation]


@precompile
class Added(msgspec.Struct, rename="camel"):
    """The observations that were added to an entity."""

    entity_name: str
    added_observations: list[str]


class AddedShown(msgspec.Struct):
    """The observations that were added, by entity."""

    results: list[Added]


class Outcome(msgspec.Struct):
    """Outcome of a deletion.

    Attributes:
        success: True if the deletion was performed; false for a preview.
        message: What was, or would be, deleted.
    """

    success: bool
    message: str
