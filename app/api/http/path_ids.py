"""Ids in paths: text that isn't an id gets the 404 of an unknown one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from pydantic_core import CoreSchema, core_schema

from app.errors import require_found


@dataclass(frozen=True, slots=True)
class PathId:
    """Annotation of a path parameter that contains an id; `noun` names the identified object in errors and OpenAPI."""

    noun: str

    def __get_pydantic_core_schema__(self, *_: object) -> CoreSchema:
        """Describe the parameter as text, which `parse` reads."""
        return core_schema.no_info_after_validator_function(self.parse, core_schema.str_schema())

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, str]:
        """Describe the parameter in OpenAPI."""
        return {"type": "string", "description": f"Id of the {self.noun}."}

    def parse(self, text: str) -> UUID:
        """Parse an id.

        Raises:
            NotFound: The text isn't an id.
        """
        try:
            parsed = UUID(text)
        except ValueError:
            parsed = None
        return require_found(parsed, self.noun)


MEMORY: Final = PathId("memory")

ErasureId = Annotated[UUID, PathId("erasure")]
ExportId = Annotated[UUID, PathId("export")]
HoldId = Annotated[UUID, PathId("hold")]
ImportId = Annotated[UUID, PathId("import")]
JobId = Annotated[UUID, PathId("job")]
LetterId = Annotated[UUID, PathId("dead letter")]
MemoryId = Annotated[UUID, MEMORY]
MergeId = Annotated[UUID, PathId("merge")]
QuarantineId = Annotated[UUID, PathId("quarantine")]
RequestId = Annotated[UUID, PathId("request")]
SupersessionId = Annotated[UUID, PathId("supersession")]
TenantId = Annotated[UUID, PathId("tenant")]
WebhookId = Annotated[UUID, PathId("webhook")]
