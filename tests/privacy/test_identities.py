"""Names of persons and street addresses: precision and recall, and no part in expiry unless the policy asks.

Each half of the set has one text per line, with `[n:a name]` and `[a:an address]`. The rules were developed with the
half `dev`. A finding is right if it covers at least half of a label of its kind.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.domain.policy.policy import Policy
from app.domain.privacy.parameters import IdentityKind, Privacy
from app.domain.privacy.pii_detection import IDENTITY_KINDS, KINDS, count_identities, detect_pii
from app.services.tiers import expiry
from app.store.core import database
from tests.service import Service

HALVES = ("dev", "check")
PAGE = Path(__file__).parents[2] / "ops" / "privacy.md"
_LABEL = re.compile(r"\[([na]):([^\]]*)\]")
_KIND: dict[str, IdentityKind] = {"n": "person_name", "a": "street_address"}

Span = tuple[str, int, int]


def read_half(half: str) -> list[tuple[str, list[Span]]]:
    """Return the texts of a half without their marks, and the labelled spans."""
    path = Path(__file__).parent / f"names_and_addresses_{half}.txt"
    return [_read_line(line) for line in path.read_text(encoding="utf8").splitlines()]


def _read_line(line: str) -> tuple[str, list[Span]]:
    text, at = "", 0
    spans: list[Span] = []
    for match in _LABEL.finditer(line):
        text += line[at : match.start()]
        spans.append((_KIND[match[1]], len(text), len(text) + len(match[2])))
        text += match[2]
        at = match.end()
    return text + line[at:], spans


def detected(text: str) -> list[Span]:
    found = detect_pii(text, identities=IDENTITY_KINDS)
    return [(each.kind, each.start, each.end) for each in found if each.kind in IDENTITY_KINDS]


def figures(half: str, kind: str) -> tuple[str, str]:
    """Return precision and recall of a kind, as fractions."""
    right = there = got = 0
    for text, labels in read_half(half):
        spans = [span for span in detected(text) if span[0] == kind]
        wanted = [label for label in labels if label[0] == kind]
        got, there = got + len(spans), there + len(wanted)
        for _, start, end in wanted:
            hits = [span for span in spans if 2 * (min(end, span[2]) - max(start, span[1])) >= end - start]
            right += bool(hits)
    return f"{right}/{got}", f"{right}/{there}"


def test_the_set_is_large_and_half_of_it_is_for_the_check() -> None:
    sizes = {half: len(read_half(half)) for half in HALVES}
    assert sum(sizes.values()) >= 300
    assert min(sizes.values()) >= 150
    assert not {text for text, _ in read_half("dev")} & {text for text, _ in read_half("check")}
    for half in HALVES:
        kinds = Counter(kind for _, spans in read_half(half) for kind, _, _ in spans)
        assert kinds["person_name"] >= 70
        assert kinds["street_address"] >= 20
        assert sum(not spans for _, spans in read_half(half)) >= 50


@pytest.mark.parametrize("kind", IDENTITY_KINDS)
def test_the_figures_on_the_page_are_those_of_the_set(kind: str) -> None:
    [row] = [line for line in PAGE.read_text(encoding="utf8").splitlines() if line.startswith(f"| `{kind}` |")]
    dev, check = figures("dev", kind), figures("check", kind)
    assert row == f"| `{kind}` | {dev[0]} | {dev[1]} | {check[0]} | {check[1]} |"
    for share in (*dev, *check):
        right, every = map(int, share.split("/"))
        assert right / every >= 0.95


def test_other_kinds_are_found_as_before() -> None:
    text = "Anna Keller, anna.keller@posteo.de, 12 Oak Street"
    assert [each.kind for each in detect_pii(text)] == ["email"]
    assert [each.kind for each in detect_pii(text, identities=IDENTITY_KINDS)] == [
        "person_name",
        "email",
        "street_address",
    ]
    assert count_identities(text) == {"person_name": 1, "street_address": 1}
    assert count_identities("It rained.") == {}
    assert not set(IDENTITY_KINDS) & set(KINDS)


@pytest.mark.parametrize("piece", ["Anna ", "A-", "Via de la ", "12 A ", "my best ", "X Straße ", "12 rue de ", "1 "])
def test_a_long_text_takes_its_length_and_not_its_square(piece: str) -> None:
    detect_pii((piece * 32_768)[:32_768], identities=IDENTITY_KINDS)


def test_a_year_of_talk_loses_nothing_by_names_and_addresses(service: Service) -> None:
    texts = [text for half in HALVES for text, _ in read_half(half)]
    expiring: dict[tuple[IdentityKind, ...], int] = {}
    for identities in ((), ("street_address",), IDENTITY_KINDS):
        policy = Policy(privacy=Privacy(identities=identities))
        tenant_id = service.tenant(policy).tenant_id
        service.send(tenant_id, *texts)
        service.work()
        with database.tenant(tenant_id) as tx:
            year_later: datetime = database.now(tx) + timedelta(days=366)
        page = expiry.preview_expiry(tenant_id, year_later, None, 500)
        expiring[identities] = len(page.moves)
        kinds = {kind for (each,) in service.rows("SELECT kinds FROM privacy_findings WHERE tenant_id = %s", tenant_id)
                 for kind in each}  # fmt: skip
        assert kinds == set(identities)
    assert expiring[()] == 0
    assert 0 < expiring["street_address",] <= expiring[IDENTITY_KINDS]
