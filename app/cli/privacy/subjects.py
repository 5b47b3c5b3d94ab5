"""`ebbing privacy subjects` lists subjects or finds one; `ebbing privacy retention` sets retention periods."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from app.cli.core.calls import call, fetch_list, given
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, examples, plain, print_rows, print_table
from app.cli.privacy.erasure_requests import router
from app.cli.privacy.near_names import SEARCH_ADVICE, describe_difference, warn_unknown

PATH: Final = "/v1/privacy/subjects"
_MENTIONED: Final = {"person_name": "a person of this name", "street_address": "this address"}
_LIKENESS: Final = {
    "exact": "this name",
    "case": "other case or Unicode form",
    "spelling": "other accents, spaces or punctuation",
    "words": "other order of the words, or a title",
    "email": "e-mail address",
    "speaker": "speaker of this name",
    "part": "part of the name",
    "similar": "similar spelling",
}


@router.command(
    epilog=examples(
        "ebbing privacy subjects", "ebbing privacy subjects --search Chen", "ebbing privacy subjects --limit 20 --json"
    )
)
def subjects(
    *,
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            help="Only subjects with this or a similar name; case, accents and the order of the words don't matter. "
            "Memories that mention the name are proposed too. The text may also be a street address.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of subjects.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List subjects (people and others that memories are about) in the order of their names, or search for a name."""
    if search is None:
        found = fetch_list(url, PATH, "subjects", limit)
        rows = [(each["subject"], each["memories"], each["hidden"]) for each in found]
        heads = ["subject", "memories", "hidden"]
        print_rows({"subjects": found}, heads, rows, right=["memories", "hidden"], as_json=as_json)
        return
    answer = call(url, "POST", f"{PATH}/search", json={"name": search, "limit": min(limit, 100)})
    near = [(each["subject"], each["memories"], _describe_match(search, each)) for each in answer["subjects"]]
    print_rows(answer, ["subject", "memories", "match"], near, right=["memories"], as_json=as_json)
    mentions = answer.get("mentions", ())  # absent from servers of the previous version
    if mentions and not as_json:
        typer.echo("\nMentioned in memories about other subjects (proposals; check who is meant):")
        rows = [(each["subject"] or "(none)", each["memories"], _MENTIONED[each["kind"]]) for each in mentions]
        print_table(["subject", "memories", "mentions"], rows, right=["memories"])
    if not near and answer["complete"]:
        typer.echo(f"no similar name was found: {SEARCH_ADVICE}", err=True)
    if not answer["complete"]:
        typer.echo("not all subjects were compared, because there are too many: search for the exact name", err=True)


@router.command(
    epilog=examples(
        "ebbing privacy retention orla",
        "ebbing privacy retention orla --days 365",
        "ebbing privacy retention orla --days 30 --category health",
        "ebbing privacy retention orla --category health --remove",
    )
)
def retention(
    subject: Annotated[str, typer.Argument(help="The subject's name.", metavar="SUBJECT")],
    *,
    days: Annotated[
        float | None, typer.Option("--days", help="Delete memories this many days after their acceptance.")
    ] = None,
    category: Annotated[
        str | None, typer.Option("--category", help="Only memories with this category. Default: all memories.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the period.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show, set or remove a subject's retention periods.

    If several periods apply to a memory, the one that ends first counts. A legal hold suspends all of them.
    """
    if remove and days is not None:
        raise CommandFailure("give either --days or --remove", Code.USAGE)
    if days is None and not remove:
        if category is not None:
            raise CommandFailure("give --days or --remove with --category", Code.USAGE)
        found = call(url, "GET", f"/v1/subjects/{quote(subject, safe='')}")
    else:
        body = {"subject": subject, "keep_days": days} | given(category=category)
        found = call(url, "PUT", f"{PATH}/retention", json=body)
    warn_unknown(subject, found)
    rows = [
        (plain(each["category"] or "all"), f"{each['keep_days']:g}", each["set_at"][:10]) for each in found["retention"]
    ]
    shown = {"subject": subject, "retention": found["retention"]}
    print_rows(shown, ["category", "days", "set on"], rows, right=["days"], as_json=as_json)


def _describe_match(name: str, each: dict[str, Any]) -> str:
    return describe_difference(name, each) or _LIKENESS[each["likeness"]]
