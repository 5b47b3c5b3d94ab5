"""A night does exactly what its dry run for that time lists, step by step, in all tiers."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from app.domain.tiers.decay_tier import DECAY_TIERS
from app.errors import Invalid
from app.services.night import night_preview, steps
from app.services.night.night_preview import NightCursor, StepForecast
from app.services.tiers.dry_run import PredictedMove
from tests.lifecycle.year import NIGHT, Lived, Year, policy
from tests.service import Service
from tests.services import nights
from tests.services.aged import Aged, days
from tests.variants import variants

MOVING = ("sweep", "expire", "archive", "cold", "delete")


def lived(service: Service, monkeypatch: pytest.MonkeyPatch, until: int, last: int) -> Lived:
    """Create memories in all tiers, with holds and labels, some time after the last night."""
    year = Year(400, last=until)
    found = Lived(Aged(service, monkeypatch, policy(year.numbers)), year)
    found.through(lambda day: int(day % 15 == 0 and day <= last), until)
    assert set(found.tiers()) == {0, 1, 2, 3}
    return found


def all_pages(
    aged: Aged, day: float, limit: int
) -> tuple[list[tuple[str, PredictedMove]], dict[str, Counter[str]], dict[str, str | None]]:
    """Return moves, counts and notes of all pages of a dry run."""
    changes: list[tuple[str, PredictedMove]] = []
    counts: dict[str, Counter[str]] = {}
    notes: dict[str, str | None] = {}
    begin = None
    while True:
        page = night_preview.preview_night(aged.tenant_id, days(day), begin, limit)
        assert page.as_of == days(day)
        assert len(page.changes) <= limit
        changes += page.changes
        for step in page.steps:
            counts.setdefault(step.name, Counter()).update(step.counts)
            notes[step.name] = step.note
        begin = page.following
        if begin is None:
            return changes, {name: +found for name, found in counts.items()}, notes


def rows(aged: Aged) -> tuple[dict[UUID, str], dict[UUID, str]]:
    """Return each memory's tier, and the tier that decay wants for it."""
    found = aged.service.rows("SELECT memory_id, tier, wanted_tier FROM memory_state")
    return {memory_id: tier for memory_id, tier, _ in found}, {memory_id: wanted for memory_id, _, wanted in found}


# Day, day of the last night, days ahead, and whether there is a master key. On day 125, no night has seen the latest
# policy yet.
NIGHTS = {
    "today": (125, 105, 0, True),
    "in a month": (110, 110, 33, True),
    "without a key": (125, 90, 0, False),
}


@pytest.mark.parametrize("case", variants(NIGHTS, {"without a key"}))
def test_a_night_does_what_its_dry_run_says(
    service: Service, monkeypatch: pytest.MonkeyPatch, case: tuple[int, int, int, bool]
) -> None:
    until, last, ahead, key = case
    found = lived(service, monkeypatch, until, last)
    if not key:
        monkeypatch.delenv("EBBING_MASTER_KEY")
        service.configure()
    aged, moment = found.aged, until + NIGHT + ahead
    changes, counts, notes = all_pages(aged, moment, 7)
    assert all_pages(aged, moment, 1000) == (changes, counts, notes), "pagination doesn't change the result"
    assert list(notes) == list(steps.STEPS)
    assert {name for name, note in notes.items() if note is None} == {*MOVING, "promote"} - (set() if key else {"cold"})
    tiers, _ = rows(aged)
    before = dict(tiers)
    for name, move in changes:
        if name != "sweep":  # the sweep moves nothing
            assert tiers[move.memory_id] == move.before, "the tier in which the previous step left it"
            tiers[move.memory_id] = move.after
    aged.now = days(moment)
    did = nights.run(aged.tenant_id, days(moment))
    after, wanted = rows(aged)
    assert {memory_id: after.get(memory_id, "deleted") for memory_id in before} == tiers
    assert {move.after for _, move in changes} == {"archived", "cold", "deleted"}
    swept = {move.memory_id: move.after for name, move in changes if name == "sweep"}
    assert {memory_id: wanted.get(memory_id, "deleted") for memory_id in swept} == swept
    for name, tier in (("archive", "archived"), ("cold", "cold"), ("delete", "deleted")):
        assert did[f"{name}.{tier}"] == counts[name][tier]
    assert {tier: did[f"sweep.{tier}"] for tier in DECAY_TIERS if did[f"sweep.{tier}"]} == counts["sweep"]
    assert all(move.rule == "decay" and move.why for _, move in changes)
    assert all_pages(aged, moment, 7)[0] == [], "a second dry run lists nothing"


def test_a_step_without_a_dry_run_says_so_and_one_that_is_gone_has_no_page(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged = Aged(service, monkeypatch)

    def nothing(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(steps, "STEPS", {"new": nothing})
    page = night_preview.preview_night(aged.tenant_id, None, None, 10)
    assert page == (aged.now, [StepForecast("new", {}, night_preview.UNSEEN)], [], None)
    with pytest.raises(Invalid):
        night_preview.preview_night(aged.tenant_id, None, NightCursor("sweep", UUID(int=1)), 10)


def test_every_step_says_what_its_dry_run_is(service: Service) -> None:
    service.configure(master_key="x" * 32)
    assert list(steps.dry_runs()) == list(steps.STEPS)
    notes = {name: note for name, note in steps.dry_runs().items() if isinstance(note, str)}
    assert len(set(notes.values())) == len(notes), "no two steps do the same"
    assert notes["retention"].startswith("deletes records past their retention period")
    assert "the sweep uses them" in notes["keep_chances"]
