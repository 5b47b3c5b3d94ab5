"""Making HTML: the templates, what they may call, and the headers that every page has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import jinja2
from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from app import __name__ as package
from app.dashboard import charts
from app.dashboard.access import LOOKS, Viewer
from app.dashboard.wording import short, visible
from app.services.monitoring import situation
from app.store.jobs.schedules import Run

PREFIX: Final = "/ops"
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without it, a browser doesn't say where a form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

PAGES: Final = (
    ("", "Now", LOOKS),
    ("/ladder", "Ladder", LOOKS),
    ("/consolidation", "Consolidation", LOOKS),
    ("/privacy", "Privacy", ("privacy",)),
    ("/letters", "Dead letters", ("maintain", "admin")),
    ("/money", "Money", ("maintain", "admin")),
    ("/tests", "Self-tests", LOOKS),
    ("/search", "Search", ("read",)),
    ("/tenants", "Tenants", ("admin",)),
    ("/audit", "Audit", LOOKS),
)
"""Path, name and scopes of what stands in the menu: with any of them it is shown."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_THOUSAND: Final = 1000


def page(request: Request, viewer: Viewer | None, template: str, status: int = 200, **context: Any) -> Response:
    """A whole page, or a part of one.

    Args:
        request: What asked for it.
        viewer: Who looks; None before the log-in.
        template: Its name, without `.html`.
        status: Of the answer.
        context: What the template shows; text in it is escaped.
    """
    return Response(
        render(template, viewer, request.url.path, request.query_params.get("done"), **context),
        status_code=status,
        media_type="text/html",
        headers=HEADERS,
    )


def render(template: str, viewer: Viewer | None, path: str = "", done: str | None = None, **context: Any) -> str:
    """The HTML alone."""
    shown = [(PREFIX + place, name) for place, name, scopes in PAGES if viewer and any(map(viewer.may, scopes))]
    return (
        _templates()
        .get_template(f"{template}.html")
        .render(viewer=viewer, menu=shown, path=path, done=DONE.get(done or ""), **context)
    )


def back(place: str, done: str) -> Response:
    """Where a form leads when it is done; what is known of the moment is asked anew there.

    Args:
        place: The page, without `PREFIX`.
        done: A word of `DONE`.
    """
    situation.forget()
    return RedirectResponse(f"{PREFIX}{place or '/'}?done={done}", 303)


DONE: Final[Mapping[str, str]] = {
    "run": "The run is entered: it begins as soon as it is its turn.",
    "paused": "Paused: nothing of it begins by itself until it is resumed.",
    "resumed": "Resumed.",
    "tenant": "You see another tenant now.",
    "approved": "Approved: the merge is being made.",
    "rejected": "Rejected: the memories stay as they are.",
    "superseded": "Approved: searches show the newer memory alone.",
    "undone": "Undone: the memories are as they were.",
    "cancelled": "Cancelled.",
    "erasing": "The erasure is entered, and what it is about is hidden.",
    "exporting": "The export is being made.",
    "held": "The hold is on.",
    "released": "The hold is released.",
    "finishing": "It begins as soon as it is its turn, and can't be cancelled any more.",
    "entered": "The request is entered.",
    "replayed": "Replayed: what fails again comes back as a new letter.",
    "unreplayable": "None was replayed: an older version wrote them without what it takes. Send what they held again.",
    "discarded": "Discarded: what they held is deleted.",
    "confirmed": "Entered as confirmed.",
    "completed": "Entered as done.",
    "denied": "Entered as denied, with the basis.",
    "restored": "It is on its way back.",
    "tested": "The self-tests begin as soon as it is their turn.",
}
"""What a page says after something was done, by the word in its address."""


def age(seconds: float | None) -> str:
    """A length of time in one or two units: `45 s`, `3 min`, `2 h 5 min`, `12 d`."""
    if seconds is None:
        return "never"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        hours, rest = divmod(whole, _HOUR)
        return f"{hours} h {rest // _MINUTE} min" if rest >= _MINUTE else f"{hours} h"
    days, rest = divmod(whole, _DAY)
    return f"{days} d {rest // _HOUR} h" if days < 10 and rest >= _HOUR else f"{days} d"


def ago(moment: datetime | None) -> str:
    """How long ago a moment was, or in how long it will be."""
    if moment is None:
        return "never"
    seconds = (datetime.now(UTC) - moment).total_seconds()
    return f"{age(seconds)} ago" if seconds >= 0 else f"in {age(-seconds)}"


def number(value: float | None) -> str:
    """A number with its thousands apart, a fraction with three figures; nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}".replace(",", " ")
    return f"{value:.3g}" if abs(value) < _THOUSAND else f"{round(value):,}".replace(",", " ")


def percent(share: float | None) -> str:
    """A share of one as percent."""
    return "–" if share is None else f"{share * 100:.1f} %" if 0 < share < 0.1 else f"{share * 100:.0f} %"


def of_step(counts: Mapping[str, int], step: str) -> list[tuple[str, int]]:
    """A night's counts of one step, by name, nothing counted left out."""
    found = [(name.partition(".")[2], count) for name, count in counts.items() if _is_of(name, step) and count]
    return [(name or ("row" if count == 1 else "rows"), count) for name, count in found]


def _is_of(name: str, step: str) -> bool:
    return name.partition(".")[0] == step


def how_it_went(run: Run, step: str) -> tuple[str, str]:
    """A step of a run in a word, and the kind of its badge."""
    if step in run.failed:
        return f"failed: {run.failed[step]}", "trouble"
    if step == run.step and run.status in _AT_STEP:
        return _AT_STEP[run.status]
    if run.started_at is None:
        return run.status, "quiet"
    if step in run.left:
        return ("waits" if run.finished_at is None else "not begun"), "quiet"
    return "done", "well"


_AT_STEP: Final = {
    "running": ("under way", "attention"),
    "cut_short": ("cut short", "attention"),
    "failed": ("failed", "trouble"),
}


def moment(when: datetime | None) -> Markup:
    """A moment as people read it, with how long ago that was."""
    if when is None:
        return Markup("–")
    shown = when.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        shown.isoformat(timespec="seconds"), ago(when), f"{shown:%Y-%m-%d %H:%M} UTC"
    )


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(f"{package}.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"age": age, "ago": ago, "number": number, "percent": percent, "moment": moment, "of_step": of_step}
    made.filters["how_it_went"] = how_it_went
    made.globals |= {"charts": charts, "PREFIX": PREFIX, "asset": asset, "visible": visible, "short": short}
    return made


def asset(name: str) -> str:
    """The address of a static file, another one for each content of it."""
    return f"{PREFIX}/static/{name}?{digests()[name]}"


@cache
def digests() -> dict[str, str]:
    """A digest of each static file's content."""
    folder = resources.files(f"{package}.dashboard") / "static"
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in folder.iterdir()}


@cache
def content(name: str) -> bytes | None:
    """A static file's bytes; None where there is none of this name."""
    folder = resources.files(f"{package}.dashboard") / "static"
    return (folder / name).read_bytes() if name in digests() else None
