"""`ebbing export`: save a subject's data as a zip file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, Yes, confirm, count_of, examples, plain, print_result
from app.cli.core.renamed_options import with_renamed_options
from app.cli.maintenance.jobs import follow_job
from app.cli.privacy.erase import CaseReference, Controller, Received, RecordedRequest
from app.cli.privacy.near_names import AsWritten, end_dry_run, list_other_spellings, refuse_unknown, warn_unknown
from app.domain.formatting import format_bytes

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/privacy/exports"
SUBJECTS: Final = "/v1/subjects"
REQUESTS: Final = "/v1/privacy/requests"
PATIENCE_SECONDS: Final = 60.0

router = typer.Typer()


@router.command(
    cls=with_renamed_options({"--kind": "--right"}),
    epilog=examples(
        "ebbing export ann --dry-run",
        "ebbing export ann --output ann.zip",
        "ebbing export ann --right portable --law gdpr --output ann.zip",
        "ebbing export ann --request ID --output ann.zip",
        "ebbing export ann --output ann.zip --yes --json",
    ),
)
def export(
    subject: Annotated[str, typer.Argument(help="Subject whose data is exported.", metavar="SUBJECT")],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Zip file to write; it must not exist yet. Required except with --dry-run."
        ),
    ] = None,
    right: Annotated[
        str | None,
        typer.Option(
            "--right",
            help="`access`: all stored data; `portable`: the data as it was submitted, in a reusable format. Default: "
            "the right of --request, otherwise `access`.",
        ),
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(
            "--law",
            help="Law that the request refers to: `gdpr`, `ccpa`, or `user` for none. Default: the law of --request, "
            "otherwise `user`.",
        ),
    ] = None,
    received_at: Received = None,
    recorded_request: RecordedRequest = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, stored until the export expires.")] = None,
    controller: Controller = None,
    case_reference: CaseReference = None,
    as_written: AsWritten = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how much data would be exported, without exporting it.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Export a subject's data to a zip file. The command waits until the export is ready.

    The saved file is not encrypted. Interrupting the command doesn't stop the export; it can be downloaded until it
    expires.
    """
    from app.cli.core.client import Api

    case = given(controller=controller, case_reference=case_reference)
    recorded = "export" if recorded_request else None
    body = given(subject=subject, kind=right, law=law, reason=reason or None)
    body |= case | given(received_at=received_at, request_id=recorded_request)
    if dry_run:
        if len(body) > 1:  # the export itself would check these options
            call(url, "POST", PATH, json=body | {"dry_run": True})
        found = call(url, "GET", item_path(SUBJECTS, subject))
        if found.get("other_spellings") and recorded_request:
            case = _read_case(call(url, "GET", item_path(REQUESTS, recorded_request))) | case
        text = f"Would export {_describe_holdings(subject, found)}{end_dry_run(subject, found)}"
        text += list_other_spellings(subject, found | case, recorded=recorded)
        print_result(found, text, as_json=as_json)
        return
    if output is None:
        raise CommandFailure("no output file: give --output, or --dry-run", Code.USAGE)
    if output.exists():
        raise CommandFailure(f"{output} already exists: choose another file", Code.USAGE)
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        found = api.call("GET", item_path(SUBJECTS, subject)).body
        warn_unknown(subject, found)
        refuse_unknown(subject, found, as_written=as_written)
        if found.get("other_spellings") and recorded_request:
            case = _read_case(api.call("GET", item_path(REQUESTS, recorded_request)).body) | case
        if others := list_other_spellings(subject, found | case, recorded=recorded):
            typer.echo(f"warning:{others}", err=True)
        if not yes:
            confirm(f"Export {_describe_holdings(subject, found)} to {output}? The file is not encrypted.")
        asked = api.call("POST", PATH, json=body).body
        follow_job(api, asked["job_id"], quiet=as_json)
        made = api.call("GET", f"{PATH}/{asked['id']}").body
        if made["status"] != "ready":
            raise CommandFailure(
                f"the export is {plain(made['status'])}: see `ebbing jobs show {plain(made['job_id'])}`"
            )
        size = _save(api, f"{PATH}/{asked['id']}/file", output)
    from app.domain.privacy.export import describe_counts

    counts = plain(describe_counts(made["counts"]))
    text = f"{output}: {format_bytes(size)} ({counts or 'no data'}); request ID {plain(made['id'])}"
    print_result(made | {"output": str(output), "bytes": size}, text, as_json=as_json)
    _name_next_step(made)


def _name_next_step(made: dict[str, Any]) -> None:
    """Print the controller's next steps after an export for an access request under the GDPR; otherwise nothing."""
    if (made["kind"], made.get("law")) != ("access", "gdpr"):
        return
    typer.echo(
        f"next: check the texts for data about other people, and fill in the blanks of `ebbing privacy letter "
        f"{plain(made['id'])} completion`, for what GDPR Art. 15(1) requires and this service doesn't know",
        err=True,
    )


def _read_case(logged: dict[str, Any]) -> dict[str, Any]:
    """Return the law, time of receipt and case details of a recorded request, with the field names of an erasure."""
    names = ("received_at", "controller", "case_reference")
    return {"kind": logged["law"]} | {name: logged[name] for name in names if logged.get(name)}


def _describe_holdings(subject: str, found: dict[str, Any]) -> str:
    tiers = ", ".join(f"{count} {tier}" for tier, count in found["memories"].items())
    more = {"hidden": ("hidden",) * 2, "held": ("under legal hold",) * 2}
    more |= {"exports": ("export", "exports"), "open_erasures": ("open erasure", "open erasures")}
    others = "; ".join(count_of(found[name], *words) for name, words in more.items() if found[name])
    return f"memories about {plain(subject)}: {tiers}{f' ({others})' if others else ''}"


def _save(api: Api, path: str, output: Path) -> int:
    """Download to a file with mode 0600; delete the file on failure."""
    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            return api.save(path, file)
    except BaseException as error:
        output.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CommandFailure(f"{output} can't be written: {error.strerror}") from None
        raise
