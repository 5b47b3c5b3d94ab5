"""The report of an erasure that legal holds delay: it sums over all passes, in JSON and in HTML."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import pytest

from app import failpoints
from app.domain.jobs import ERASE, Job
from app.services.erasure import execution
from app.services.erasure.steps import STEPS
from app.services.tiers import cold_storage
from app.store.privacy import request_log
from tests.api.caller import Api
from tests.services import archived_memories
from tests.services.cold_due import LONG
from tests.services.due_deletions import UNFINISHED, worked
from tests.variants import variants

HOLDS = "/v1/privacy/holds"
ERASURES = "/v1/privacy/erasures"
MEMORIES = 212
"""Memories of the subject in the first test."""


def place_hold(api: Api, *memory_ids: str) -> str:
    answer = api.post(HOLDS, json={"reason": "a lawsuit", "memory_ids": list(memory_ids)})
    assert answer.status_code == 201, answer.text
    hold_id: str = answer.json()["id"]
    return hold_id


def release_hold(api: Api, hold_id: str) -> None:
    assert api.post(f"{HOLDS}/{hold_id}/release").is_success
    worked(api.service, UNFINISHED)


def request_erasure(api: Api) -> str:
    """Request the erasure of the subject and carry out its first pass."""
    answer = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 0})
    assert answer.status_code == 202, answer.text
    worked(api.service, UNFINISHED)
    erasure_id: str = answer.json()["erasure_id"]
    return erasure_id


def export(api: Api) -> None:
    """Create an export of the subject, whose key wraps the export's own."""
    assert api.post("/v1/privacy/exports", json={"subject": "ann", "kind": "access"}).status_code == 202
    worked(api.service, UNFINISHED)


def add_dead_letter(api: Api) -> None:
    """Leave a dead letter with a memory of the subject beside another person's."""
    api.service.rows("ALTER TABLE memories ADD CONSTRAINT trouble CHECK (text <> 'Bob hums') NOT VALID")
    try:
        api.remember({"text": "Ann sings of otters", "subject": "ann"}, {"text": "Bob hums", "subject": "bob"})
    finally:
        api.service.rows("ALTER TABLE memories DROP CONSTRAINT trouble")
    assert api.service.one("SELECT count(*) FROM dead_letters") == 1


def cool(api: Api, *ids: str) -> None:
    """Move memories to cold storage."""
    named = [UUID(each) for each in ids]
    archived_memories.fade(api.service, named, days=200)
    archived_memories.swept(api.tenant.tenant_id)
    archived_memories.archive_all(api.tenant.tenant_id)
    while cold_storage.move_segment(api.tenant.tenant_id)[1]:
        pass
    assert set(archived_memories.tiers(api.service, named)) == {"cold"}


def carry_out(api: Api, erasure_id: str) -> None:
    """Run an erasure to its end, as a new job does after a crash: without the state of the one before."""
    state: dict[str, Any] = {}
    for _ in range(60):
        job = Job(uuid4(), api.tenant.tenant_id, ERASE, {"erasure_id": erasure_id}, state, None, 0)
        done = execution.run_slice(job)
        if done.finished:
            assert done.failure is None
            return
        state = done.state
    raise AssertionError("an erasure without an end")


def read_report(api: Api, erasure_id: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{ERASURES}/{erasure_id}/report").json()
    return found


def read_figures(report: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Return the rows found, removed and left by store."""
    return {each["store"]: (each["found"], each["removed"], each["left"]) for each in report["stores"]}


def read_page(api: Api, erasure_id: str) -> list[list[str]]:
    """Return the cells of each table row of the printable page."""
    page = api.get(f"{ERASURES}/{erasure_id}/report?format=html").text
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [[unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)] for row in rows]


def passes(report: dict[str, Any]) -> list[tuple[int, int, list[str]]]:
    """Return the memories erased, the memories held and the holds of each pass."""
    return [(each["memories"], each["held"], each["holds"]) for each in report["passes"]]


STEP = "memories and data derived from them"
EXPORTS = "earlier exports of the data"
KEYS = "the person's encryption key"
SEGMENTS = "files in long-term storage"


def test_the_report_of_an_erasure_that_waited_for_a_hold_sums_over_both_passes(api: Api) -> None:
    about = [{"text": f"Ann counts otter number {n}", "subject": "ann"} for n in range(MEMORIES)]
    ids = api.remember(*about, {"text": "Bob hums", "subject": "bob"})
    add_dead_letter(api)
    export(api)
    hold = place_hold(api, ids[0], ids[1])
    erasure_id = request_erasure(api)

    waiting = read_report(api, erasure_id)
    assert (waiting["status"], waiting["memories"]) == ("held", MEMORIES - 2)
    assert passes(waiting) == [(MEMORIES - 2, 2, [hold])]
    assert read_figures(waiting)["table memories"] == (MEMORIES - 2, MEMORIES - 2, 0)
    assert next((each["what"], each["count"]) for each in waiting["kept"]) == ("held memories", 2)

    release_hold(api, hold)
    report = read_report(api, erasure_id)
    assert (report["status"], report["memories"]) == ("verified", MEMORIES)
    assert passes(report) == [(MEMORIES - 2, 2, [hold]), (2, 0, [])]
    figures = read_figures(report)
    assert figures[STEP] == figures["table memories"] == figures["table memory_state"] == (MEMORIES, MEMORIES, 0)
    assert figures["table scores"] == figures["table hidden_memories"] == (MEMORIES, MEMORIES, 0)
    assert figures[EXPORTS] == figures[KEYS] == figures["failed items (dead letters)"] == (1, 1, 0)
    assert not any(left for _, _, left in figures.values())
    shown = api.get(f"{ERASURES}/{erasure_id}").json()
    assert {each["step"]: each["removed"] for each in shown["executed"]}["exports"] == 1
    assert {each["step"]: each["found"] for each in shown["plan"]}["memories"] == MEMORIES

    [delay] = report["holds"]
    placed = api.get(f"{HOLDS}/{hold}").json()
    assert delay == {
        "hold_id": hold,
        "placed_at": placed["placed_at"],
        "released_at": placed["released_at"],
        "memories": 2,
    }
    [formerly] = [each for each in report["kept"] if hold in each["ground"]]
    assert (formerly["what"], formerly["count"]) == ("nothing under a released legal hold", 0)
    first, second = report["passes"]
    assert first["started_at"] < first["finished_at"] < placed["released_at"] < second["started_at"]
    assert second["started_at"] < second["finished_at"] == report["clocks"]["verified_at"]

    page = read_page(api, erasure_id)
    assert ["table memories", "deleted", str(MEMORIES), str(MEMORIES), "0"] in page
    assert ["earlier exports of the data", "deleted", "1", "1", "0"] in page
    assert ["the person's encryption key", "destroyed", "1", "1", "0"] in page
    assert [row[3:] for row in page if row[:1] in (["1"], ["2"])] == [[str(MEMORIES - 2), "2", hold], ["2", "0", "–"]]
    assert [row[3] for row in page if row[0] == hold] == ["2"]


def test_three_passes_for_two_holds_and_one_of_them_over_cold_storage(api: Api) -> None:
    """The subject's key is retained until the held memory in cold storage is erased."""
    ids = api.remember(*({"text": LONG + str(n), "subject": "ann"} for n in range(6)))
    cool(api, *ids[:4])
    cold, warm = place_hold(api, ids[0], ids[5]), place_hold(api, ids[4])
    erasure_id = request_erasure(api)
    figures = read_figures(read_report(api, erasure_id))
    assert figures["table memories"] == figures["table cold_memories"] == figures[STEP] == (3, 3, 0)
    assert (figures[SEGMENTS], figures[KEYS]) == ((1, 1, 0), (1, 0, 0))

    release_hold(api, warm)
    report = read_report(api, erasure_id)
    assert (report["status"], report["memories"]) == ("held", 4)
    assert passes(report) == [(3, 3, [cold, warm]), (1, 2, [cold])]
    assert read_figures(report)["table memories"] == (4, 4, 0)
    assert [(each["what"], each["count"]) for each in report["kept"] if "legal hold" in each["ground"]] == [
        ("held memories", 2),
        ("nothing under a released legal hold", 0),
    ]

    release_hold(api, cold)
    report = read_report(api, erasure_id)
    assert (report["status"], report["memories"]) == ("verified", 6)
    assert passes(report) == [(3, 3, [cold, warm]), (1, 2, [cold]), (2, 0, [])]
    assert [(each["hold_id"], each["memories"]) for each in report["holds"]] == [(cold, 2), (warm, 1)]
    assert all(each["released_at"] for each in report["holds"])
    figures = read_figures(report)
    assert figures["table memories"] == figures[STEP] == figures["table memory_state"] == (6, 6, 0)
    assert figures["table cold_memories"] == (4, 4, 0)
    assert figures[KEYS] == (1, 1, 0)
    assert figures[SEGMENTS] == (2, 2, 0), "the held record was moved to a second one between the passes"
    assert not any(left for _, _, left in figures.values())
    page = read_page(api, erasure_id)
    assert [row[3:] for row in page if row[:1] in (["1"], ["2"], ["3"])] == [
        ["3", "3", f"{cold}, {warm}"],
        ["1", "2", cold],
        ["2", "0", "–"],
    ]
    assert ["table memories", "deleted", "6", "6", "0"] in page


@pytest.mark.parametrize(
    "place",
    variants(
        ["erasing.cut", "erasing.entered", "erasing.planned", *(f"erasing.{step}" for step in STEPS), "verified"],
        {"erasing.cut", "erasing.memories", "verified"},
    ),
)
def test_a_crash_in_the_second_pass_counts_nothing_twice_and_loses_no_count(
    api: Api, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    ids = api.remember(*({"text": f"otter {n}", "subject": "ann"} for n in range(5)))
    export(api)
    hold = place_hold(api, ids[0], ids[1])
    erasure_id = request_erasure(api)
    export(api)
    assert api.post(f"{HOLDS}/{hold}/release").is_success
    crashes = [place]

    def crash(name: str, *_: object) -> None:
        if name in crashes:
            crashes.remove(name)
            raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "trigger", crash)
        if place == "verified":
            patched.setattr(request_log, "store_answer", lambda *_: crash(place))
        with pytest.raises(ConnectionError):
            carry_out(api, erasure_id)
    carry_out(api, erasure_id)
    report = read_report(api, erasure_id)
    figures = read_figures(report)
    assert figures[STEP] == figures["table memories"] == figures["table memory_state"] == (5, 5, 0)
    assert figures[EXPORTS] == (2, 2, 0)
    assert figures[KEYS] == (2, 2, 0), "the export of the held memories made a new key"
    assert passes(report) == [(3, 2, [hold]), (2, 0, [])]


def test_a_pass_that_a_hold_still_blocks_is_not_listed(api: Api) -> None:
    ids = api.remember({"text": "kept", "subject": "ann"}, {"text": "gone", "subject": "ann"})
    hold = place_hold(api, ids[0])
    erasure_id = request_erasure(api)
    carry_out(api, erasure_id)
    report = read_report(api, erasure_id)
    assert (report["status"], passes(report)) == ("held", [(1, 1, [hold])])
    assert read_figures(report)["table memories"] == (1, 1, 0)


def test_a_hold_placed_during_a_pass_leaves_its_memory_out_of_the_sums(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = api.remember(*({"text": f"otter {n}", "subject": "ann"} for n in range(5)))
    placed: list[str] = []

    def place_when_planned(name: str, *_: object) -> None:
        if name == "erasing.letters" and not placed:
            placed.append(place_hold(api, ids[0]))

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "trigger", place_when_planned)
        erasure_id = request_erasure(api)
    waiting = read_report(api, erasure_id)
    assert (waiting["status"], waiting["memories"]) == ("held", 4)
    assert read_figures(waiting)[STEP] == read_figures(waiting)["table memories"] == (5, 4, 0)
    release_hold(api, *placed)
    report = read_report(api, erasure_id)
    assert passes(report) == [(4, 1, placed), (1, 0, [])]
    assert read_figures(report)[STEP] == read_figures(report)["table memories"] == (5, 5, 0)


def test_a_report_by_the_previous_version_is_shown_and_continued(api: Api) -> None:
    ids = api.remember(*({"text": f"otter {n}", "subject": "ann"} for n in range(5)))
    hold = place_hold(api, ids[0], ids[1])
    erasure_id = request_erasure(api)
    api.service.rows(
        "UPDATE erasures SET report = report - 'passes' - 'holds', executed = ("
        "SELECT jsonb_agg(step - 'tables' ORDER BY place) "
        "FROM jsonb_array_elements(executed) WITH ORDINALITY AS each (step, place))"
    )
    report = read_report(api, erasure_id)
    assert (report["memories"], "passes" in report) == (3, False)
    assert ["table memories", "deleted", "3", "3", "0"] in read_page(api, erasure_id)
    release_hold(api, hold)
    report = read_report(api, erasure_id)
    assert read_figures(report)["table memories"] == read_figures(report)[STEP] == (5, 5, 0)
    assert [(each["memories"], each["held"], each["holds"]) for each in report["passes"]] == [
        (3, None, [hold]),
        (2, 0, []),
    ]
    assert [(each["hold_id"], each["memories"]) for each in report["holds"]] == [(hold, 2)]
    assert [row[3:] for row in read_page(api, erasure_id) if row[:1] == ["1"]] == [["3", "–", hold]]
