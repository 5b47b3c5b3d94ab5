"""`ebbing maintain`: work on all of a tenant's memories, now or as of another moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn

import typer

from app.cli.core.failures import Code, Commands, Failure
from app.cli.core.moments import METAVAR, moment
from app.cli.core.output import AsJson, Url, confirm, examples, plain, print_json, print_table, progress
from app.cli.core.place import find
from app.cli.maintenance.jobs import follow

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATIENCE_SECONDS: Final = 60.0
PAGE: Final = 1000
SHOWN: Final = 50
TEXT_CHARACTERS: Final = 60
Level = Literal["light", "medium", "aggressive"]
_TIERS: Final = ("active", "archived", "cold", "deleted")

router = typer.Typer()
maintain = typer.Typer(
    cls=Commands,
    help="Look after all memories: sweep, consolidate, rebase, archive, cold, delete, expire, selftest.",
    no_args_is_help=True,
)
router.add_typer(
    maintain, name="maintain", epilog=examples("ebbing maintain sweep --dry-run", "ebbing maintain rebase --wait")
)

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        callback=moment,
        metavar=METAVAR,
        help="As of this moment, such as 2026-11-20T18:00:00Z; one to come only with --dry-run.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would change, and why.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done; else `ebbing jobs watch` does.")]


@maintain.command(
    epilog=examples(
        "ebbing maintain sweep",
        "ebbing maintain sweep --wait --json",
        "ebbing maintain sweep --dry-run --as-of 2030-01-01T00:00:00Z",
    )
)
def sweep(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Find what has faded, as each night does: memories get the tier that decay asks for, and nothing is moved."""
    _run("sweep", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain rebase --dry-run", "ebbing maintain rebase --wait"))
def rebase(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Bring memories that fade by an older policy to the one in force, as the night after its beginning does.

    No strength changes by it, today's nor that of the past.
    """
    _run("rebase", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(
    epilog=examples("ebbing maintain archive --wait", "ebbing maintain archive --dry-run --as-of 2030-01-01T00:00:00Z")
)
def archive(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Sweep, and move what has faded to the archive, as each night does; a use brings it back."""
    _run("archive", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain cold --dry-run", "ebbing maintain cold --wait"))
def cold(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Sweep, and move what has faded further to cold storage, as each night does; `ebbing restore` brings it back."""
    _run("cold", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain delete --dry-run", "ebbing maintain delete --wait --yes"))
def delete(
    *,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    wait: Wait = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete for good what is in cold storage and fulfils every condition, as each night does. It can't be undone."""
    if not dry_run and not yes:
        confirm("Delete for good what `--dry-run` lists? It can't be undone.")
    _run("delete", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain expire --dry-run", "ebbing maintain expire --wait --yes"))
def expire(
    *,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    wait: Wait = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete for good what the policy's privacy allows no longer, as each night does. It can't be undone."""
    if not dry_run and not yes:
        confirm("Delete for good what `--dry-run` lists? It can't be undone.")
    _run("expire", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain selftest --wait", "ebbing maintain selftest --dry-run"))
def selftest(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the memories that would be asked about.")
    ] = False,
    as_of: AsOf = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Ask about a sample of the memories, as a night does once a week; `ebbing stats` shows how it went.

    What passes becomes stronger, what fails is flagged for review: `ebbing reviews --flagged`.
    """
    from app.cli.core.client import Api

    path, wanted = "/v1/maintenance/selftest", {} if as_of is None else {"as_of": as_of}
    with Api(find(url), patience_seconds=PATIENCE_SECONDS) as api:
        found = api.call("POST", path, json={**wanted, "dry_run": True} if dry_run else wanted, safe=True).body
        job = follow(api, found["job_id"], quiet=as_json) if wait and not dry_run else None
    if as_json:
        print_json(job or found)
    elif dry_run:
        names = ("kind", "id", "from")
        print_table(names, [tuple(one[name] for name in names) for one in found["changes"][:SHOWN]])
        if len(found["changes"]) > SHOWN:
            typer.echo(f"… and {len(found['changes']) - SHOWN:,} more: --json lists them all")
    elif job is None:
        typer.echo(f"job {found['job_id']} is started")
    elif job["status"] == "done":
        names = tuple(sorted({name.rpartition("_")[0] for name in job["counts"]}))
        outcomes = ("passed", "failed", *(["empty"] if "recall_empty" in job["counts"] else []))
        rows = [(name, *(job["counts"].get(f"{name}_{outcome}", 0) for outcome in outcomes)) for name in names]
        print_table(["kind", *outcomes], rows, right=outcomes)
    if job is not None and job["status"] != "done":
        _fail(job, as_json=as_json)


@maintain.command(
    epilog=examples("ebbing maintain consolidate --dry-run", "ebbing maintain consolidate --level light --wait")
)
def consolidate(
    *,
    level: Annotated[Level | None, typer.Option("--level", help="How much shorter; else as the policy says.")] = None,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Merge what belongs together, as each night does; `ebbing consolidation` lists and undoes it."""
    from app.cli.core.client import Api

    path = "/v1/maintenance/consolidate"
    given = {"as_of": as_of, "level": level}
    wanted = {name: value for name, value in given.items() if value is not None}
    with Api(find(url), patience_seconds=PATIENCE_SECONDS) as api:
        if dry_run:
            found = api.call("POST", path, json={**wanted, "dry_run": True, "limit": PAGE}, safe=True).body
            _show_groups(found, as_json=as_json)
            return
        started = api.call("POST", path, json=wanted, safe=True).body
        if wait:
            _show_ended(follow(api, started["job_id"], quiet=as_json), as_json=as_json, tell=_merged)
        elif as_json:
            print_json(started)
        else:
            typer.echo(f"job {started['job_id']} is started")


def _show_groups(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    changes = found["changes"]
    if changes:
        rows = [
            (
                each["action"],
                len(each["memories"]),
                len(each["kept"]),
                "yes" if each["waits"] else "",
                each["why"],
                shorten(each["text"], TEXT_CHARACTERS, placeholder=" …"),
            )
            for each in changes[:SHOWN]
        ]
        print_table(["action", "memories", "kept", "waits", "why", "such as"], rows, right=["memories", "kept"])
    if len(changes) > SHOWN:
        typer.echo(f"… and {len(changes) - SHOWN:,} more: --json lists them all")
    if summaries := found.get("summaries"):
        shown = [tuple(change[name] for name in ("id", "from", "to", "why")) for change in summaries[:SHOWN]]
        print_table(["summary", "from", "to", "why"], shown)
    counts = found["counts"]
    typer.echo(f"{counts['looked_at']:,} memories are new, in {counts['clusters']:,} groups{_young(counts)}")
    if not found["complete"]:
        typer.echo("There are more groups than were looked at.")


def _merged(counts: dict[str, int]) -> str:
    found = {"merged": "merged", "linked": "groups linked", "waiting": "groups wait for a yes"}
    told = {name: f"{counts[name]:,} {words}" for name, words in found.items() if counts.get(name)}
    if "merged" in told:
        told["merged"] += f" into {counts['summaries']:,} summaries"
    return f"; {', '.join(told.values())}" if told else f"; nothing to merge{_young(counts)}"


def _young(counts: dict[str, int]) -> str:
    """What somebody wants to know who has just begun."""
    return "" if counts.get("looked_at") else ": the youngest stay as they are (policy consolidation.keep_days)"


def _run(kind: str, *, dry_run: bool, as_of: str | None, wait: bool, url: str | None, as_json: bool) -> None:
    from app.cli.core.client import Api

    path = f"/v1/maintenance/{kind}"
    wanted = {} if as_of is None else {"as_of": as_of}
    with Api(find(url), patience_seconds=PATIENCE_SECONDS) as api:
        if dry_run:
            _show_preview(_preview(api, path, wanted, quiet=as_json), as_json=as_json)
            return
        started = api.call("POST", path, json=wanted, safe=True).body
        if wait:
            _show_ended(follow(api, started["job_id"], quiet=as_json), as_json=as_json)
        elif as_json:
            print_json(started)
        else:
            typer.echo(f"job {started['job_id']} is started")


def _preview(api: Api, path: str, wanted: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """All pages as one."""
    changes: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    cursor: dict[str, str] = {}
    with progress("looking", None, quiet=quiet) as step:
        while True:
            body = {**wanted, **cursor, "dry_run": True, "limit": PAGE}
            page = api.call("POST", path, json=body, safe=True).body
            changes += page["changes"]
            summaries += page.get("summaries", [])
            counts.update(page["counts"])
            if page["next_cursor"] is None:
                found = {"changes": changes, "counts": dict(counts), "next_cursor": None}
                return found | ({"summaries": summaries} if "summaries" in page else {})
            cursor = {"cursor": page["next_cursor"]}
            step(note=f"{counts['looked_at']:,} memories, {len(changes):,} changes")


def _show_preview(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    changes = found["changes"]
    if changes:
        rows = [tuple(change[name] for name in ("id", "from", "to", "why")) for change in changes[:SHOWN]]
        print_table(["id", "from", "to", "why"], rows)
    if len(changes) > SHOWN:
        typer.echo(f"… and {len(changes) - SHOWN:,} more: --json lists them all")
    if summaries := found.get("summaries"):
        shown = [tuple(change[name] for name in ("id", "from", "to", "why")) for change in summaries[:SHOWN]]
        print_table(["summary", "from", "to", "why"], shown)
    typer.echo(f"{found['counts']['looked_at']:,} memories are due{_tiers(found['counts'])}")


def _show_ended(job: dict[str, Any], *, as_json: bool, tell: Callable[[dict[str, int]], str] | None = None) -> None:
    if as_json:
        print_json(job)
    if job["status"] != "done":
        _fail(job, as_json=as_json)
    if not as_json:
        typer.echo(f"{job['done']:,} memories looked at{(tell or _tiers)(job['counts'])}")


def _tiers(counts: dict[str, int]) -> str:
    """How many memories have a new tier, by tier."""
    found = [f"{counts[tier]:,} to {tier}" for tier in _TIERS if counts.get(tier)]
    return f"; decay asks for {', '.join(found)}" if found else "; nothing changes its tier"


def _fail(job: dict[str, Any], *, as_json: bool) -> NoReturn:
    if as_json:
        raise typer.Exit(Code.FAILED)
    reason = f" ({plain(job['error'])})" if job.get("error") else ""
    raise Failure(f"the job {job['id']} is {job['status']}{reason}: what it has done stays")
