"""Subjects are listed and found by similar names, which requests for an unknown subject propose."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import pytest

from app.services.memories import subjects
from tests.api.caller import Api

LIST = "/v1/privacy/subjects"
ERASURES = "/v1/privacy/erasures"


def remember(api: Api, **memories: int) -> None:
    """Store this number of memories about each subject."""
    api.remember(*({"text": f"{name} {n}", "subject": name} for name, count in memories.items() for n in range(count)))


def search(api: Api, name: str, **more: Any) -> list[tuple[str, str, int]]:
    found = api.post(f"{LIST}/search", json={"name": name} | more).json()
    assert found["complete"] is True
    return [(each["subject"], each["likeness"], each["memories"]) for each in found["subjects"]]


def near(answer: dict[str, Any]) -> list[tuple[str, int]]:
    assert answer["warning"] == "no stored memory has this subject"
    return [(each["subject"], each["memories"]) for each in answer["near"]]


def test_subjects_are_listed_page_by_page_without_names_in_addresses(api: Api) -> None:
    remember(api, ann=2, bob=1, chen=3, dora=1)
    api.remember("about nobody")
    api.delete("/v1/subjects/bob")
    listed, cursor = [], ""
    while cursor is not None:
        page = api.get(f"{LIST}?limit=2{cursor and f'&cursor={cursor}'}").json()
        listed += page["subjects"]
        cursor = page["next_cursor"]
        assert not any(name in str(cursor) for name in ("ann", "bob", "chen", "dora"))
    assert listed == [
        {"subject": "ann", "memories": 2, "hidden": 0},
        {"subject": "bob", "memories": 1, "hidden": 1},
        {"subject": "chen", "memories": 3, "hidden": 0},
        {"subject": "dora", "memories": 1, "hidden": 0},
    ]


def test_a_cursor_of_an_erased_subject_is_refused(api: Api) -> None:
    remember(api, ann=1, bob=1)
    cursor = api.get(f"{LIST}?limit=1").json()["next_cursor"]
    api.service.rows("DELETE FROM memories WHERE subject = 'ann'")
    refused = api.get(f"{LIST}?limit=1&cursor={cursor}")
    assert refused.status_code == 422
    assert "start from the first page" in refused.text
    assert api.get(f"{LIST}?cursor=x").status_code == 422


def test_a_search_ignores_case_and_unicode_form_and_ranks_by_likeness(api: Api) -> None:
    remember(api, chen=3, **{"Zoë": 1, "chen@example.com": 2, "chan": 1, "orla": 9})
    assert search(api, "CHEN") == [("chen", "case", 3), ("chen@example.com", "email", 2), ("chan", "similar", 1)]
    assert search(api, "ZOE\u0308") == [("Zoë", "case", 1)]
    assert search(api, "chen")[0] == ("chen", "exact", 3)
    assert search(api, "chen", limit=1) == [("chen", "exact", 3)]
    assert search(api, "nobody") == []


def test_a_person_is_found_by_the_words_of_the_name_in_any_order(api: Api) -> None:
    remember(api, **{"Liam O'Brien": 2, "Priya Raman": 1, "M\u00e1rta Kov\u00e1cs-Nagy": 1, "Liam": 9})
    assert search(api, "O'Brien Liam") == [("Liam O'Brien", "words", 2), ("Liam", "part", 9)]
    for name in ("Mr O'Brien", "O'Brian"):
        assert [found[0] for found in search(api, name)] == ["Liam O'Brien"]
    assert search(api, "Raman Priya") == [("Priya Raman", "words", 1)]
    for name in (
        "Kovacs, Marta",
        "Frau Kov\u00e1cs-Nagy",
        "M. Kov\u00e1cs-Nagy",
        "Marta Kovacz",
        "Kov\u00e1cs-Nagy M\u00e1rta",
    ):
        assert [found[0] for found in search(api, name)] == ["M\u00e1rta Kov\u00e1cs-Nagy"], name
    assert near(api.post(ERASURES, json={"subject": "Mr O'Brian", "dry_run": True}).json()) == [("Liam O'Brien", 2)]


def test_another_order_of_the_words_is_another_spelling_of_the_name(api: Api) -> None:
    remember(api, **{"Liam O'Brien": 2, "O'Brien, Liam": 1, "Liam O'Brian": 1})
    preview = api.post(ERASURES, json={"subject": "Liam O'Brien", "dry_run": True}).json()
    assert preview["other_spellings"] == [{"subject": "O'Brien, Liam", "likeness": "words", "memories": 1}]


def test_a_speaker_is_an_alias_of_the_subject(api: Api) -> None:
    api.remember({"text": "I moved", "subject": "u-17", "speaker": "Mei Chen"}, {"text": "hi", "subject": "u-18"})
    api.remember({"text": "I like tea", "subject": "u-19", "speaker": "user"})
    assert search(api, "mei chen") == [("u-17", "speaker", 1)]
    assert search(api, "user") == [], "a role is no name"


def test_other_tenants_subjects_are_never_proposed(api: Api) -> None:
    remember(api, chen=1)
    api.change_tenant()
    assert search(api, "Chen") == []
    assert api.get(LIST).json() == {"subjects": [], "next_cursor": None}
    assert near(api.post(ERASURES, json={"subject": "Chen", "dry_run": True}).json()) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_request_for_an_unknown_subject_proposes_near_names(api: Api, dry_run: bool) -> None:
    api.service.configure(master_key="a master key of tests, as long as it must be")
    remember(api, chen=2)
    wanted = [("chen", 2)]
    assert near(api.post(ERASURES, json={"subject": "Chen", "dry_run": dry_run}).json()) == wanted
    hold = {"subject": "Chen", "reason": "x", "dry_run": dry_run}
    assert near(api.post("/v1/privacy/holds", json=hold).json()) == wanted
    assert near(api.get("/v1/subjects/Chen").json()) == wanted
    if not dry_run:
        assert near(api.post("/v1/privacy/exports", json={"subject": "Chen"}).json()) == wanted
        assert near(api.post("/v1/subjects/Chen").json()) == wanted
        assert near(api.delete("/v1/subjects/Chen").json()) == wanted


def test_a_known_subject_has_no_warning_even_if_other_conditions_match_nothing(api: Api) -> None:
    remember(api, chen=2, Chen=1)
    for asked in ({"subject": "chen"}, {"subject": "chen", "filter": {"tags": ["none"]}}, {"thread": "t"}):
        answer = api.post(ERASURES, json=asked | {"dry_run": True}).json()
        assert not {"warning", "near"} & answer.keys()


def test_a_preview_lists_other_spellings_of_a_known_name(api: Api) -> None:
    composed, decomposed = "Ch\u00e9n Wei", "Che\u0301n Wei"
    remember(api, **{composed: 3, decomposed: 2, "chen  wei": 1, "Chen Weiss": 1})
    preview = api.post(ERASURES, json={"subject": composed, "dry_run": True}).json()
    assert preview["memories"] == 3
    others = [(each["subject"], each["memories"]) for each in preview["other_spellings"]]
    assert others == [(decomposed, 2), ("chen  wei", 1)]
    assert api.get(f"/v1/subjects/{quote(composed)}").json()["other_spellings"] == preview["other_spellings"]
    alone = api.post(ERASURES, json={"subject": "Chen Weiss", "dry_run": True}).json()
    assert not {"other_spellings", "near"} & alone.keys()


def test_spellings_that_are_being_erased_are_proposed_for_no_erasure(api: Api) -> None:
    remember(api, chen=3, CHEN=2, Chen=1)

    def others(path: str = ERASURES, **more: Any) -> list[str]:
        preview = api.post(path, json={"subject": "chen", "dry_run": True} | more).json()
        return [each["subject"] for each in preview.get("other_spellings", ())]

    api.post(ERASURES, json={"subject": "Chen"})
    api.post(ERASURES, json={"subject": "CHEN", "filter": {"tags": ["a"]}})
    assert others() == ["CHEN"], "the erasure of a part of the data doesn't cover the subject"
    assert others("/v1/privacy/holds", reason="x") == ["CHEN", "Chen"], "a hold still protects what is being erased"
    erasure = api.get(f"{ERASURES}").json()["erasures"][1]
    api.post(f"{ERASURES}/{erasure['id']}/cancel")
    assert others() == ["CHEN", "Chen"]


def test_a_hidden_subject_is_known(api: Api) -> None:
    remember(api, chen=1)
    api.delete("/v1/subjects/chen")
    assert "near" not in api.post(ERASURES, json={"subject": "chen", "dry_run": True}).json()


def test_a_preview_counts_memories_that_are_already_being_deleted_apart(api: Api) -> None:
    ids = api.remember(*({"text": f"heron {n}", "subject": "ann"} for n in range(4)))
    for hidden in ids[:2]:
        assert api.delete(f"/v1/memories/{hidden}").status_code in {200, 202}
    for held in (ids[1:2], ids[2:3]):
        api.post("/v1/privacy/holds", json={"reason": "x", "memory_ids": held})
    asked = {"subject": "ann", "kind": "gdpr"}
    preview = api.post(ERASURES, json=asked | {"dry_run": True}).json()
    visible = api.get("/v1/memories?subject=ann").json()["memories"]
    assert (preview["memories"], preview["already_hidden"], preview["held"]) == (2, 2, 1)
    assert preview["hidden_held"] == 1
    assert len(visible) == preview["memories"]
    assert api.post(ERASURES, json=asked).json()["hidden"] == preview["memories"], "what the preview promised"


def test_the_answer_to_an_erasure_repeats_the_holds_of_its_preview(api: Api) -> None:
    ids = api.remember(*({"text": f"heron {n}", "subject": "ann"} for n in range(5)))
    holds = [
        api.post("/v1/privacy/holds", json={"reason": "x", "memory_ids": held}).json()["id"]
        for held in (ids[:2], ids[1:3])
    ]
    asked = {"subject": "ann", "kind": "gdpr"}
    preview = api.post(ERASURES, json=asked | {"dry_run": True}).json()
    done = api.post(ERASURES, json=asked).json()
    for answer in (preview, done):
        assert answer["held"] == 3
        assert [(hold["hold_id"], hold["memories"]) for hold in answer["holds"]] == [(holds[0], 2), (holds[1], 2)]
    assert (done["hidden"], done["due_at"] > preview["erase_after"]) == (5, True)


def test_a_search_over_too_many_subjects_says_that_it_stopped(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "NAMES_MAX", 2)
    monkeypatch.setattr(subjects, "_NAMES_A_PAGE", 2)
    remember(api, ann=1, bob=1, chen=1, zed=1, **{"zoe chen": 1})
    for name, subject in (("ZED", "zed"), ("Chen, Zoe", "zoe chen")):
        found = api.post(f"{LIST}/search", json={"name": name}).json()
        assert found["complete"] is False
        assert subject in [each["subject"] for each in found["subjects"]], "usual spellings are found by the index"


def test_no_name_reaches_the_logs(
    api: Api, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        remember(api, quetzal=1)
        search(api, "QUETZAL")
        api.get(f"{LIST}?limit=1")
        case = {"controller": "Marabou Ltd", "case_reference": "case-pelican", "legal_basis": "Art. ibis"}
        api.post(ERASURES, json={"subject": "Quetzal", "grace_days": 0} | case)
        api.post("/v1/privacy/requests", json={"nature": "access", "case_reference": "case-pelican"})
    logged = caplog.text.casefold() + "".join(capsys.readouterr()).casefold()
    for word in ("quetzal", "marabou", "pelican", "ibis"):
        assert word not in logged


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x" * 513}, {"name": "a", "limit": 0}, {"name": "a\0"}])
def test_an_invalid_search_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert api.post(f"{LIST}/search", json=body).status_code == 422
