"""`ebbing maintain`: run or preview maintenance of all memories of a tenant, now or as of another time."""

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
    help="Run maintenance on all memories: sweep, consolidate, rebase, archive, cold, delete, expire, selftest.",
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
        help="Evaluate as of this time, such as 2026-11-20T18:00:00Z. Future times require --dry-run.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the changes and their reasons without applying them.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the job to end, like `ebbing jobs watch`.")]


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
    """Assign tiers to memories by their decayed strength, without moving them (also runs nightly)."""
    _run("sweep", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain rebase --dry-run", "ebbing maintain rebase --wait"))
def rebase(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Migrate memories that still decay under an older policy to the current one (also runs nightly after a change).

    Current and past strengths don't change.
    """
    _run("rebase", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(
    epilog=examples("ebbing maintain archive --wait", "ebbing maintain archive --dry-run --as-of 2030-01-01T00:00:00Z")
)
def archive(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Sweep, then move faded memories to the archive (also runs nightly). A use reactivates them."""
    _run("archive", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain cold --dry-run", "ebbing maintain cold --wait"))
def cold(
    *, dry_run: DryRun = False, as_of: AsOf = None, wait: Wait = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Sweep, then move strongly faded memories to cold storage (also runs nightly). Undo with `ebbing restore`."""
    _run("cold", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain delete --dry-run", "ebbing maintain delete --wait --yes"))
def delete(
    *,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    wait: Wait = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Permanently delete memories in cold storage that meet every deletion condition (also runs nightly)."""
    if not dry_run and not yes:
        confirm("Permanently delete the memories listed by `--dry-run`? This can't be undone.")
    _run("delete", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain expire --dry-run", "ebbing maintain expire --wait --yes"))
def expire(
    *,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    wait: Wait = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Permanently delete memories whose retention period has expired (also runs nightly)."""
    if not dry_run and not yes:
        confirm("Permanently delete the memories listed by `--dry-run`? This can't be undone.")
    _run("expire", dry_run=dry_run, as_of=as_of, wait=wait, url=url, as_json=as_json)


@maintain.command(epilog=examples("ebbing maintain selftest --wait", "ebbing maintain selftest --dry-run"))
def selftest(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the memories that would be tested, without running the tests.")
    ] = False,
    as_of: AsOf = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Test retrieval on a sample of memories (also runs weekly); `ebbing stats` shows the results.

    Memories that pass are reinforced; memories that fail are flagged for review: `ebbing reviews --flagged`.
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
        typer.echo(f"started job {found['job_id']}")
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
    level: Annotated[
        Level | None, typer.Option("--level", help="Strength of the reduction. Default: set by the policy.")
    ] = None,
    dry_run: DryRun = False,
    as_of: AsOf = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Merge related memories (also runs nightly). List and undo merges with `ebbing consolidation`."""
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
            typer.echo(f"started job {started['job_id']}")


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
        print_table(
            ["action", "memories", "kept", "needs approval", "reason", "example"], rows, right=["memories", "kept"]
        )
    if len(changes) > SHOWN:
        typer.echo(f"… and {len(changes) - SHOWN:,} more: --json lists them all")
    if summaries := found.get("summaries"):
        shown = [tuple(change[name] for name in ("id", "from", "to", "why")) for change in summaries[:SHOWN]]
        print_table(["summary", "from", "to", "reason"], shown)
    counts = found["counts"]
    typer.echo(f"{counts['looked_at']:,} memories considered, {counts['clusters']:,} groups{_young(counts)}")
    if not found["complete"]:
        typer.echo("The preview is incomplete: there are more groups.")


def _merged(counts: dict[str, int]) -> str:
    found = {"merged": "merged", "linked": "groups linked", "waiting": "groups need approval"}
    told = {name: f"{counts[name]:,} {words}" for name, words in found.items() if counts.get(name)}
    if "merged" in told:
        told["merged"] += f" into {counts['summaries']:,} summaries"
    return f"; {', '.join(told.values())}" if told else f"; nothing to merge{_young(counts)}"


def _young(counts: dict[str, int]) -> str:
    """Explain to new tenants why nothing was considered."""
    return "" if counts.get("looked_at") else ": recent memories are excluded (policy field consolidation.keep_days)"


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
            typer.echo(f"started job {started['job_id']}")


def _preview(api: Api, path: str, wanted: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Fetch all pages of a preview and join them."""
    changes: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    cursor: dict[str, str] = {}
    with progress("checking", None, quiet=quiet) as step:
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
        print_table(["id", "from", "to", "reason"], rows)
    if len(changes) > SHOWN:
        typer.echo(f"… and {len(changes) - SHOWN:,} more: --json lists them all")
    if summaries := found.get("summaries"):
        shown = [tuple(change[name] for name in ("id", "from", "to", "why")) for change in summaries[:SHOWN]]
        print_table(["summary", "from", "to", "reason"], shown)
    typer.echo(f"{found['counts']['looked_at']:,} memories due{_tiers(found['counts'])}")


def _show_ended(job: dict[str, Any], *, as_json: bool, tell: Callable[[dict[str, int]], str] | None = None) -> None:
    if as_json:
        print_json(job)
    if job["status"] != "done":
        _fail(job, as_json=as_json)
    if not as_json:
        typer.echo(f"{job['done']:,} memories processed{(tell or _tiers)(job['counts'])}")


def _tiers(counts: dict[str, int]) -> str:
    """Describe how many memories change to each tier."""
    found = [f"{counts[tier]:,} to {tier}" for tier in _TIERS if counts.get(tier)]
    return f"; new tiers: {', '.join(found)}" if found else "; no tier changes"


def _fail(job: dict[str, Any], *, as_json: bool) -> NoReturn:
    if as_json:
        raise typer.Exit(Code.FAILED)
    reason = f" ({plain(job['error'])})" if job.get("error") else ""
    raise Failure(f"job {job['id']} {job['status']}{reason}; completed work is not reverted")
