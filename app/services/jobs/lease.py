"""Renew the lease of a running job, or of a turn of ratings, in the background, so that it can be short.

Without renewals, a lease would have to last for the longest step, with all attempts of a model call. A worker's death
would then stop the whole lane for that long, because only one job, and one turn of ratings, runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from app.store.core import database

LEASE_SECONDS: Final = 20
RENEW_SECONDS: Final = 5
"""A lease outlasts three failed renewals; a worker that stalls for longer loses its claim, and detects this."""

Renewal = Callable[[database.Transaction], bool]
"""Extends a lease by `LEASE_SECONDS` from now; returns False if the claim has passed to another worker."""

log = structlog.get_logger(__name__)


@contextmanager
def renewed(renew: Renewal, **about: str) -> Iterator[None]:
    """Renew a lease until the block ends or the claim has passed to another worker.

    Args:
        about: Fields of the log line about a failed renewal: ids, never content.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_renew, args=(renew, about, ended), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(RENEW_SECONDS)  # a renewal may hang with its connection; a late one changes nothing


def _renew(renew: Renewal, about: dict[str, str], ended: threading.Event) -> None:
    while not ended.wait(RENEW_SECONDS):
        try:
            with database.shared() as tx:
                is_ours = renew(tx)
        except Exception as error:  # noqa: BLE001 - the next renewal may succeed; without one, the lease ends
            log.warning("lease_not_renewed", error=type(error).__name__, **about)
            continue
        if not is_ours:
            return
