"""Renew the lease of a running job in the background, so that a dead worker's job is taken over soon.

A lease that had to last for the longest step, with all attempts of a model call, would stop the whole lane for as long
after a worker's death, because only one job runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import structlog

from app.store.core import database
from app.store.jobs import jobs

LEASE_SECONDS: Final = 20
RENEW_SECONDS: Final = 5
"""A lease outlasts three failed renewals; a worker that stands still for longer loses its job, and notices it."""

log = structlog.get_logger(__name__)


@contextmanager
def renewed(job_id: UUID, claim_id: UUID) -> Iterator[None]:
    """Renew a job's lease until the block ends or the claim has passed to another worker."""
    ended = threading.Event()
    thread = threading.Thread(target=_renew, args=(job_id, claim_id, ended), name="job lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(RENEW_SECONDS)  # a renewal may hang with its connection; a late one changes nothing


def _renew(job_id: UUID, claim_id: UUID, ended: threading.Event) -> None:
    while not ended.wait(RENEW_SECONDS):
        try:
            with database.shared() as tx:
                is_ours = jobs.renew_claim(tx, job_id, claim_id, LEASE_SECONDS)
        except Exception as error:  # noqa: BLE001 - the next renewal may succeed; without one, the lease ends
            log.warning("lease_not_renewed", job=str(job_id), error=type(error).__name__)
            continue
        if not is_ours:
            return
