"""Names and street addresses in texts: subjects are proposed by them, and reports count them; nothing else happens.

Issue 21, number 14: detected names and addresses count for subject search and erasure reports.
"""

from __future__ import annotations

import pytest

from app.domain.privacy.identities.mentions import MentionFinder
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.memories import identity_mentions
from app.services.memories.identity_mentions import SubjectMentions
from tests.service import Service
from tests.services.due_deletions import UNFINISHED, worked

SAID = (
    {"text": "My neighbour Mei Chen lives at 12 High Street", "subject": "bob"},
    {"text": "We met Mei Chen again", "subject": "bob"},
    {"text": "Dinner with Ms Chen", "subject": "cleo"},
    {"text": "The mei chen noodles were good", "subject": "dan"},
    {"text": "Mei Chen called"},
    {"text": "likes tea", "subject": "Mei Chen"},
)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("mei chen", "We met Mei Chen again", "person_name"),
        ("MEI CHEN", "We met Mei Chen again", "person_name"),
        ("Chen", "We met Mei Chen again", "person_name"),
        ("Jose Garcia", "My colleague José García called", "person_name"),
        ("12 high street", "She lives at 12 High Street", "street_address"),
        ("mei chen", "the mei chen noodles", None),
        ("Chen Mei", "We met Mei Chen again", None),
        ("12 High Street", "He counted 12 of them in High Street", None),
        ("M", "We met M again", None),
    ],
)
def test_a_name_is_found_where_rules_detect_a_name(name: str, text: str, kind: str | None) -> None:
    assert MentionFinder(name).find(text) == kind


def test_subjects_whose_texts_mention_a_name_are_proposed_most_mentions_first(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    service.send(tenant_id, *map(dict, SAID))
    service.work()
    service.send(service.tenant().tenant_id, {"text": "We met Mei Chen again", "subject": "another tenant's"})
    service.work()
    found = identity_mentions.find_mentions(tenant_id, "mei chen")
    assert found.subjects == [SubjectMentions("bob", "person_name", 2), SubjectMentions(None, "person_name", 1)]
    assert found.is_complete
    [by_address] = identity_mentions.find_mentions(tenant_id, "12 High Street").subjects
    assert by_address == SubjectMentions("bob", "street_address", 1)
    assert {each.subject for each in identity_mentions.find_mentions(tenant_id, "Chen").subjects} == {
        "bob",
        "cleo",
        None,
    }


def test_a_search_that_compares_only_a_part_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant_id = service.tenant().tenant_id
    service.send(tenant_id, *map(dict, SAID))
    service.work()
    monkeypatch.setattr(identity_mentions, "_PAGE", 2)
    assert identity_mentions.find_mentions(tenant_id, "mei chen").subjects[0].memories == 2, "pages are joined"
    monkeypatch.setattr(identity_mentions, "ROWS_MAX", 2)
    assert not identity_mentions.find_mentions(tenant_id, "mei chen").is_complete


def test_an_erasure_erases_no_mention_and_its_report_counts_them(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    service.send(tenant_id, *map(dict, SAID))
    service.work()
    asked = requests.request(tenant_id, ErasureOptions(Scope(subject="Mei Chen"), "gdpr", 0), "key")
    worked(service, UNFINISHED)
    assert service.one("SELECT count(*) FROM memories WHERE text LIKE '%%Mei Chen%%'") == 3
    report = read_report(tenant_id, asked.erasure_id)
    assert report["mentioned"] == {"memories": 3, "subjects": 2, "complete": True}
