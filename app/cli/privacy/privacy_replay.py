"""`ebbing privacy replay`: erasures that an older copy of the data doesn't know, done once more on this machine."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated

import typer

from app.cli.core.failures import Failure
from app.cli.core.output import AsJson, examples, print_json, print_table
from app.cli.core.place import configuration
from app.cli.privacy.privacy import privacy
from app.settings import settings

router = typer.Typer()  # its commands are those of `ebbing privacy`


@privacy.command(
    epilog=examples(
        "ebbing privacy replay --dry-run", "ebbing privacy replay", "ebbing privacy replay --json | jq .replayed"
    )
)
def replay(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be erased or hidden again.")] = False,
    accept_key_store: Annotated[
        bool,
        typer.Option(
            "--accept-key-store",
            help="Go on with a key store that is older than the data, since there is no newer one.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Erase again what an older copy of the data has brought back, as the ledger in the key store says.

    Legal holds that the copy doesn't know are placed again before that; requests in their grace are entered again
    after it, with their dates.

    It speaks to the database itself (EBBING_DATABASE_URL, EBBING_REDIS_URL): until it is done, the service answers
    nobody. What is under a legal hold stays hidden, and goes when that is released. With --dry-run, the database of a
    running `ebbing run` is found by its home.
    """
    from app.services.erasure import ledger, replays

    if dry_run:
        _look_into_the_home()
    config = configuration()
    for name in ("database_url",) if dry_run else ("database_url", "redis_url"):
        if getattr(config, name) is None:
            raise Failure(f"EBBING_{name.upper()} isn't set: `ebbing run` replays by itself when it starts")
    if accept_key_store and not dry_run:
        ledger.accept_key_store()
    done = list(replays.due() if dry_run else replays.replay())
    if as_json:
        shown = [
            {
                "seq": one.seq,
                "tenant_id": str(one.tenant_id),
                "erasure_id": one.erasure_id,
                "hold_id": one.hold_id,
                "memories": one.memories,
                "outcome": one.outcome,
            }
            for one in done
        ]
        print_json({"dry_run": dry_run, "replayed": shown})
        return
    if not done:
        typer.echo("nothing to replay: the data knows every erasure, every request and every hold")
        return
    print_table(
        ["seq", "tenant", "erasure or hold", "memories", "outcome"],
        [(one.seq, one.tenant_id, one.erasure_id or one.hold_id, one.memories, one.outcome) for one in done],
        right=["seq", "memories"],
    )
    outcomes = Counter(one.outcome for one in done)
    typer.echo(", ".join(f"{many} {outcome}" for outcome, many in outcomes.items()))


def _look_into_the_home() -> None:
    """Let the database of a service that runs in the home be this process's, where no other is named."""
    from app.supervisor.service import running_database

    config = configuration()
    if config.database_url is None and (url := running_database(config.home)) is not None:
        os.environ["EBBING_DATABASE_URL"] = url
        settings.cache_clear()
