"""No section of an erasure report, and no letter, takes back what another one states."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.domain.privacy.case_details import REDACTED
from app.store.erasure import same_case
from tests.api.caller import Api
from tests.api.privacy.test_report_letter import read_page, visible
from tests.services.due_deletions import UNFINISHED, worked

HOLDS = "/v1/privacy/holds"
ERASURES = "/v1/privacy/erasures"
REQUESTS = "/v1/privacy/requests"
SUBJECT = "Márta Kovács-Nagy"
CASE = "DSR-9"
OPEN_WORK = "Ebbing-Open-Work"


class Reported:
    """The page of a report: what precedes section 1, the sections by number, Appendix A, and the other appendices."""

    def __init__(self, text: str) -> None:
        letter, rest = text.split("Statement and signatures", 1)
        self.text, self.head = text, letter.split("1. The request")[0]
        parts = re.split(r" ([1-6])\. (?=[A-Z])", letter)
        self.section = {int(number): part for number, part in zip(parts[1::2], parts[2::2], strict=True)}
        self.systems, self.others = rest.split("Appendix B: ", 1)


class Desk:
    """A tenant with two memories about Márta Kovács-Nagy under a legal hold, and their erasure."""

    def __init__(self, api: Api, reason: str = "Kovács accident", scope: dict[str, Any] | None = None) -> None:
        self.api = api
        self.ids = api.remember(*({"text": f"tea {n}", "subject": SUBJECT} for n in range(2)))
        given = {"reason": reason, "ground": "legal_claims"} | (scope or {"memory_ids": self.ids})
        placed = api.post(HOLDS, json=given)
        assert placed.is_success, placed.text
        self.hold = placed.json()["id"]
        self.erasure_id = self.erase(SUBJECT, grace_days=0)

    def erase(self, subject: str, **more: Any) -> str:
        given = {"subject": subject, "kind": "gdpr", "case_reference": CASE} | more
        answer = self.api.post(ERASURES, json=given)
        assert answer.is_success, answer.text
        worked(self.api.service)
        erasure_id: str = answer.json()["id"]
        return erasure_id

    def finish(self, reason: str = "Kovács settlement") -> None:
        assert self.api.post(f"{HOLDS}/{self.hold}/release", json={"reason": reason}).is_success
        worked(self.api.service)
        assert self.api.get(f"{ERASURES}/{self.erasure_id}").json()["status"] == "verified"

    def review(self, **decisions: str) -> None:
        """Decide about the texts in these columns: `redact` or `keep`."""
        listed = self.api.get(f"{ERASURES}/{self.erasure_id}/mentions").json()["mentions"]
        numbers = {each["column"]: each["number"] for each in listed}
        given: dict[str, list[int]] = {"redact": [], "keep": []}
        for column, decision in decisions.items():
            given[decision].append(numbers[column])
        assert self.api.post(f"{ERASURES}/{self.erasure_id}/mentions", json=given).is_success

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{ERASURES}/{self.erasure_id}/report").json()
        return found

    def read(self) -> Reported:
        return Reported(read_page(self.api, self.erasure_id))

    def letter(self, name: str = "completion", form: str = "text") -> Any:
        return self.api.get(f"{REQUESTS}/{self.erasure_id}/letters/{name}?format={form}")


@pytest.fixture
def desk(api: Api) -> Desk:
    return Desk(api)


def states(desk: Desk) -> dict[str, str]:
    return {each["code"]: each["state"] for each in desk.report()["operator_texts"]}


def test_texts_that_await_a_review_do_so_in_every_section(desk: Desk) -> None:
    desk.finish()
    page = desk.read()
    assert "2 texts that contain a part of the person's name still await a review (section 2)" in page.head
    assert "Of these texts: 2 still have to be reviewed." in page.section[2]
    assert "The check doesn't count 2 texts that contain a part of the person's name" in page.section[3]
    assert states(desk) == {"hold": "review", "release": "review"}
    for number, what in enumerate(("The reason for", "The reason for the release of"), start=1):
        awaits = rf"{what} legal hold {desk.hold}, written on [^:]+: contains a part of the person's name, and a review"
        assert re.search(rf"{awaits} still has to decide[^.]+\(Appendix A, text {number}\)", page.section[4])
    assert "Those that named the person" not in page.text
    before, listed = page.systems.split("contained only a part of the person's name. They were not changed")
    assert "texts written by the operator with the person's whole name" in before
    assert listed.count("not reviewed yet") == 2


def test_a_redacted_and_a_kept_text_are_so_in_every_section(desk: Desk) -> None:
    desk.finish()
    desk.review(reason="redact", release_reason="keep")
    page = desk.read()
    assert "await a review" not in page.text
    assert "1 referred to the person and was replaced by a standard sentence, 1 referred to another" in page.section[2]
    assert states(desk) == {"hold": "replaced", "release": "kept"}
    hold = f"The reason for legal hold {desk.hold}, written on"
    assert re.search(rf"{hold} [^:]+: replaced by a standard sentence, because it referred to", page.section[4])
    assert not re.search(rf"{hold} [^:]+: retained", page.section[4])
    kept = (
        rf"The reason for the release of legal hold {desk.hold}, written on [^:]+: contains a part of the person's name"
    )
    assert re.search(
        rf"{kept}, but refers to another person \(Appendix A, text 2\). The text is retained", page.section[4]
    )
    assert "refers to the person; replaced by a standard sentence on" in page.systems
    assert "refers to another person; retained (reviewed on" in page.systems
    assert desk.api.get(f"{HOLDS}/{desk.hold}").json()["reason"] == REDACTED


def test_texts_without_a_part_of_the_name_are_retained_as_before(api: Api) -> None:
    desk = Desk(api, "case 17")
    desk.finish("settled")
    page = desk.read()
    assert states(desk) == {"hold": "retained", "release": "retained"}
    assert re.search(rf"legal hold {desk.hold}, written on [^:]+: retained with the record", page.section[4])
    assert "a part of the person's name" not in page.text


def test_a_hold_on_the_person_loses_the_name_and_keeps_the_reason(api: Api) -> None:
    desk = Desk(api, "case 17", {"subject": SUBJECT})
    assert "If the conditions of a legal hold name the person or conversation" in desk.read().section[1]
    desk.finish("settled")
    assert states(desk) == {"hold": "retained", "release": "retained"}
    assert desk.api.get(f"{HOLDS}/{desk.hold}").json()["reason"] == "case 17"
    assert "1 released legal hold: name removed" in desk.read().section[2]


def test_a_case_reference_with_a_part_of_the_name_is_in_section_4_too(api: Api) -> None:
    desk = Desk(api, "case 17")
    desk.erasure_id = desk.erase(SUBJECT, grace_days=0, case_reference="Nagy 17")
    desk.finish("settled")
    page = desk.read()
    assert "2 texts written by the operator contained a part of the person's name" in page.section[2]
    assert "2 other texts written by the operator, such as case references, contained a part of" in page.section[4]


def test_an_erasure_under_legal_hold_alone_says_that_nothing_is_erased(api: Api) -> None:
    desk = Desk(api, "case 17")
    page = desk.read()
    assert "Result Nothing erased yet: all data is under legal hold" in page.head
    assert "2 memories were in scope. None of them has been erased yet, because all are under legal hold." in page.head
    assert "None of the 2 memories has been erased yet" in page.section[2]
    assert "The records of this erasure still contain the conditions that select the data" in page.section[1]
    assert "Appendix E contains" not in page.section[1]
    for part in ("a keyed digest of the person's name or ID", "are removed from this record earlier"):
        assert part in page.section[4]
    assert "Backups also contain the data under legal hold" in page.section[5]
    assert "they contained no data in scope except the memories under legal hold" in page.systems
    assert "Erasing stopped before any memory was erased: all are under legal hold" in page.others
    for wrong in ("IDs of the erased memories", "Completed", "0 erased", "Erasing finished", "can contain the erased"):
        assert wrong not in page.text
    assert "ids of erased memories" not in str(desk.report()["kept"])
    desk.finish("settled")
    page = desk.read()
    assert "the IDs of the erased memories, a keyed digest of the person's name or ID" in page.section[4]
    assert "Result Completed and checked" in page.head
    assert "summed over all passes" in page.systems
    assert "They contained no data in scope when erasing started:" in page.systems


def test_a_held_erasure_that_removed_other_records_says_that_no_memory_is_erased(api: Api) -> None:
    api.service.configure(master_key="a master key of tests, as long as it must be")
    api.remember({"text": "tea", "subject": "ann"})
    assert api.post("/v1/privacy/exports", json={"subject": "ann"}).is_success
    worked(api.service, UNFINISHED)
    assert api.post(HOLDS, json={"reason": "case 17", "subject": "ann"}).is_success
    erasure_id = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 0}).json()["id"]
    worked(api.service, UNFINISHED)
    page = Reported(read_page(api, erasure_id))
    assert "Result No memory erased yet: all memories are under legal hold" in page.head
    assert "1 earlier export of this data: deleted" in page.section[2]


def test_the_completion_names_the_texts_that_await_a_review(desk: Desk) -> None:
    desk.finish()
    answer = desk.letter()
    assert "We erased the data, with the exceptions that are stated below. The enclosed report" in answer.text
    assert "2 texts that we wrote, such as reasons or case references, contain a part of your name." in answer.text
    assert answer.headers[OPEN_WORK] == "2 texts with a part of the person's name still to review"
    assert desk.letter(form="html").headers[OPEN_WORK] == answer.headers[OPEN_WORK]
    desk.review(reason="redact", release_reason="keep")
    answer = desk.letter()
    assert "We erased the data. The enclosed report" in answer.text
    assert "that we wrote" not in answer.text
    assert OPEN_WORK not in answer.headers


def test_report_and_letters_name_other_erasures_of_the_case(api: Api) -> None:
    desk = Desk(api, "case 17")
    api.remember({"text": "soup", "subject": "Marta Kovacs-Nagy"}, {"text": "x", "subject": "bob"})
    other = desk.erase("Marta Kovacs-Nagy", case_reference=f" {CASE.lower()}", grace_days=7)
    apart = desk.erase("bob", case_reference="DSR-10", grace_days=7)
    partial = desk.letter("partial")
    assert f"Another erasure with the same case reference (request ID {other}) is not finished" in partial.text
    assert f"{other}: grace period" in partial.headers[OPEN_WORK]
    desk.finish("settled")
    page, letter = desk.read(), desk.letter().text
    said = "1 other erasure with the same case reference, with 1 memory in scope, was not finished when this page was"
    assert said in page.head
    known = rf"Request ID {other}, 1 memory in scope: the data is hidden and can be restored until"
    assert re.search(known, page.section[6])
    assert "We erased the data, with the exceptions that are stated below." in letter
    assert f"(request ID {other}) is not finished: the data is hidden, and will be erased after" in letter
    assert apart not in page.text + letter
    assert api.post(f"{ERASURES}/{other}/cancel").is_success
    assert "same case reference" not in desk.letter().text


def test_the_report_names_all_other_erasures_of_the_case_in_any_state(api: Api) -> None:
    """An answer to a letter has one report for each name, and their sum is the case."""
    desk = Desk(api, "case 17")
    api.remember(*({"text": f"soup {n}", "subject": "Marta Kovacs-Nagy"} for n in range(3)))
    api.remember({"text": "y", "subject": "M. Nagy"}, {"text": "x", "subject": "bob"})
    desk.finish("settled")
    done = desk.erase("Marta Kovacs-Nagy", grace_days=0)
    cancelled = desk.erase("M. Nagy", grace_days=7)
    assert api.post(f"{ERASURES}/{cancelled}/cancel").is_success
    apart = desk.erase("bob", case_reference="DSR-10", grace_days=0)
    others = desk.report()["same_case"]["erasures"]
    assert [(each["erasure_id"], each["status"], each["memories"]) for each in others] == [
        (done, "verified", 3),
        (cancelled, "cancelled", 1),
    ]
    page = desk.read()
    assert "1 other erasure with the same case reference, with 3 memories in scope, was completed" in page.head
    assert "1 other erasure with the same case reference was cancelled (section 6)." in page.head
    assert f"Request ID {done}, 3 memories in scope: erased and checked on" in page.section[6]
    assert f"Request ID {cancelled}, 1 memory hidden when it was entered: cancelled on" in page.section[6]
    assert apart not in page.text
    desk.erasure_id, first = done, desk.erasure_id
    assert f"Request ID {first}, 2 memories in scope: erased and checked on" in desk.read().section[6]
    desk.erasure_id = apart
    assert "same case reference" not in desk.read().text


def test_the_memories_of_a_held_erasure_of_the_case_are_those_erased_and_held(api: Api) -> None:
    desk = Desk(api, "case 17")
    api.remember({"text": "tea", "subject": SUBJECT}, {"text": "soup", "subject": "Marta Kovacs-Nagy"})
    held = desk.erase(SUBJECT, grace_days=0, case_reference="other")
    desk.api.service.rows("UPDATE erasures SET case_reference = %s WHERE erasure_id = %s", CASE, held)
    desk.erasure_id = desk.erase("Marta Kovacs-Nagy", grace_days=0)
    listed = {each["erasure_id"]: each for each in desk.report()["same_case"]["erasures"]}
    counts = desk.api.get(f"{ERASURES}/{held}/report").json()["counts"]
    assert (listed[held]["status"], listed[held]["memories"]) == ("held", counts["in_scope"])
    assert f"Request ID {held}, {counts['in_scope']} " in desk.read().section[6]


def test_unfinished_erasures_of_the_case_are_listed_before_older_ended_ones(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_case, "ERASURES_MAX", 3)
    names = ("verified 1", "cancelled", "verified 2", "open 1", "open 2")
    api.remember(*({"text": "tea", "subject": name} for name in names))
    desk = Desk(api, "case 17")
    ids = {name: desk.erase(name, grace_days=0 if name.startswith("verified") else 7) for name in names}
    assert api.post(f"{ERASURES}/{ids['cancelled']}/cancel").is_success
    listed = [each["erasure_id"] for each in desk.report()["same_case"]["erasures"]]
    assert listed == [ids[name] for name in ("open 1", "open 2", "verified 1")]


@pytest.mark.parametrize("passes", ["report - 'passes'", "jsonb_set(report, '{passes,-1,held}', 'null')"])
def test_the_held_memories_of_an_erasure_of_an_earlier_version_count_too(api: Api, passes: str) -> None:
    desk = Desk(api, "case 17")
    api.remember({"text": "soup", "subject": "bob"})
    held, desk.erasure_id = desk.erasure_id, desk.erase("bob", grace_days=0)
    desk.api.service.rows(f"UPDATE erasures SET report = {passes} WHERE erasure_id = %s", held)  # noqa: S608 - constants
    [listed] = desk.report()["same_case"]["erasures"]
    in_scope = desk.api.get(f"{ERASURES}/{held}/report").json()["counts"]["in_scope"]
    assert (listed["erasure_id"], listed["status"], listed["memories"]) == (held, "held", in_scope)
    assert in_scope == 2


def test_a_completion_by_hand_names_an_erasure_of_the_case(desk: Desk) -> None:
    made = desk.api.post(REQUESTS, json={"nature": "erasure", "law": "gdpr", "case_reference": CASE}).json()
    assert desk.api.post(f"{REQUESTS}/{made['id']}/complete").is_success
    answer = desk.api.get(f"{REQUESTS}/{made['id']}/letters/completion")
    assert re.search(r"We erased the data by [\w ]+, with the exceptions that are stated below.", answer.text)
    assert (
        f"(request ID {desk.erasure_id}) is not finished: data is hidden and retained under legal hold" in answer.text
    )
    assert f"{desk.erasure_id}: delayed by a legal hold" in answer.headers[OPEN_WORK]


@pytest.mark.parametrize("nature", ["erasure", "access", "portable"])
def test_the_receipt_promises_only_the_search_that_the_answer_describes(api: Api, nature: str) -> None:
    made = api.post(REQUESTS, json={"nature": nature, "law": "gdpr"}).json()
    text = api.get(f"{REQUESTS}/{made['id']}/letters/acknowledgement").text
    assert "the data that is stored under your name or ID" in text
    assert "Data about other people is not covered, even if it mentions you, nor is data stored under another" in text
    assert "data about you," not in text
    assert api.post(f"{REQUESTS}/{made['id']}/complete").is_success
    done = api.get(f"{REQUESTS}/{made['id']}/letters/completion").text
    assert ("It does not contain entries about other people, even if they mention you" in done) == (nature == "access")


def test_the_request_log_states_what_it_contains_and_what_a_later_report_lacks(api: Api) -> None:
    api.remember({"text": "one", "subject": "ann"}, {"text": "two", "subject": "bob"})
    plain = api.post(ERASURES, json={"subject": "bob", "kind": "gdpr", "grace_days": 0}).json()["id"]
    full = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 1}).json()["id"]
    assert api.post(f"{REQUESTS}/{full}/identity", json={"method": "document"}).is_success
    assert api.post(f"{REQUESTS}/{full}/extend", json={"reason": "many requests"}).is_success
    api.service.rows("UPDATE erasures SET erase_after = now()")
    worked(api.service, UNFINISHED)
    said = Reported(read_page(api, full)).section[4]
    assert "the legal deadlines, the identity check, the extension of the deadline, the answer." in said
    assert (
        "printed again after that deletion, it no longer states: the identity check, the extension of the deadline."
        in said
    )
    said = Reported(read_page(api, plain)).section[4]
    assert "It contains: the kind and the dates of the request, the legal deadlines, the answer." in said
    assert "no longer states" not in said


@pytest.mark.parametrize(
    ("scope", "digest"),
    [
        ({"subject": "ann"}, True),
        ({"subject": "ann", "filter": {"tags": ["x"]}}, True),
        ({"filter": {"tags": ["x"]}}, False),
    ],
)
def test_the_report_names_a_digest_of_the_person_only_if_the_request_named_one(
    api: Api, scope: dict[str, Any], digest: bool
) -> None:
    api.remember({"text": "one", "subject": "ann", "tags": ["x"]})
    erasure_id = api.post(ERASURES, json={"grace_days": 0} | scope).json()["id"]
    worked(api.service, UNFINISHED)
    page = Reported(read_page(api, erasure_id))
    tombstones, audit = page.section[4].split("As proof of the erasure, the audit log retains")
    audit = audit.split("As proof of the answer")[0]
    assert ("a keyed digest of the person's name or ID" in audit) == digest
    assert ("a keyed digest" in tombstones) == (scope == {"subject": "ann"})
    assert ("key of the digest" in tombstones) == (scope == {"subject": "ann"})
    assert ("whole name" in page.systems) == (scope == {"subject": "ann"})
    assert "summed over all passes" not in page.systems


def test_the_letter_of_an_access_request_has_blanks_for_what_the_controller_adds(api: Api) -> None:
    made = api.post(REQUESTS, json={"nature": "access", "law": "gdpr"}).json()
    assert api.post(f"{REQUESTS}/{made['id']}/complete").is_success
    page = visible(api.get(f"{REQUESTS}/{made['id']}/letters/completion?format=html").text)
    for blank in ("purposes of the processing", "categories of personal data", "recipients other than those", "source"):
        assert re.search(rf"{blank}[^;]*: ____", page)
