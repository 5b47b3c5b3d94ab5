"""`ebbing export`: what is held on somebody, as a zip."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.failures import Code, Failure
from app.cli.core.output import AsJson, Url, confirm, examples, plain, print_json
from app.cli.core.place import find
from app.cli.maintenance.jobs import follow

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/privacy/exports"
PATIENCE_SECONDS: Final = 60.0

router = typer.Typer()


@router.command(
    epilog=examples(
        "ebbing export ann --dry-run",
        "ebbing export ann --output ann.zip",
        "ebbing export ann --kind portable --law gdpr --output ann.zip",
        "ebbing export ann --output ann.zip --yes --json",
    )
)
def export(
    subject: Annotated[str, typer.Argument(help="On whom.", metavar="SUBJECT")],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The zip to write; it mustn't be there.")
    ] = None,
    kind: Annotated[
        str, typer.Option("--kind", help="access: all that is held; portable: what was given, to be taken elsewhere.")
    ] = "access",
    law: Annotated[str, typer.Option("--law", help="Asked under: user, gdpr or ccpa.")] = "user",
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept until the export expires.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell how much is held.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Export what is held on somebody: wait until it is made, and save it.

    The file isn't encrypted any more. To stop waiting doesn't stop the export: it can be fetched for some days.
    """
    from app.cli.core.client import Api

    if dry_run:
        with Api(find(url)) as api:
            found = _held(api, subject)
        print_json(found) if as_json else typer.echo(f"Would export {_in_words(subject, found)}.")
        return
    if output is None:
        raise Failure("where is it to be written? give --output, or --dry-run", Code.USAGE)
    if output.exists():
        raise Failure(f"{output} is there already: name another file", Code.USAGE)
    body: dict[str, Any] = {"subject": subject, "kind": kind, "law": law} | ({"reason": reason} if reason else {})
    with Api(find(url), patience_seconds=PATIENCE_SECONDS) as api:
        if not yes:
            many = _in_words(subject, _held(api, subject))
            confirm(f"Export {many} to {output}, for whoever can read that file?")
        asked = api.call("POST", PATH, json=body).body
        follow(api, asked["job_id"], quiet=as_json)
        made = api.call("GET", f"{PATH}/{asked['id']}").body
        if made["status"] != "ready":
            raise Failure(f"the export is {plain(made['status'])}: see `ebbing jobs show {plain(made['job_id'])}`")
        size = _save(api, f"{PATH}/{asked['id']}/file", output)
    if as_json:
        print_json(made | {"output": str(output), "bytes": size})
        return
    counts = ", ".join(f"{lines} {plain(name.removesuffix('.jsonl'))}" for name, lines in made["counts"].items())
    typer.echo(f"{output}: {size:,} bytes ({counts or 'nothing is held'})")


def _held(api: Api, subject: str) -> dict[str, Any]:
    """How much there is to export."""
    from urllib.parse import quote

    found: dict[str, Any] = api.call("GET", f"/v1/subjects/{quote(subject, safe='')}").body
    return found


def _in_words(subject: str, found: dict[str, Any]) -> str:
    tiers = ", ".join(f"{count} {tier}" for tier, count in found["memories"].items())
    more = {"hidden": "hidden", "held": "under legal hold", "exports": "exports", "open_erasures": "open erasures"}
    others = "; ".join(f"{found[name]} {words}" for name, words in more.items() if found[name])
    return f"memories about {plain(subject)}: {tiers}{f' ({others})' if others else ''}"


def _save(api: Api, path: str, output: Path) -> int:
    """Write a file that its owner alone may read; none is left where it fails."""
    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            return api.save(path, file)
    except BaseException as error:
        output.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Failure(f"{output} can't be written: {error.strerror}") from None
        raise
