"""A tenant's audit chain: written in the acting transaction, and any alteration is detected."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app import metrics
from app.domain.privacy.audit_chain import START, BrokenEntry, ChainPosition, format_anchor
from app.services.security import audit
from app.services.security.audit import ChainVerification
from app.store.core import database
from tests.service import Service
from tests.services import nights


def enter(tenant_id: UUID, times: int = 1) -> ChainPosition:
    place = START
    for _ in range(times):
        with database.tenant(tenant_id) as tx:
            place = audit.append(tx, tenant_id, "tier_moved", ids=[uuid4(), uuid4()], details={"to": "cold"})
    return place


def whole(tenant_id: UUID, limit: int = 2, anchor: ChainPosition | None = None) -> ChainVerification:
    """Verify the whole chain, page by page."""
    found = audit.verify(tenant_id, limit=limit, anchor=anchor)
    while not found.finished:
        found = audit.verify(tenant_id, found.place, limit, anchor)
    return found


@contextmanager
def tampering(service: Service) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A superuser's connection, which can tamper with the audit."""
    with psycopg.connect(service.database_url) as owner:
        owner.execute("SET session_replication_role = replica")
        yield owner


@pytest.fixture
def tenant_id(service: Service) -> UUID:
    """A tenant whose chain has seven entries, including its creation and that of its key."""
    made = service.tenant().tenant_id
    [last] = service.rows("SELECT coalesce(max(seq), 0) FROM audit WHERE tenant_id = %s", made)
    enter(made, 7 - last[0])
    return made


def test_a_chain_holds_from_page_to_page(tenant_id: UUID) -> None:
    for limit in (1, 2, 7, 100):
        found = whole(tenant_id, limit)
        assert (found.place.seq, found.last_seq, found.broken) == (7, 7, None)


def test_a_tenant_without_a_chain_is_well(service: Service) -> None:
    assert whole(uuid4()) == ChainVerification(ChainPosition(0, bytes(32)), 0, None, finished=True)


@pytest.mark.acceptance(17)
@pytest.mark.parametrize(
    ("statement", "seq", "why"),
    [
        ("UPDATE audit SET actor = 'nobody' WHERE seq = 3", 3, "it was altered"),
        ("UPDATE audit SET at = at + interval '1 microsecond' WHERE seq = 5", 5, "it was altered"),
        ('UPDATE audit SET details = \'{"to": "archived"}\' WHERE seq = 4', 4, "it was altered"),
        ("UPDATE audit SET items = items + 1 WHERE seq = 7", 7, "it was altered"),
        ("UPDATE audit SET digest = sha256('x') WHERE seq = 4", 4, "it was altered"),
        ("UPDATE audit SET hash = sha256('x') WHERE seq = 4", 4, "it was altered"),
        ("UPDATE audit SET previous = sha256('x') WHERE seq = 4", 4, "its stored previous hash"),
        ("DELETE FROM audit WHERE seq = 4", 4, "it is missing"),
        ("DELETE FROM audit WHERE seq <= 2", 1, "it is missing"),
        ("DELETE FROM audit WHERE seq = 7", 7, "it is missing at the end"),
        ("DELETE FROM audit", 1, "it is missing"),
        ("DELETE FROM audit; DELETE FROM audit_heads", None, ""),  # the chain itself can't reveal this; an anchor can
        ("UPDATE audit_heads SET seq = 6", 6, "its hash doesn't match the stored end"),
        ("DELETE FROM audit_heads", 1, "it lies beyond the stored end"),
    ],
)
def test_what_was_tampered_with_is_named(
    service: Service, tenant_id: UUID, statement: str, seq: int | None, why: str
) -> None:
    with tampering(service) as owner:
        owner.execute(statement.encode())
    for limit in (2, 100):
        found = whole(tenant_id, limit)
        if seq is None:
            assert found.broken is None
        else:
            assert found.broken is not None
            assert found.broken.seq == seq
            assert found.broken.why.startswith(why)


def test_a_chain_that_was_cut_short_or_written_anew_is_found_by_an_anchor(service: Service, tenant_id: UUID) -> None:
    anchor = whole(tenant_id).place
    assert whole(tenant_id, anchor=anchor).broken is None
    enter(tenant_id)
    assert whole(tenant_id, anchor=anchor).broken is None
    with tampering(service) as owner:
        owner.execute("DELETE FROM audit; DELETE FROM audit_heads")
    enter(tenant_id, 3)
    assert whole(tenant_id).broken is None
    assert whole(tenant_id, anchor=anchor).broken == BrokenEntry(
        7, "the anchored entry and all later entries are missing"
    )
    enter(tenant_id, 5)
    found = whole(tenant_id, anchor=anchor).broken
    assert found is not None
    assert found.seq == 7
    assert found.why.startswith("its hash differs from that of the anchor: the anchor was copied wrongly")


@pytest.mark.acceptance(18)
@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit SET actor = 'x'", "DELETE FROM audit", "DELETE FROM audit WHERE seq < 0", "TRUNCATE audit"],
)
def test_nobody_changes_entries_not_even_their_owner(service: Service, tenant_id: UUID, statement: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="entries are only ever added"):
        service.rows(statement)
    with pytest.raises(DBAPIError, match="permission denied"), database.tenant(tenant_id) as tx:
        tx.execute(text(statement))


def test_writers_at_once_make_one_chain(service: Service, tenant_id: UUID) -> None:
    other = uuid4()
    together = Barrier(4)

    def write(turn: int) -> None:
        together.wait()
        for _ in range(5):
            enter(tenant_id if turn else other)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert whole(tenant_id).place.seq == 7 + 3 * 5
    assert whole(other).place.seq == 5
    assert whole(tenant_id).broken is None


def test_what_is_undone_was_never_entered(tenant_id: UUID) -> None:
    def fail() -> None:
        with database.tenant(tenant_id) as tx:
            audit.append(tx, tenant_id, "tier_moved")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert enter(tenant_id).seq == 8
    assert whole(tenant_id).broken is None


@pytest.mark.parametrize(
    "details",
    [
        {"why": "she said so"},
        {"who": "ana@example.org"},
        {"names": ["fine", "Zoë"]},
        {"strength": 0.5},
        {"of": {"any": "kind"}},
        {"long": "x" * 65},
    ],
)
def test_what_could_be_content_is_refused(tenant_id: UUID, details: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="of an audit entry"), database.tenant(tenant_id) as tx:
        audit.append(tx, tenant_id, "policy_set", details=details)  # type: ignore[arg-type]


@pytest.mark.acceptance(17)
def test_a_subject_is_a_digest_that_is_the_tenants_own(service: Service, tenant_id: UUID) -> None:
    other = service.tenant().tenant_id
    for whose in (tenant_id, tenant_id, other):
        with database.tenant(whose) as tx:
            audit.append(tx, whose, "hold_placed", "k1", subject="ana")
    [first, again, others] = [
        digest for (digest,) in service.rows("SELECT subject FROM audit WHERE subject IS NOT NULL ORDER BY at")
    ]
    assert first == again != others


def test_at_night_the_end_of_a_chain_is_verified_and_its_anchor_logged(
    service: Service, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.run(tenant_id)
    assert f'"anchor": "{format_anchor(whole(tenant_id).place)}"' in capsys.readouterr().out
    with tampering(service) as owner:
        owner.execute("UPDATE audit SET items = 99 WHERE seq = 5")
    monkeypatch.setattr(audit, "NIGHT_ENTRIES", 2)
    assert audit.verify_recent(tenant_id).broken is None
    monkeypatch.setattr(audit, "NIGHT_ENTRIES", 3)
    assert audit.verify_recent(tenant_id).broken == BrokenEntry(5, "it was altered after it was written")
    assert metrics.read_counters()["audits_broken"] == 1
