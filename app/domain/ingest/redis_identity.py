"""Verify that Redis contains the data that the installation wrote, by comparing the marks of Redis and PostgreSQL.

A loss of power may cut the end of Redis's append-only file, so a Redis that is up to `TAIL_MS` behind is accepted, and
the requests in the gap are counted as lost. A Redis that is further behind is refused as an older copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TAIL_MS: Final = 10_000
"""Maximum lag of an accepted Redis's beat behind the installation's beat, in milliseconds."""

REMEDY: Final = "check EBBING_REDIS_URL; to accept this Redis, run `ebbing queue accept`"


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a Redis or of the installation.

    Attributes:
        epoch: Random identifier, written when the installation first used this Redis; None without a mark.
        beat: Redis's time of the last witnessed acceptance, in milliseconds since 1970; 0 before the first. Beats
            without requests advance it in Redis only (see `services.ingest.witness`).
    """

    epoch: str | None
    beat: int

    @classmethod
    def read(cls, fields: Sequence[bytes | None]) -> Mark:
        """Return the mark from Redis's fields `epoch` and `beat`."""
        epoch, beat = fields
        return cls(epoch.decode() if epoch else None, int(beat or 0))


@dataclass(frozen=True, slots=True)
class Expected:
    """The mark that the installation expects. `is_claimed` is true once a connection has seen the mark in Redis."""

    mark: Mark
    is_claimed: bool


def diagnose(found: Mark, expected: Expected) -> str | None:
    """Return the reason for refusing this Redis and the remedy, or None if this Redis is accepted."""
    if found.epoch is None:
        if not expected.is_claimed:
            return None
        return f"Redis was emptied or replaced: accepted requests that weren't stored yet may be lost; {REMEDY}"
    if found.epoch != expected.mark.epoch:
        return f"Redis belongs to another installation; {REMEDY}"
    behind_ms = expected.mark.beat - found.beat
    if behind_ms > TAIL_MS:
        return (
            f"Redis is an older copy, {round(behind_ms / 1000)} s behind: requests accepted since then may be lost; "
            f"{REMEDY}"
        )
    return None
