"""Output of `ebbing run` and `ebbing demo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.cli.demo.client import AskedQuestion, Hit, TourReport
from app.cli.demo.report import show_month, show_report
from app.cli.demo.scores import Cost, JudgedMemory, Salience, subtract_cost
from app.cli.service.run import banner, print_event, reembed_hint
from app.domain.simulation.measures import Measures
from app.domain.simulation.pillars import Pillars
from app.services.evaluation.simulation import SimulationOutcome
from app.settings import Settings
from app.supervisor import ChildEvent, EventKind, Service
from tests.cli.stub import Reply, Stub

HITS = tuple(Hit(f"m{n}", f"text {n}", 1.0 / n, expected=n == 4) for n in range(1, 6))
REPORT = TourReport(
    memories=3,
    requests=1,
    accepted_p50_ms=1.5,
    accepted_p95_ms=9.0,
    sent_seconds=0.1,
    stored_seconds=0.2,
    searchable_seconds=0.7,
    kinds={"semantic": 2, "episodic": 1},
    tiers={"active": 3},
    questions=(
        AskedQuestion("Which tea?", ("m4",), "", 5.0, HITS, found=True),
        AskedQuestion("Why?", ("m9",), "", 5.0, (), found=False),
    ),
    search_p50_ms=5.0,
    salience=Salience({"heuristic": 3}, (JudgedMemory("We moved to Kiel", 0.7, "heuristic", {"emotional": 6.0}),)),
    edit_is_found=True,
    delete_is_gone=True,
    repeat_gives_same_ids=True,
)


def test_the_report_shows_the_best_hits_and_the_one_that_answers(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(REPORT, 3.2)
    shown = capsys.readouterr().out
    assert "answered 202 in 1.5 ms (p50), 9.0 ms (p95)" in shown
    assert "semantic 2, episodic 1" in shown
    assert "✓ Which tea?" in shown
    assert "✗ Why?" in shown
    assert "    1.   text 1" in shown
    assert "    4. ✓ text 4" in shown
    assert "text 5" not in shown
    assert "1 of 2" in shown


def test_a_month_is_shown_as_a_table_and_then_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measures(12, 1.0, 0.75, 0.0, 0.5, 0.96, 0.98, 0.04, 0.25)
    show_month(
        [
            SimulationOutcome("spec", None, measured, Pillars(0.7, 0.9, 0.5), (1, 2), 2.0),
            SimulationOutcome("lru", "spec", measured, Pillars(0.7, 0.9, None), (), 0.5),
        ]
    )
    shown = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in shown if line.strip().startswith(("spec", "lru"))]
    assert rows == [["spec", "12", "75.0%", "50.0%", "4.0%"], ["lru", "12", "75.0%", "50.0%", "4.0%"]]
    assert "ebbing run" in shown[-1]


def test_without_a_model_the_report_says_that_rules_judged(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(REPORT, 3.2)
    shown = capsys.readouterr().out
    assert "3 by rules; no model configured" in shown
    assert "0.70 (emotional 6) We moved to Kiel" in shown


def test_with_a_model_the_report_says_what_it_cost_and_what_the_cache_spared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cost = Cost("m-1", "127.0.0.1", calls=11, tokens=12_345, cache_hits=2, cost=0.0123)
    later = replace(cost, cache_hits=12)
    salience = Salience({"llm": 3}, (), cost, subtract_cost(later, cost))
    show_report(replace(REPORT, salience=salience), 3.2)
    shown = capsys.readouterr().out
    assert "3 by a model; m-1 at 127.0.0.1: 11 calls, 12,345 tokens, cost 0.0123, 2 cache hits" in shown
    assert "identical texts sent again: 0 calls, 0 tokens, cost 0.00, 10 cache hits" in shown
    show_report(replace(REPORT, salience=Salience({"heuristic": 3}, (), Cost())), 3.2)
    assert "no model response so far" in capsys.readouterr().out


def test_a_demo_that_went_well_has_nothing_wrong() -> None:
    assert REPORT.wrong == []


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (replace(REPORT, kinds={"semantic": 2}), "2 of 3 memories were stored"),
        (replace(REPORT, questions=REPORT.questions[1:]), "only 0 of 1 questions"),
        (replace(REPORT, edit_is_found=False), "an edited memory"),
        (replace(REPORT, delete_is_gone=False), "a deleted memory"),
        (replace(REPORT, repeat_gives_same_ids=False), "a repeated request"),
    ],
)
def test_what_went_wrong_is_said(report: TourReport, said: str) -> None:
    [sentence] = report.wrong
    assert said in sentence


SERVICE = Service((), "http://127.0.0.1:8000", "postgresql://secret", "postgresql://secret", "redis://secret")


def test_the_banner_says_what_runs_where_and_no_secret() -> None:
    shown = banner(Settings(), SERVICE, Path("/srv/a b"), 2.34)
    assert shown.startswith("Ready in 2.3 s.")
    for part in (
        "http://127.0.0.1:8000/docs",
        "/srv/a b/api-key",
        "embedded, in /srv/a b/postgres",
        "embedded, in /srv/a b/redis",
        "none (optional)",
        "/srv/a b/logs",
        "EBBING_HOME='/srv/a b' ebbing doctor",
        "Ctrl-C",
    ):
        assert part in shown, part
    assert "secret" not in shown
    by_url = Settings(database_url=SecretStr("postgresql://secret"), redis_url=SecretStr("redis://secret"))
    shown = banner(by_url.model_copy(update={"docs_enabled": False}), SERVICE, Path(".ebbing").resolve(), 1)
    assert "from EBBING_DATABASE_URL" in shown
    assert "from EBBING_REDIS_URL" in shown
    assert "/docs" not in shown
    assert "secret" not in shown


@pytest.mark.parametrize(("is_settings", "said"), [(True, None), (False, "Searches still use m-1 with 64 dimensions")])
def test_the_start_says_that_the_embedding_model_has_changed(
    api: Stub, tmp_path: Path, is_settings: bool, said: str | None
) -> None:
    (tmp_path / "api-key").write_text("a-key")
    space = {"model": "m-1", "dimensions": 64, "is_settings": is_settings}
    api.replies["GET /v1/stats"] = Reply(200, {"embedding_space": space})
    remark = reembed_hint(replace(SERVICE, api_url=api.url), tmp_path)
    assert (remark or "").find(said or "") >= 0
    assert (remark is None) is is_settings


def test_a_start_without_an_answer_says_nothing_of_it(tmp_path: Path) -> None:
    assert reembed_hint(replace(SERVICE, api_url="http://127.0.0.1:9"), tmp_path) is None


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            ChildEvent(EventKind.DIED, "redis", message="redis ended with signal SIGKILL."),
            "redis ended with signal SIGKILL.",
        ),
        (ChildEvent(EventKind.RESTARTED, "redis", pid=7), "redis restarted (process 7)."),
        (
            ChildEvent(EventKind.WAITING, "api", seconds=4.1, message="Starting the API", reason="Redis is refused."),
            "Starting the API … 4 s\n  Redis is refused.",
        ),
        (ChildEvent(EventKind.KILLED, "api"), "api didn't stop in time and was killed."),
        (ChildEvent(EventKind.UP), "the banner"),
        (ChildEvent(EventKind.DOWN, seconds=1.94), "Stopped in 1.9 s."),
        (ChildEvent(EventKind.STARTED, "api"), ""),
    ],
)
def test_events_are_lines(capsys: pytest.CaptureFixture[str], event: ChildEvent, said: str) -> None:
    print_event(event, lambda: "the banner")
    assert capsys.readouterr().out.strip() == said


def test_a_failure_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_event(ChildEvent(EventKind.FAILED, message="api isn't ready after 30 s"), str)
    assert capsys.readouterr().err == "ebbing: api isn't ready after 30 s\n"
