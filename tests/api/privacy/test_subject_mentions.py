"""`POST /v1/privacy/subjects/search`: subjects are proposed by names and street addresses in their texts."""

from __future__ import annotations

from tests.api.caller import Api


def test_the_search_proposes_subjects_whose_texts_mention_the_name(api: Api) -> None:
    api.remember(
        {"text": "My neighbour Mei Chen lives at 12 High Street", "subject": "bob"},
        {"text": "We met Mei Chen again", "subject": "bob"},
        {"text": "Mei Chen called"},
        {"text": "likes tea", "subject": "Mei Chen"},
        {"text": "Mei Chen wrote this about herself", "subject": "Mei Chen"},
    )
    answer = api.post("/v1/privacy/subjects/search", json={"name": "mei chen"}).json()
    assert [each["subject"] for each in answer["subjects"]] == ["Mei Chen"]
    assert answer["mentions"] == [
        {"subject": "bob", "kind": "person_name", "memories": 2},
        {"subject": None, "kind": "person_name", "memories": 1},
    ]
    assert answer["mentions_complete"] is True
    by_address = api.post("/v1/privacy/subjects/search", json={"name": "12 High Street"}).json()
    assert (by_address["subjects"], by_address["mentions"]) == (
        [],
        [{"subject": "bob", "kind": "street_address", "memories": 1}],
    )
    would = api.post("/v1/privacy/erasures", json={"subject": "Mei Chen", "dry_run": True}).json()
    assert would["memories"] == 2, "a mention is no part of an erasure"
