"""`ebbing maintain`: run or preview maintenance of all memories of a tenant, now or as of another time."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from app.cli.core.calls import given
from app.cli.core.connection import find_connection
from app.cli.core.errors import Commands
from app.cli.core.output import AsJson, Url, Yes, confirm, count_of, examples, print_json, print_table, progress
from app.cli.core.time_option import time_option
from app.cli.maintenance.jobs import follow_job, require_done
from app.domain.formatting import count_memories
from app.domain.maintenance import KINDS, Maintenance

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATIENCE_SECONDS: Final = 60.0
PAGE: Final = 1000
SHOWN: Final = 50
TEXT_CHARACTERS: Final = 60
Level = Literal["light", "medium", "aggressive"]
_TIERS: Final = ("active", "archived", "cold", "deleted")

router = typer.Typer(
    name="maintain",
    cls=Commands,
    help="Run one scheduled maintenance task now.",
    no_args_is_help=True,
    epilog=examples("ebbing maintain sweep --dry-run", "ebbing maintain rebase --wait"),
)

_AS_OF: Final = "Evaluate as of this time, such as 2026-11-20T18:00:00Z. Future times require --dry-run."
AsOf = Annotated[str | None, time_option("--as-of", _AS_OF)]
DryRun = Annotated[bool, typer.Option("--dry-run")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the job to end, like `ebbing jobs watch`.")]
LevelOption = Annotated[
    Level | None, typer.Option("--level", help="Compression level of the summaries. Default: set by the policy.")
]


def _command(kind: str, about: Maintenance) -> Callable[..., None]:
    """Return the function behind a command, with the options of its kind."""

    def start(
        *,
        level: LevelOption = None,
        dry_run: DryRun = False,
        as_of: AsOf = None,
        wait: Wait = False,
        yes: Yes = False,
        url: Url = None,
        as_json: AsJson = False,
    ) -> None:
        if about.deletes and not dry_run and not yes:
            confirm("Permanently delete the memories listed by `--dry-run`? This can't be undone.")
        _run(kind, given(as_of=as_of, level=level), dry_run=dry_run, wait=wait, url=url, as_json=as_json)

    signature = inspect.signature(start, eval_str=True)
    options = dict(signature.parameters)
    options["dry_run"] = options["dry_run"].replace(
        annotation=Annotated[bool, typer.Option("--dry-run", help=about.dry_run)]
    )
    if not about.deletes:
        del options["yes"]
    if "level" not in about.parameters:
        del options["level"]
    vars(start)["__signature__"] = signature.replace(parameters=list(options.values()))
    return start


for _kind, _about in KINDS.items():
    _examples = [f"ebbing maintain {_kind} {one}".rstrip() for one in _about.examples]
    router.command(_kind, help=_about.help, epilog=examples(*_examples))(_command(_kind, _about))


def _run(kind: str, wanted: dict[str, Any], *, dry_run: bool, wait: bool, url: str | None, as_json: bool) -> None:
    from app.cli.core.client import Api

    path, view = f"/v1/maintenance/{kind}", _VIEWS.get(kind, _TIER_VIEW)
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        if dry_run:
            found = _preview(api, path, {**wanted, "dry_run": True} | _limit(kind), quiet=as_json)
        else:
            found = api.call("POST", path, json=wanted, safe=True).body
            if wait:
                found = follow_job(api, found["job_id"], quiet=as_json)
    if as_json:
        print_json(found)
    elif dry_run:
        _show_preview(found, view)
    elif not wait:
        typer.echo(f"started job {found['job_id']}")
    elif found["status"] == "done":
        view.tell(found)
    if wait and not dry_run:
        require_done(found, "completed work is not reverted", as_json=as_json)


def _limit(kind: str) -> dict[str, int]:
    return {"limit": PAGE} if "limit" in KINDS[kind].parameters else {}


def _preview(api: Api, path: str, wanted: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Fetch all pages of a preview and join them."""
    with progress("checking", None, quiet=quiet) as step:
        found: dict[str, Any] = api.call("POST", path, json=wanted, safe=True).body
        counts = Counter(found["counts"])
        while cursor := found["next_cursor"]:
            step(note=f"{count_memories(counts['looked_at'])}, {len(found['changes']):,} changes")
            page = api.call("POST", path, json={**wanted, "cursor": cursor}, safe=True).body
            counts.update(page["counts"])
            found |= {name: found[name] + page[name] for name in ("changes", "summaries") if name in page}
            found["next_cursor"] = page["next_cursor"]
    return found | {"counts": dict(counts)}


@dataclass(frozen=True)
class View:
    """Headings and functions that print a preview and a finished job of one kind of maintenance.

    Attributes:
        heads: Headings of the columns of a preview.
        row: Returns the cells of a change.
        close: Prints a preview's last lines.
        tell: Prints the results of a finished job.
    """

    heads: Sequence[str]
    row: Callable[[dict[str, Any]], Sequence[object]]
    close: Callable[[dict[str, Any]], None]
    tell: Callable[[dict[str, Any]], None]
    right: Sequence[str] = ()


def _show_preview(found: dict[str, Any], view: View) -> None:
    changes = found["changes"]
    if changes or view is _TEST_VIEW:
        print_changes(view.heads, view.row, changes, right=view.right)
    if summaries := found.get("summaries"):
        print_table(["summary", "from", "to", "reason"], [*map(_CHANGE, summaries[:SHOWN])])
    view.close(found)


def print_changes(
    heads: Sequence[str],
    row: Callable[[dict[str, Any]], Sequence[object]],
    changes: Sequence[dict[str, Any]],
    right: Sequence[str] = (),
) -> None:
    """Print a preview's first changes."""
    print_table(heads, [*map(row, changes[:SHOWN])], right=right)
    if len(changes) > SHOWN:
        typer.echo(f"… and {len(changes) - SHOWN:,} more: --json lists them all")


def _close_tiers(found: dict[str, Any]) -> None:
    typer.echo(f"{count_memories(found['counts']['looked_at'])} due{_tiers(found['counts'])}")


def _close_groups(found: dict[str, Any]) -> None:
    counts = found["counts"]
    typer.echo(
        f"{count_memories(counts['looked_at'])} considered, "
        f"{count_of(counts['clusters'], 'group', 'groups')}{_explain_new_tenant(counts)}"
    )
    if not found["complete"]:
        typer.echo("The preview is incomplete: there are more groups.")


def _tell_tests(job: dict[str, Any]) -> None:
    names = tuple(sorted({name.rpartition("_")[0] for name in job["counts"]}))
    outcomes = ("passed", "failed", *(["empty"] if "recall_empty" in job["counts"] else []))
    rows = [
        (name.replace("_", " "), *(job["counts"].get(f"{name}_{outcome}", 0) for outcome in outcomes)) for name in names
    ]
    print_table(["kind", *outcomes], rows, right=outcomes)


def _test(change: dict[str, Any]) -> tuple[object, ...]:
    return change["kind"].replace("_", " "), change["id"], change["from"]


def _tell_processed(describe: Callable[[dict[str, int]], str], job: dict[str, Any]) -> None:
    typer.echo(f"{count_memories(job['done'])} processed{describe(job['counts'])}")


def _group(change: dict[str, Any]) -> tuple[object, ...]:
    waits, text = "yes" if change["waits"] else "", shorten(change["text"], TEXT_CHARACTERS, placeholder=" …")
    return change["action"], len(change["memories"]), len(change["kept"]), waits, change["why"], text


def _describe_merges(counts: dict[str, int]) -> str:
    found = {"merged": "merged", "linked": "groups linked", "waiting": "groups need approval"}
    told = {name: f"{counts[name]:,} {words}" for name, words in found.items() if counts.get(name)}
    if "merged" in told:
        told["merged"] += f" into {count_of(counts['summaries'], 'summary', 'summaries')}"
    return f"; {', '.join(told.values())}" if told else f"; nothing to merge{_explain_new_tenant(counts)}"


def _explain_new_tenant(counts: dict[str, int]) -> str:
    """Explain to new tenants why nothing was considered."""
    return "" if counts.get("looked_at") else ": recent memories are excluded (policy field consolidation.keep_days)"


def _tiers(counts: dict[str, int]) -> str:
    """Describe how many memories change to each tier."""
    found = [f"{counts[tier]:,} to {tier}" for tier in _TIERS if counts.get(tier)]
    return f"; new tiers: {', '.join(found)}" if found else "; no tier changes"


def _notes(counts: dict[str, int]) -> str:
    """Describe how many notes are written and removed, and how many were edited by hand."""
    found = {"written": "written", "removed": "removed", "edited": "edited by hand, left as they are"}
    told = [f"{counts[name]:,} {words}" for name, words in found.items() if counts.get(name)]
    return f"; notes: {', '.join(told)}" if told else "; no note changes"


_CHANGE: Final = itemgetter("id", "from", "to", "why")
_TIER_VIEW: Final = View(["id", "from", "to", "reason"], _CHANGE, _close_tiers, partial(_tell_processed, _tiers))
_TEST_VIEW: Final = View(["kind", "id", "from"], _test, lambda _: None, _tell_tests)
_VIEWS: Final = {
    "notes": View(
        ["id", "note", "becomes", "reason"],
        itemgetter("id", "from", "to", "why"),
        lambda found: typer.echo(f"{count_memories(found['counts']['looked_at'])} promoted{_notes(found['counts'])}"),
        partial(_tell_processed, _notes),
    ),
    "promote": View(
        ["id", "tier", "reason", "numbers"],
        itemgetter("id", "from", "rule", "why"),
        lambda found: typer.echo(
            f"{count_memories(found['counts']['looked_at'])} checked; {found['counts']['promoted']:,} to promote"
        ),
        partial(_tell_processed, lambda counts: f"; {counts.get('promoted', 0):,} promoted"),
    ),
    "selftest": _TEST_VIEW,
    "consolidate": View(
        ["action", "memories", "kept", "needs approval", "reason", "example"],
        _group,
        _close_groups,
        partial(_tell_processed, _describe_merges),
        right=["memories", "kept"],
    ),
}
