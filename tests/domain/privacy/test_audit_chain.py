"""A chain of any entries verifies, and any change is detected at the changed entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.privacy import audit_chain
from app.domain.privacy.audit_chain import START, AuditEntry, BrokenEntry, ChainPosition

TENANT = UUID(int=7)
WORDS = st.from_regex(r"[A-Za-z0-9_.:+-]{1,64}", fullmatch=True)
DETAILS = st.dictionaries(
    WORDS, st.none() | st.booleans() | st.integers(-(2**50), 2**50) | WORDS | st.lists(WORDS, max_size=3), max_size=4
)
DIGESTS = st.none() | st.binary(min_size=32, max_size=32)
CONTENTS = st.fixed_dictionaries(
    {
        "at": st.datetimes(datetime(2001, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - added
        "actor": WORDS,
        "action": WORDS,
        "subject": DIGESTS,
        "items": st.integers(0, 2**31 - 1),
        "digest": DIGESTS,
        "details": DETAILS,
    }
)


def chained(contents: Sequence[dict[str, Any]]) -> list[AuditEntry]:
    place, entries = START, []
    for content in contents:
        entries.append(
            audit_chain.seal_entry(AuditEntry(tenant_id=TENANT, seq=place.seq + 1, previous=place.hash, **content))
        )
        place = entries[-1].place
    return entries


CHAINS = st.lists(CONTENTS, min_size=1, max_size=6).map(chained)


def broken(entries: Sequence[AuditEntry], head: ChainPosition) -> BrokenEntry | None:
    place, found = audit_chain.find_broken(entries, START)
    return found or audit_chain.check_end(place, head, entries[-1].seq if entries else 0)


@given(CHAINS, st.integers(0, 6))
def test_a_chain_holds_wherever_it_is_cut_into_stretches(entries: list[AuditEntry], cut: int) -> None:
    place, first = audit_chain.find_broken(entries[:cut], START)
    end, second = audit_chain.find_broken(entries[cut:], place)
    assert (first, second, end) == (None, None, entries[-1].place)
    assert broken(entries, entries[-1].place) is None


@given(CHAINS, st.data())
def test_any_change_of_a_field_is_found_at_its_entry(entries: list[AuditEntry], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(entries) - 1))
    entry = entries[which]
    changed: dict[str, Any] = {
        "tenant_id": UUID(int=8),
        "at": entry.at + timedelta(microseconds=data.draw(st.integers(1, 10**12))),
        "actor": entry.actor + "x",
        "action": entry.action + "x",
        "subject": None if entry.subject else bytes(32),
        "items": entry.items + 1,
        "digest": None if entry.digest else bytes(32),
        "details": {**entry.details, "more": 1, "x": "y"},
        "previous": bytes([entry.previous[0] ^ 1]) + entry.previous[1:],
        "hash": entry.hash[:-1] + bytes([entry.hash[-1] ^ 1]),
    }
    name = data.draw(st.sampled_from(sorted(changed)))
    found = broken(
        [*entries[:which], replace(entry, **{name: changed[name]}), *entries[which + 1 :]], entries[-1].place
    )
    assert found is not None
    assert found.seq == entry.seq


@given(CHAINS, st.data())
def test_an_entry_that_is_missing_is_named(entries: list[AuditEntry], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(entries) - 1))
    found = broken([*entries[:which], *entries[which + 1 :]], entries[-1].place)
    assert found is not None
    assert (found.seq, found.why.startswith("it is missing")) == (which + 1, True)


@given(CHAINS, CONTENTS, st.data())
def test_an_entry_written_anew_with_a_right_hash_breaks_the_next(
    entries: list[AuditEntry], content: dict[str, Any], data: st.DataObject
) -> None:
    which = data.draw(st.integers(0, len(entries) - 1))
    forged = audit_chain.seal_entry(
        AuditEntry(tenant_id=TENANT, seq=which + 1, previous=entries[which].previous, **content)
    )
    found = broken([*entries[:which], forged, *entries[which + 1 :]], entries[-1].place)
    if forged == entries[which]:
        assert found is None
    else:
        assert found is not None
        assert found.seq == min(which + 2, len(entries))


def test_the_canonical_bytes_are_these_for_good() -> None:
    entry = AuditEntry(
        UUID(int=7),
        1,
        datetime(2026, 5, 4, 1, 2, 3, 4, UTC),
        "key1",
        "policy_set",
        None,
        2,
        audit_chain.digest_ids([UUID(int=2), UUID(int=1)]),
        {"b": ["x", "y"], "a": 1},
        bytes(32),
    )
    assert audit_chain.canonical_bytes(entry) == (
        b'["ebbing-audit-1","00000000-0000-0000-0000-000000000007",1,1777856523000004,"key1","policy_set",null,2,'
        b'"%s",{"a":1,"b":["x","y"]}]' % audit_chain.digest_ids([UUID(int=1), UUID(int=2)]).hex().encode()
    )


@pytest.mark.parametrize("text", ["", "x", "1:", f"1:{'0' * 63}", f"-1:{'0' * 64}", f"1:{'G' * 64}"])
def test_what_is_no_anchor_is_refused(text: str) -> None:
    assert audit_chain.read_anchor(text) is None


def test_an_anchor_is_read_as_it_was_told() -> None:
    place = ChainPosition(12, bytes(range(32)))
    assert audit_chain.read_anchor(audit_chain.format_anchor(place)) == place
