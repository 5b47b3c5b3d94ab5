"""`ebbing privacy subjects`: list subjects, or find one by a similar name."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list
from app.cli.core.output import AsJson, Url, examples, print_rows
from app.cli.privacy.erasure_requests import router
from app.cli.privacy.near_names import OTHER_ENCODING
from app.domain.privacy.subject_names import has_other_encoding

PATH: Final = "/v1/privacy/subjects"
_LIKENESS: Final = {
    "exact": "this name",
    "case": "other case or Unicode form",
    "spelling": "other accents, spaces or punctuation",
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
        typer.Option("--search", help="Only subjects with this or a similar name; case and Unicode form don't matter."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of subjects.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the people and other subjects that memories are about, by name, or find one."""
    if search is None:
        found = fetch_list(url, PATH, "subjects", limit)
        rows = [(each["subject"], each["memories"], each["hidden"]) for each in found]
        heads = ["subject", "memories", "hidden"]
        print_rows({"subjects": found}, heads, rows, right=["memories", "hidden"], as_json=as_json)
        return
    answer = call(url, "POST", f"{PATH}/search", json={"name": search, "limit": min(limit, 100)})
    near = [(each["subject"], each["memories"], _describe_match(search, each)) for each in answer["subjects"]]
    print_rows(answer, ["subject", "memories", "match"], near, right=["memories"], as_json=as_json)
    if not answer["complete"]:
        typer.echo("not all subjects were compared, because there are too many: search for the exact name", err=True)


def _describe_match(name: str, each: dict[str, Any]) -> str:
    return OTHER_ENCODING if has_other_encoding(name, each["subject"]) else _LIKENESS[each["likeness"]]
