"""Detect personal data in memories' texts by rules, and store the findings."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, compress
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.policy.policy import Policy
from app.domain.privacy.parameters import KNOWN, SENSITIVITIES, IdentityKind
from app.domain.privacy.pii_detection import ALL_KINDS, CATEGORY, detect_pii
from app.services.enrichment import reminders
from app.services.enrichment.texts import Texts
from app.store.core import database
from app.store.enrichment import pii_findings
from app.store.enrichment.complete_texts import CompleteText
from app.store.enrichment.pii_findings import StoredFinding
from app.store.enrichment.reminders import ReminderFlags

_SENSITIVITY: Final = dict(zip(KNOWN, SENSITIVITIES, strict=True))
_TABLE: Final = "zone.tab"
_LINE: Final = re.compile(r"^([A-Z]{2})\t[^\t]+\t([^\t\n]+)", re.MULTILINE)


class ScannedTexts(NamedTuple):
    """Results of a scan of memories' texts.

    Attributes:
        concerned: Memories with a finding of personal data, or with an earlier one that must be deleted.
        findings: Findings of personal data.
        flags: Reminder flags that may differ from the stored ones.
    """

    concerned: list[CompleteText]
    findings: list[StoredFinding]
    flags: list[ReminderFlags]

    @property
    def memory_ids(self) -> set[UUID]:
        """Ids of the memories whose rows `store` may change."""
        return {memory.memory_id for memory in self.concerned}.union(entry.memory_id for entry in self.flags)


def scan(texts: Texts, policy: Policy) -> ScannedTexts:
    """Return the personal data and reminder flags in the texts of new or edited memories."""
    regions, identities = phone_regions(policy), policy.privacy.identities
    findings = []
    concerned = [memory for memory in texts.memories if memory.has_finding]
    for memory in texts.memories if identities else compress(texts.memories, texts.screened.personal):
        if (finding := _scan_text(memory, regions, identities)) is not None:
            findings.append(finding)
            if not memory.has_finding:
                concerned.append(memory)
    return ScannedTexts(concerned, findings, reminders.list_flags(texts))


def store(tx: database.Transaction, tenant_id: UUID, scanned: ScannedTexts) -> None:
    """Store what a scan found; the caller has locked the memories' rows and states, but not yet their words."""
    pii_findings.write(tx, tenant_id, scanned.concerned, scanned.findings)
    reminders.write(tx, tenant_id, scanned.flags)


get_findings = database.in_tenant(pii_findings.get)
"""Return the personal data found in a stored memory's text, or None."""


def _scan_text(text: CompleteText, regions: Sequence[str], identities: Sequence[IdentityKind]) -> StoredFinding | None:
    detections = detect_pii(text.text, regions, identities)
    if not detections:
        return None
    kinds = sorted({detection.kind for detection in detections}, key=ALL_KINDS.index)
    categories = sorted({CATEGORY[kind] for kind in kinds}, key=KNOWN.index)
    confidence = max(detection.confidence for detection in detections)
    return StoredFinding(
        text.memory_id, text.text_version, kinds, categories, confidence, max(map(_SENSITIVITY.__getitem__, categories))
    )


def phone_regions(policy: Policy) -> Sequence[str]:
    """Return the countries whose phone numbers are detected: the policy's regions or, by default, the time zone's."""
    regions = policy.privacy.regions
    if regions is not None:
        return regions
    country = _countries().get(policy.time_zone)
    return () if country is None else (country,)


@lru_cache(maxsize=1)
def _countries() -> dict[str, str]:
    """Return the country of each time zone from the system's time zone database; empty if it has no `zone.tab`."""
    tables = (Path(folder) / _TABLE for folder in zoneinfo.TZPATH)
    text = next(chain((table.read_text("utf8") for table in tables if table.is_file()), [""]))
    return {zone: country for country, zone in _LINE.findall(text)}
