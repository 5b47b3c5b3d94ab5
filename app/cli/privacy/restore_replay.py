"""`ebbing privacy replay`: repeat erasures, requests and holds that a restored backup doesn't contain."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.core.connection import load_settings, use_home
from app.cli.core.errors import CommandFailure
from app.cli.core.output import AsJson, examples, print_json, print_table
from app.cli.privacy.erasure_requests import router


@router.command(
    epilog=examples(
        "ebbing privacy replay --dry-run", "ebbing privacy replay", "ebbing privacy replay --json | jq .replayed"
    )
)
def replay(
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List the erasures, requests and holds to repeat, without changing anything."),
    ] = False,
    accept_key_store: Annotated[
        bool,
        typer.Option(
            "--accept-key-store",
            help="Accept a key store that is older than the data, if no newer copy exists.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the erasures that a restored backup doesn't contain.

    A ledger lists these erasures. It is in the key store (schema `ebbing_keys`), which dumps of the data don't include.
    Missing legal holds are placed again first. Erasure requests still in their grace period are recreated afterwards,
    with their original dates.

    The command connects to the database directly (EBBING_DATABASE_URL, EBBING_REDIS_URL); the service refuses requests
    until it completes. Memories under a legal hold stay hidden and are erased after its release. With --dry-run, the
    database of a running `ebbing run` is found through its home.
    """
    from app.services.erasure import ledger, restore_replay

    if dry_run:
        use_home()
    config = load_settings()
    for name in ("database_url",) if dry_run else ("database_url", "redis_url"):
        if getattr(config, name) is None:
            raise CommandFailure(f"EBBING_{name.upper()} isn't set (`ebbing run` replays automatically at startup)")
    if accept_key_store and not dry_run:
        ledger.accept_key_store()
    done = list(restore_replay.due() if dry_run else restore_replay.replay())
    if as_json:
        print_json({"dry_run": dry_run, "replayed": [asdict(one) for one in done]})
        return
    if not done:
        typer.echo("nothing to replay: the data contains every erasure, request and hold")
        return
    print_table(
        ["seq", "tenant", "erasure or hold", "memories", "outcome"],
        [(one.seq, one.tenant_id, one.erasure_id or one.hold_id, one.memories, one.outcome) for one in done],
        right=["seq", "memories"],
    )
    outcomes = Counter(one.outcome for one in done)
    typer.echo(", ".join(f"{many} {outcome}" for outcome, many in outcomes.items()))
