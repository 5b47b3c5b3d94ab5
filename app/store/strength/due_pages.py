"""Read pages of selected `memory_state` rows without locking them."""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import fetch_value
from app.store.strength.states import ALIVE, DUE, NOT_AHEAD, OLDER, StoredStates, build_select, fetch_states

Wanted = Literal[
    "due",
    "older",
    "due or older",
    "falling",
    "falling or older",
    "ending",
    "archived",
    "cold",
    "unsettled",
]
"""The selection of rows.

`due` and `older` select the rows of `states.lock_due` and `states.lock_older`. `falling` selects active rows that are
due or have another wanted tier. `ending` selects due or older rows, and rows whose wanted tier is `deleted`. `archived`
and `cold` select a tier. `unsettled` selects every row that may move.
"""


def list_page(
    tx: Connection, tenant_id: UUID, wanted: Wanted, as_of: float, version: int, *, after: UUID, limit: int
) -> StoredStates:
    """Return a page of the selected memories in id order, without locking them."""
    values = {"tenant": tenant_id, "as_of": as_of, "version": version, "after": after, "limit": limit}
    return fetch_states(tx, _PAGES[wanted], values)


def count_of(tx: Connection, tenant_id: UUID, wanted: Wanted, as_of: float, version: int) -> int:
    """Count the selected memories."""
    return int(fetch_value(tx, _COUNTS[wanted], {"tenant": tenant_id, "as_of": as_of, "version": version}))


_WANTED: Final[dict[Wanted, str]] = {
    "due": f"{ALIVE} AND {DUE} AND {NOT_AHEAD}",
    "older": f"{ALIVE} AND {OLDER}",
    "due or older": f"{ALIVE} AND ({DUE} AND {NOT_AHEAD} OR {OLDER})",
    "falling": f"tier = 'active' AND (wanted_tier <> tier OR ({NOT_AHEAD} AND {DUE}))",
    "falling or older": f"tier = 'active' AND (wanted_tier <> tier OR ({NOT_AHEAD} AND {DUE} OR {OLDER}))",
    "ending": f"{ALIVE} AND (wanted_tier <> tier AND wanted_tier = 'deleted' OR {DUE} AND {NOT_AHEAD} OR {OLDER})",
    "unsettled": f"{ALIVE} AND {NOT_AHEAD} AND (wanted_tier <> tier OR {DUE} OR {OLDER})",
    "archived": "tier <> 'active' AND tier = 'archived'",  # the first condition matches a small partial index
    "cold": "tier <> 'active' AND tier = 'cold'",
}
_PAGES: Final = {
    wanted: build_select(f"memory_id > %(after)s AND {where} ORDER BY memory_id LIMIT %(limit)s")
    for wanted, where in _WANTED.items()
}
_COUNTS: Final = {
    wanted: f"SELECT count(*) FROM memory_state WHERE tenant_id = %(tenant)s AND {where}"  # noqa: S608 - as above
    for wanted, where in _WANTED.items()
}
