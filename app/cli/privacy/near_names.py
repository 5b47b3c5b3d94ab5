"""Warn about subjects that no stored memory has, and name subjects with similar names or other spellings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import count_of, plain
from app.domain.privacy.subject_names import has_other_encoding

AsWritten = Annotated[
    bool,
    typer.Option(
        "--as-written",
        help="Accept a subject that no stored memory has. Without this option, the command refuses such a subject, "
        "since the name may be misspelt.",
    ),
]
OTHER_ENCODING: Final = "the same letters, stored in another Unicode form"
OTHER_CAPITALS: Final = "differs only in capitals"
SEARCH_ADVICE: Final = (
    "search for the family name alone, or for another spelling (`ebbing privacy subjects --search NAME`)"
)
_CASE: Final = {"case_reference": "--case", "controller": "--controller", "legal_basis": "--legal-basis"}
"""Options for the details of a request that its report states, by the detail's field in the API's answer."""


def warn_unknown(subject: str | None, found: dict[str, Any]) -> None:
    """Print a warning if no stored memory has the subject. `found` is the answer of the API."""
    if "near" in found:
        typer.echo(f"warning: {describe_unknown(subject, found['near'])}", err=True)


def end_dry_run(subject: str | None, found: dict[str, Any]) -> str:
    """Return the end of a sentence about a dry run: a full stop, or a clause about a subject that no memory has."""
    if "near" not in found:
        return "."
    explanation = describe_unknown(subject, found["near"])
    return f": {explanation}{'' if explanation.endswith('?') else '.'}"


def list_other_spellings(subject: str | None, found: dict[str, Any], *, recorded: str | None = None) -> str:
    """Return sentences about the subjects with the same name in another spelling or order; empty if there are none.

    Args:
        recorded: Name of the command if it carries out a recorded request, which it can do for one subject only.
    """
    names = _list_names(subject, found.get("other_spellings", ()))
    if not names:
        return ""
    said = f" Not included: {', '.join(names)}, the same name in another spelling or order."
    if recorded is None:
        return f"{said} Repeat the command for each that is the same person."
    law = f" --law {plain(found['kind'])}" if "kind" in found else " --law LAW"
    received = f" --received {found['received_at'][:10]}" if found.get("received_at") else " --received DATE"
    case = "".join(f" {option} {shlex.quote(plain(found[name]))}" for name, option in _CASE.items() if found.get(name))
    return (
        f"{said} For each that is the same person, run `ebbing {recorded} NAME{law}{received}{case}`, without "
        "--request: it gets an entry of its own in the request log. Record the identity check of that entry too: "
        "`ebbing privacy identity ID --method METHOD`."
    )


def refuse_unknown(subject: str | None, found: dict[str, Any], *, as_written: bool) -> None:
    """Refuse to continue if no stored memory has the subject: the name may be misspelt.

    Raises:
        CommandFailure: The subject is unknown, and `--as-written` isn't given.
    """
    if "near" in found and not as_written:
        advice = "one of the names above" if found["near"] else "the name as it is stored"
        raise CommandFailure(
            f"nothing was requested for `{plain(subject)}`: repeat the command with {advice}, or with --as-written",
            Code.USAGE,
        )


def describe_unknown(subject: str | None, near: list[dict[str, Any]]) -> str:
    """Return a sentence that no memory has the subject, and the subjects with similar names."""
    names = _list_names(subject, near)
    proposal = f"; did you mean {' or '.join(names)}?" if names else f", and no similar name was found: {SEARCH_ADVICE}"
    return f"no stored memory has the subject `{plain(subject)}`{proposal}"


def describe_difference(name: str, near: dict[str, Any]) -> str | None:
    """Describe how a stored subject differs from a name, if only in Unicode form or capitals; otherwise return None."""
    if has_other_encoding(name, near["subject"]):
        return OTHER_ENCODING
    return OTHER_CAPITALS if near["likeness"] == "case" and name.lower() == near["subject"].lower() else None


def _list_names(subject: str | None, found: Iterable[dict[str, Any]]) -> list[str]:
    """Return each subject found with its number of memories."""
    return [
        f"`{plain(each['subject'])}` ({count_of(each['memories'], 'memory', 'memories')}"
        f"{_describe_likeness(subject, each)})"
        for each in found
    ]


def _describe_likeness(subject: str | None, near: dict[str, Any]) -> str:
    if near["likeness"] == "speaker":
        return ", with this speaker"
    if near["likeness"] == "words":
        return "; other order of the words, or a title"
    difference = describe_difference(subject or "", near)
    return f"; {difference}" if difference else ""
