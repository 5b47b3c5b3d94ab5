"""`ebbing recall`: print the memories that are relevant to a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call
from app.cli.core.filters import After, Before, ExcludeThread, Kinds, Roles, Sources, Subject, Tags, Thread
from app.cli.core.output import AsJson, Url, examples, print_json
from app.domain.formatting import format_number

router = typer.Typer()

NEWEST: Final = 100
"""Maximum number of messages sent; older ones are dropped."""


@router.command(
    epilog=examples(
        "ebbing recall 'What shall I cook for Orla?'",
        "ebbing recall 'I am at the shop' 'Which tea does she like?' --subject orla --limit 3",
        "ebbing recall 'What shall I cook?' --least 0 --limit 3 --explain",
        "ebbing recall 'Which account do we pay to?' --source user",
        "tail -n 5 chat.txt | ebbing recall - --budget 300",
    )
)
def recall(
    messages: Annotated[
        list[str],
        typer.Argument(
            metavar="MESSAGE",
            help="Recent messages, newest last. Use `-` to read them from standard input, one per line.",
        ),
    ],
    *,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, max=20, help="Maximum number of memories. Default: set by the policy."),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            "--least",
            min=0,
            max=1,
            help="Minimum relevance, 0 to 1; replaces all thresholds of the policy. For a question about the user, the "
            "policy's default threshold is 0.03, and a recall may add the first search result with a relevance above "
            "0.005. So for such a question, `--least 0.05` can return fewer memories than a recall without `--least`. "
            "0 returns the best matches even if none is relevant.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", min=1, max=32_768, help="Maximum tokens of the printed text. Default: set by the policy."
        ),
    ] = None,
    subject: Subject = None,
    thread: Thread = None,
    exclude_thread: ExcludeThread = None,
    tag: Tags = None,
    kind: Kinds = None,
    role: Roles = None,
    source: Sources = None,
    after: After = None,
    before: Before = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Below the text, show the threshold that each memory exceeds and the features behind its relevance.",
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print the memories relevant to a conversation, as text for your prompt.

    A recall is selective and often returns nothing. It doesn't count as a use of the memories: call
    `ebbing observe` to report the memories that your application used.
    """
    given = {
        "limit": limit,
        "least": least,
        "token_budget": budget,
        "subject": subject,
        "thread": thread,
        "exclude_thread": exclude_thread,
        "tags": tag,
        "kinds": kind,
        "roles": role,
        "sources": source,
        "after": after,
        "before": before,
        "explain": explain or None,
    }
    said = _read_messages(messages)
    if not said:
        raise typer.BadParameter("no message on standard input")
    body = {"messages": said, **{name: value for name, value in given.items() if value or value == 0}}
    brought = call(url, "POST", "/v1/recall", json=body)
    if as_json:
        print_json(brought)
        return
    if brought["context"]:
        typer.echo(brought["context"])
    else:
        nothing = "no memory fits the budget: raise --budget"
        typer.echo(nothing if brought["memories"] else _describe_nothing(brought["thresholds"], source), err=True)
    if explain:
        for line in _explanation(brought["memories"]):
            typer.echo(line)


def _describe_nothing(thresholds: Mapping[str, float], sources: Sequence[str] | None) -> str:
    """Return why no memory was recalled, and what to try next."""
    names = " or ".join(map(_describe_threshold, thresholds.items()))
    advice = "lower it" if "least" in thresholds else "--least 0 for the best ones"
    limit = "; the policy's recall.sources may exclude the given sources" if sources else ""
    return f"no memory is relevant enough to exceed {names}: try `ebbing search`, or {advice}{limit}"


def _describe_threshold(threshold: tuple[str, float]) -> str:
    """Return the name of a threshold's option or policy field, and its relevance."""
    name, above = threshold
    return f"{'--least' if name == 'least' else name} ({format_number(above)})"


def _explanation(memories: list[dict[str, Any]]) -> Iterator[str]:
    """Yield lines with each memory's relevance and the features from which it is computed."""
    for memory in memories:
        why = memory["explain"]
        yield ""
        passed = _describe_threshold((why["threshold"]["name"], why["threshold"]["above"]))
        yield f"{memory['id']}  relevance {memory['relevance']:.3f}, exceeds {passed}"
        yield f"    of the conversation  open {why['open']:.3f}  {_features(why['conversation'])}".rstrip()
        yield f"    of the memory        worth {why['worth']:.3f}  {_features(why['memory'])}".rstrip()
        if why.get("importance"):
            yield f"    importance           {_features(why['importance'])}"


def _features(features: Mapping[str, float]) -> str:
    """Return the features that aren't 0, with their values."""
    return "  ".join(f"{name} {value:.3f}" for name, value in features.items() if value)


def _read_messages(messages: list[str]) -> list[str]:
    """Return the messages, with `-` replaced by the lines of standard input."""
    said: list[str] = []
    for message in messages:
        if message == "-":
            said += [line.strip() for line in typer.get_text_stream("stdin") if line.strip()]
        else:
            said.append(message)
    return said[-NEWEST:]
