"""Print the report of `ebbing demo`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from app.cli.core.output import console, plain
from app.cli.demo.client import EDIT_QUERY, RESULTS, AskedQuestion, TourReport
from app.cli.demo.scores import Cost, Salience
from app.cli.demo.simulate import MONTH_MEMORIES, show_table
from app.domain.formatting import format_cost, format_latency, format_span

if TYPE_CHECKING:
    from app.services.evaluation.simulation import SimulationOutcome

SHOWN: Final = 3
MEASURED: Final = ("active_set", "active", "found", "unimportant_active")
NAMES: Final = {"heuristic": "by rules", "llm": "by a model", "caller": "by the caller"}


def show_report(report: TourReport, start_seconds: float) -> None:
    """Print the results of the tour."""
    screen = console()
    facts = {
        "Started": f"in {format_span(start_seconds)}: PostgreSQL, Redis, five workers, beat, the API",
        "Sent": (
            f"{report.memories:,} memories in {report.requests:,} requests; each was answered 202 in "
            f"{format_latency(report.accepted_p50_ms)} (p50), {format_latency(report.accepted_p95_ms)} (p95)"
        ),
        "Stored": (
            f"all after {format_span(report.stored_seconds)}; searchable by words and by meaning after "
            f"{format_span(report.searchable_seconds)}"
        ),
        "Kinds": _counts(report.kinds),
        "Tiers": _counts(report.tiers),
    }
    for name, text in facts.items():
        screen.print(_fact(name, text))
    screen.print()
    screen.print(
        Text(f"Questions, one year later (✓ = expected answer; top {SHOWN} of {RESULTS} results shown)", style="bold")
    )
    for asked in report.questions:
        _show_question(asked)
    screen.print()
    found = f"{report.found_count} of {len(report.questions)}"
    screen.print(_fact("Answered", f"{found}; a search takes {format_latency(report.search_p50_ms)} (p50)"))
    _show_salience(report.salience)
    again = "the first request sent again with its Idempotency-Key returns the same ids"
    for name, text, well in (
        ("Edited", f"the next search for “{EDIT_QUERY}” returns the new text first", report.edit_is_found),
        ("Deleted", "the next search no longer returns it", report.delete_is_gone),
        ("Repeated", again, report.repeat_gives_same_ids),
    ):
        screen.print(_fact(name, "").append_text(_mark(well=well)).append(f" {text}"))


def show_month(outcomes: Sequence[SimulationOutcome]) -> None:
    """Print the results of the simulated month and the next steps."""
    screen = console()
    screen.print()
    title = f"Simulated month: {MONTH_MEMORIES} memories, 10% of them important; `ebbing simulate` runs a whole year"
    screen.print(Text(title, style="bold"))
    show_table(outcomes, MEASURED)
    screen.print(
        "still active, found: shares of important memories (questions are paraphrased); chatter: share of unimportant "
        "memories that are still active"
    )
    screen.print()
    screen.print(
        "Next: `ebbing run` starts a service with persistent data; "
        "then `ebbing ingest FILE` and `ebbing search QUESTION`."
    )


def _show_salience(salience: Salience) -> None:
    screen = console()
    judged = ", ".join(f"{count} {NAMES.get(source, source)}" for source, count in salience.sources.items())
    if salience.cost is None:
        screen.print(_fact("Rated", f"{judged}; no model configured (EBBING_OPENAI_API_KEY)"))
    else:
        cost = salience.cost
        asked = f"{cost.model} at {cost.host}: {_cost(cost)}" if cost.calls else "no model response so far"
        screen.print(_fact("Rated", f"{judged}; {asked}"))
    if salience.again is not None:
        screen.print(_fact("Again", f"identical texts sent again: {_cost(salience.again)}"))
    for one in salience.best:
        criteria = ", ".join(f"{name} {one.criteria[name]:g}" for name in sorted(one.criteria))
        line = Text(f"    {one.salience:.2f} ", style="bold").append(f"({criteria or one.source}) ", style="dim")
        _show_line(line, one.text)


def _show_line(line: Text, text: str) -> None:
    """Print a line that ends in a text, cut to the width of the terminal."""
    screen = console()
    line.append(plain(text), style="default")
    if screen.is_terminal:
        line.truncate(screen.width, overflow="ellipsis")
    screen.print(line)


def _cost(cost: Cost) -> str:
    money = "no price configured" if cost.cost is None else f"cost {format_cost(cost.cost)}"
    return f"{cost.calls:,} calls, {cost.tokens:,} tokens, {money}, {cost.cache_hits:,} cache hits"


def _show_question(asked: AskedQuestion) -> None:
    screen = console()
    screen.print(_mark(well=asked.found).append(f" {asked.query}", style="bold"))
    hits = list(asked.hits[:SHOWN])
    first = next((hit for hit in asked.hits if hit.expected), None)
    if first is not None and first not in hits:
        hits.append(first)
    for hit in hits:
        line = Text(f"    {asked.hits.index(hit) + 1}. ", style="dim")
        _show_line(line.append("✓ " if hit.expected else "  ", style="green"), hit.text)


def _mark(*, well: bool) -> Text:
    return Text("✓", style="green") if well else Text("✗", style="red")


def _fact(name: str, text: str) -> Text:
    return Text.assemble((f"{name:<10}", "bold"), text)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
