"""Health findings: reports about ages, workers and nights, and their order."""

from __future__ import annotations

import pytest

from app import queues
from app.domain import health_findings
from app.domain.health_findings import Finding, Restarts, StuckProcess, silence_findings
from app.domain.operator_advice import Installation, InstallationKind, advise

ATTENTION = Finding("attention", "a", "something is odd", "look")
TROUBLE = Finding("trouble", "b", "something is broken", "mend it")


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ([], "No problems found"),
        ([ATTENTION], "1 warning to review"),
        ([ATTENTION, ATTENTION], "2 warnings to review"),
        ([TROUBLE, ATTENTION], "1 problem needs action now, 1 warning to review"),
        ([TROUBLE, ATTENTION, ATTENTION], "1 problem needs action now, 2 warnings to review"),
        ([TROUBLE, TROUBLE], "2 problems need action now"),
    ],
)
def test_the_line_counts_problems_and_warnings(found: list[Finding], line: str) -> None:
    assert health_findings.line(found) == line


def test_trouble_comes_first_and_what_is_well_is_left_out() -> None:
    found = [ATTENTION, health_findings.ok("c", "something is well"), TROUBLE, ATTENTION]
    assert health_findings.ranked(found) == [TROUBLE, ATTENTION, ATTENTION]


def test_the_state_the_next_step_and_the_command_are_sentences_of_their_own() -> None:
    full = Finding("trouble", "b", "it is broken", "mend it", command="mend --now")
    assert full.lines == ["It is broken.", "Mend it:", "mend --now"]
    assert full.detail == "It is broken. Mend it: `mend --now`"
    assert TROUBLE.detail == "Something is broken. Mend it."
    assert Finding("trouble", "b", "it is broken").detail == "It is broken."
    assert Finding("trouble", "b", "it is broken", command="look").detail == "It is broken. Run this command: `look`"
    assert health_findings.ok("c", "version 7").detail == "version 7"


def test_no_text_of_a_finding_has_two_colons() -> None:
    ages = {"ingest": None, "embed": 61.0, "score": 9.0, "beat": 90.0}
    stuck = [StuckProcess("rights", 11, "", "stopped", 90), StuckProcess("maintain", 12, "pod", "blocked", 90)]
    found = [
        *silence_findings(ages | {"rights": 1.0, "maintain": 1.0}, stuck),
        *silence_findings(ages, is_starting=True),
        *health_findings.lane_findings(dict.fromkeys(health_findings.OLD_SECONDS, 1e6)),
        *health_findings.night_findings(1e6, {"archive": 2}, 2),
        *health_findings.storage_findings(0.95, {"home": 0.01}),
        *health_findings.restart_findings({"score": Restarts(3, 10)}),
        health_findings.request_finding(2, -1),
        health_findings.rewrite_finding(2),
        health_findings.recall_finding(2),
        health_findings.loss_finding(2),
        health_findings.dead_letter_finding(2),
        health_findings.other_dead_letters_finding({"acme": 2}, 1, 2),
        health_findings.exposed_secret_finding("EBBING_MASTER_KEY_FILE", "/run/key"),
    ]
    kinds: tuple[InstallationKind, ...] = ("run", "compose", "kubernetes", "processes")
    for finding in found:
        for kind in kinds:
            advised = advise(finding, Installation(kind, pids={"embed": 7}))
            said = [text for text in advised.lines if text != advised.command]
            assert all(text.count(":") <= 1 for text in said), advised.detail
            assert not advised.detail[0].islower()


def test_dead_letters_of_other_tenants_are_counted_by_tenant() -> None:
    few = health_findings.other_dead_letters_finding({"beta": 2, "acme": 1200}, 2, 1202)
    assert few.what == "1,202 dead letters of 2 other tenants need a decision (acme 1,200, beta 2)"
    one = health_findings.other_dead_letters_finding({"beta": 1}, 1, 1)
    assert one.what == "1 dead letter of another tenant needs a decision (beta 1)"
    many = health_findings.other_dead_letters_finding({"beta": 2}, 4, 7)
    assert many.what.endswith("(beta 2, 3 more tenants)")
    assert many.severity == "attention"


def test_every_lane_has_ages_that_matter() -> None:
    assert queues.LANES.keys() <= health_findings.OLD_SECONDS.keys()
    for lane, (attention, trouble) in health_findings.OLD_SECONDS.items():
        assert not health_findings.lane_findings({lane: attention - 1})
        assert [one.severity for one in health_findings.lane_findings({lane: attention})] == ["attention"]
        assert [one.severity for one in health_findings.lane_findings({lane: trouble})] == ["trouble"]


def test_a_process_that_is_silent_is_named() -> None:
    ages = {"ingest": None, "embed": 61.0, "score": 2.0, "beat": 9.0}
    never, long, well, beat = health_findings.silence_findings(ages)
    assert (beat.what, beat.todo) == (
        "the scheduler (beat) hasn't sent a heartbeat for 9.0 s, so no nightly run starts",
        "restart it",
    )
    assert "yet" in never.what
    [starting] = silence_findings({"embed": None}, is_starting=True)
    assert (starting.severity, never.severity) == ("attention", "trouble")
    assert "is starting" in starting.todo
    assert "for 1 min" in long.what
    assert advise(long, Installation("processes")).command == "ebbing worker --lane embed"
    assert well.detail == "last heartbeat 2 s ago"
    found = [(one.name, one.severity) for one in (never, long, well, beat)]
    assert found == [("lane ingest", "trouble"), ("lane embed", "trouble"), ("lane score", "ok"), ("beat", "attention")]


def test_restarts_are_reported_from_three_an_hour() -> None:
    restarts = {"ingest": Restarts(2, 1.0), "score": Restarts(3, 10.0, "signal SIGKILL"), "beat": Restarts(7, 0.1)}
    score, beat = health_findings.restart_findings(restarts)
    assert (score.severity, beat.severity) == ("attention", "attention")
    assert score.what == (
        "the score worker died and was restarted 3 times within an hour, the last time 10 s ago after signal SIGKILL"
    )
    assert beat.what == "the scheduler (beat) died and was restarted 7 times within an hour, the last time just now"
    advised = advise(score, Installation("run", "/srv/ebbing", {"score": 7}))
    assert advised.todo == "find the cause in its log"
    assert advised.command == "tail -n 50 /srv/ebbing/logs/worker-score.log"
    assert advise(beat, Installation("kubernetes")).command.endswith("deploy/beat")


def test_a_process_that_is_stuck_is_named_in_place_of_its_lane() -> None:
    stuck = [
        StuckProcess("embed", 11, "", "stopped", 9),
        StuckProcess("embed", 12, "pod-b", "blocked", 75),
        StuckProcess("score", 13, "", "stopped", 90),
    ]
    stopped, hung, silent = silence_findings({"embed": 1.0, "score": 61.0}, stuck)
    assert (stopped.code, stopped.severity, hung.severity) == ("lane_embed", "attention", "trouble")
    assert stopped.what == "process 11 of the embed worker has been stopped for 9.0 s by a signal or a debugger"
    assert hung.what == "process 12 of the embed worker on pod-b has hung in a task for 1 min 15 s"
    assert silent.what == "the score worker hasn't sent a heartbeat for 1 min 1 s", (
        "the worker's own silence comes first"
    )
    commands: dict[InstallationKind, str] = {
        "run": "kill -KILL 12",
        "processes": "kill -KILL 12",
        "kubernetes": "kubectl --namespace ebbing rollout restart deploy/worker-embed",
    }
    for kind, command in commands.items():
        advised = advise(hung, Installation(kind, pids={"embed": 10}))
        assert (advised.command, advised.section) == (command, "find-a-stuck-lane")


def test_nights_that_failed_are_late_or_were_cut_short() -> None:
    assert not health_findings.night_findings(0, {}, 0)
    assert not health_findings.night_findings(3000, {}, 0)
    failed, overdue, cut = health_findings.night_findings(27 * 3600, {"archive": 2}, 1)
    assert (failed.severity, overdue.severity, cut.severity) == ("trouble", "trouble", "attention")
    assert "archive for 2 tenants" in failed.what
    assert health_findings.night_findings(2 * 3600, {}, 0)[0].severity == "attention"


@pytest.mark.parametrize(
    ("count", "days", "severity", "said"),
    [
        (1, 6.5, "attention", "a data-subject request needs an answer: 6 days left"),
        (None, 0.5, "trouble", "a data-subject request needs an answer: less than 1 day left"),
        (3, -2, "trouble", "3 data-subject requests need an answer, the first: 2 days overdue"),
    ],
)
def test_requests_that_are_nearly_due(count: int | None, days: float, severity: str, said: str) -> None:
    found = health_findings.request_finding(count, days)
    assert (found.severity, found.what, found.code) == (severity, said, "privacy_due")


def test_what_has_no_room() -> None:
    assert not health_findings.storage_findings(0.89, {"home": 0.15})
    full, disk = health_findings.storage_findings(0.93, {"home": 0.08, "cold": 0.5})
    assert (full.code, disk.code) == ("redis_full", "disk_full")
    assert "93%" in full.what
    assert disk.what == "the disk of home has 8% free space"
