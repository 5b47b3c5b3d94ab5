"""Render templates to HTML: menu, filters, notices and the security headers of every page."""

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
from markupsafe import Markup, escape

from app import __name__ as package
from app.api.http import page_headers
from app.dashboard import svg_charts
from app.dashboard.access import LOOKS, Viewer
from app.dashboard.actors import Actors
from app.dashboard.text_display import make_visible, shorten
from app.domain import formatting
from app.domain.formatting import format_minute, format_relative
from app.domain.jobs import EXAMINING, RESULTS
from app.domain.runbook import UNCOUNTED, explain_reason, reason_path, section_path
from app.services.monitoring import status
from app.store.jobs.schedules import ScheduleRun

PREFIX: Final = "/ops"
HEADERS: Final = page_headers.HEADERS

PAGES: Final = (
    ("", "Overview", LOOKS),
    ("/ladder", "Tiers", LOOKS),
    ("/consolidation", "Consolidation", LOOKS),
    ("/privacy", "Privacy", ("privacy",)),
    ("/letters", "Dead letters", ("maintain", "admin")),
    ("/webhooks", "Webhooks", ("maintain",)),
    ("/money", "Costs", ("maintain", "admin")),
    ("/tests", "Self-tests", LOOKS),
    ("/search", "Search", ("read",)),
    ("/tenants", "Tenants", ("admin",)),
    ("/keys", "API keys", ("admin",)),
    ("/audit", "Audit log", LOOKS),
)
"""Menu entries: path, title, and the scopes that may see it (any one is enough)."""


def page(request: Request, viewer: Viewer | None, template: str, status: int = 200, **context: Any) -> Response:
    """Render a page, or a fragment of one, as a response.

    Args:
        request: The request.
        viewer: Logged-in viewer; None before the log-in.
        template: Template name without `.html`.
        status: HTTP status.
        context: Template variables; text is escaped.
    """
    return Response(
        render(template, viewer, request.url.path, request.query_params.get("done"), **context),
        status_code=status,
        media_type="text/html",
        headers=HEADERS,
    )


def render(template: str, viewer: Viewer | None, path: str = "", done: str | None = None, **context: Any) -> str:
    """Render a template to a string."""
    actors = Actors(viewer.tenant_id if viewer else None)
    shown = [(PREFIX + place, name) for place, name, scopes in PAGES if viewer and any(map(viewer.may, scopes))]
    return (
        _templates()
        .get_template(f"{template}.html")
        .render(viewer=viewer, menu=shown, path=path, done=DONE.get(done or ""), actors=actors, **context)
    )


def redirect_back(place: str, done: str) -> Response:
    """Redirect after a form was processed, and drop the cached status so that the page shows the change.

    Args:
        place: Path of the page, without `PREFIX`.
        done: Key of the notice in `DONE`.
    """
    status.forget()
    return RedirectResponse(f"{PREFIX}{place or '/'}?done={done}", 303)


DONE: Final[Mapping[str, str]] = {
    "run": "The run is queued.",
    "paused": "Paused: no scheduled run starts until you resume it.",
    "resumed": "Resumed.",
    "tenant": "Switched to another tenant.",
    "approved": "Approved: the merge is queued.",
    "rejected": "Rejected: the memories are unchanged.",
    "superseded": "Approved: searches return only the newer memory.",
    "undone": "Undone: the summary or the links are removed, and archived source memories are active again.",
    "cancelled": "The erasure is cancelled: its hidden memories are restored.",
    "erasing": "Erasure requested: the matching memories are hidden.",
    "exporting": "The export is queued.",
    "held": "The hold is in force.",
    "released": "The hold is released.",
    "corrected": "The hold is corrected.",
    "finishing": "The erasure is queued and can no longer be cancelled.",
    "entered": "The request is recorded.",
    "webhook_sent": "Queued: the list shows the result in a few seconds.",
    "webhook_enabled": "The webhook is enabled and continues where it stopped.",
    "webhook_paused": "The webhook is paused. Its changes wait in the feed.",
    "replayed": "Queued again: look at this page in a minute. Work that fails again becomes a new dead letter.",
    "unreplayable": "Nothing was replayed: an older version stored these dead letters without their content. Send the "
    "data again.",
    "discarded": "Discarded: the content of the dead letters is deleted.",
    "confirmed": "Recorded: the requester was sent a confirmation of receipt.",
    "completed": "Recorded: the request is completed.",
    "denied": "Recorded: the request is denied, with this legal basis.",
    "identified": "Recorded: the requester's identity was checked.",
    "extended": "Recorded: the deadline is extended. Send the notice before the first deadline, and record it.",
    "noticed": "Recorded: the notice of the extension was sent.",
    "partly_answered": "Recorded: the partial answer was sent. The request remains open until the rest is erased.",
    "reviewed": "Recorded: the text was reviewed.",
    "restored": "The memory is being restored.",
    "tested": "The self-tests are queued.",
    "unnamed": "Deleted: records show this person's actions without a name.",
}
"""Notices shown after an action, by the value of the query parameter `done`."""


def format_ago(moment: datetime | None) -> str:
    """Format a time relative to now: `3 minutes ago` or `in 2 hours`."""
    return format_relative(None if moment is None else (datetime.now(UTC) - moment).total_seconds())


def format_code(text: str) -> Markup:
    """Format a text whose commands are between backticks as HTML; everything else is escaped."""
    parts = (
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


def format_step(counts: Mapping[str, int], step: str) -> list[tuple[str, int]]:
    """Return the counts of one step of a nightly run, by name, except zeros that say nothing."""
    shown = {name: count for name, count in counts.items() if _is_of(name, step) and (count or name in RESULTS)}
    found = [(name.partition(".")[2], count) for name, count in shown.items()]
    return [(name or _name_unit(step, count), count) for name, count in found]


def _name_unit(step: str, count: int) -> str:
    if step in EXAMINING:
        return "examined"
    return "row" if count == 1 else "rows"


def _is_of(name: str, step: str) -> bool:
    return name.partition(".")[0] == step


def step_outcome(run: ScheduleRun, step: str) -> tuple[str, str]:
    """Return the state of a step in a nightly run, and its badge class."""
    if step in run.failed:
        return f"failed: {run.failed[step]}", "trouble"
    if step == run.step and run.status in _AT_STEP:
        return _AT_STEP[run.status]
    if run.started_at is None:
        return run.status, "quiet"
    if step in run.left:
        return ("pending" if run.finished_at is None else "not started"), "quiet"
    return "done", "well"


_AT_STEP: Final = {
    "running": ("running", "attention"),
    "cut_short": ("time limit reached", "attention"),
    "failed": ("failed", "trouble"),
}


def format_moment(when: datetime | None) -> Markup:
    """Format a time in UTC as a `<time>` element, with the relative time as its title."""
    if when is None:
        return Markup("–")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        when.astimezone(UTC).isoformat(timespec="seconds"), format_ago(when), format_minute(when)
    )


ACTION_NAMES: Final[Mapping[str, str]] = {
    "tenant_made": "tenant created",
    "key_made": "key created",
    "letters_replayed": "dead letters replayed",
    "letters_discarded": "dead letters discarded",
    "expiry_noticed": "expiry announced",
    "export_fetched": "export downloaded",
    "operator_acted": "manual action",
    "enter_request": "record request",
    "fetch_export": "download export",
    "replay_letter": "replay dead letter",
    "replay_letters": "replay dead letters",
    "discard_letter": "discard dead letter",
    "discard_letters": "discard dead letters",
}
"""Labels of audit and manual actions; actions not listed use their stored word."""
RULE_NAMES: Final[Mapping[str, str]] = {
    "hold": "legal hold",
    "expiry": "retention period",
    "never_forget": "permanently protected",
    "promoted": "promoted",
    "grace": "new: in its grace period",
}
"""Labels of the rules that decide a tier; rules not listed use their own name."""


CATEGORY_NAMES: Final[Mapping[str | None, str]] = {
    "expires_at": "Expiry time set on the memory",
    "subject_retention": "Retention period of the subject",
    None: "All other memories",
    "pii": "Personal data",
    "financial": "Finances",
    "casual": "Small talk",
    "work": "Work",
    "health": "Health",
    "credentials": "Passwords and keys",
    "archived_conversations": "Archived conversations",
}
"""Labels of the built-in privacy categories; a tenant's own categories use their name."""


def category_name(category: str | None) -> str:
    """Return the label of a privacy category, with the API's name in parentheses if it differs."""
    label = CATEGORY_NAMES.get(category)
    if label is None:
        return str(category)
    return label if category is None or category.replace("_", " ") == label.lower() else f"{label} ({category})"


def action_name(action: str) -> str:
    """Return the label of an audit action or a manual action."""
    return ACTION_NAMES.get(action, action.replace("_", " "))


def rule_name(rule: str) -> str:
    """Return the label of the rule that decides a memory's tier."""
    return RULE_NAMES.get(rule, rule.replace("_", " "))


def run_status(status: str) -> str:
    """Return the label of a scheduled run's status."""
    return _AT_STEP[status][0] if status in _AT_STEP else status.replace("_", " ")


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(f"{package}.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_show_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "age": formatting.format_span,
        "days_left": formatting.format_days_left,
        "ago": format_ago,
        "ago_seconds": format_relative,
        "number": formatting.format_number,
        "percent": formatting.format_percent,
        "bytes": formatting.format_bytes,
        "cost": formatting.format_cost,
        "latency": formatting.format_latency,
        "rate": formatting.format_rate,
        "code": format_code,
        "moment": format_moment,
        "of_step": format_step,
        "action_name": action_name,
        "category_name": category_name,
        "rule_name": rule_name,
        "run_status": run_status,
        "unchanged": _leave_unchanged,
    }
    made.filters["how_it_went"] = step_outcome
    made.globals |= {
        "charts": svg_charts,
        "PREFIX": PREFIX,
        "explain_reason": explain_reason,
        "reason_path": reason_path,
        "uncounted": UNCOUNTED,
        "section_path": section_path,
        "asset": asset_url,
        "visible": make_visible,
        "short": shorten,
    }
    return made


def _show_controls(value: object) -> object:
    """Make control and direction characters of any text on a page visible; markup and other values stay as they are."""
    return make_visible(value) if type(value) is str else value


def _leave_unchanged(value: object) -> Markup:
    """Escape the value of a form field, which a visitor sends back and which therefore has to stay as it is."""
    return escape(value)


def asset_url(name: str) -> str:
    """Return the URL of a static file, with a digest of its content for cache busting."""
    return f"{PREFIX}/static/{name}?{asset_digests()[name]}"


@cache
def asset_digests() -> dict[str, str]:
    """Return a content digest for each static file."""
    folder = resources.files(f"{package}.dashboard") / "static"
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in folder.iterdir()}


@cache
def asset_content(name: str) -> bytes | None:
    """Return the bytes of a static file; None if it doesn't exist."""
    folder = resources.files(f"{package}.dashboard") / "static"
    return (folder / name).read_bytes() if name in asset_digests() else None
