"""Texts that a report retains: the legal basis fits the law, and no text contains the erased subject."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from app.domain.privacy.case_details import GDPR_GROUNDS
from app.domain.privacy.documents.report_page import describe_basis
from app.domain.privacy.documents.texts import ENGLISH
from app.domain.privacy.erasure import NewErasure, check_case_details
from app.domain.privacy.legal_deadlines import extended_deadline
from app.errors import Invalid


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "gdpr", "legal_basis": "g"}, "legal_basis"),
        ({"kind": "ccpa", "legal_basis": "a"}, "legal_basis"),
        ({"kind": "user", "legal_basis": "a"}, "legal_basis"),
        ({"case_reference": "Re: CHEN"}, "case_reference"),
        ({"controller": "Chen & Sons"}, "controller"),
        ({"kind": "gdpr", "legal_basis": "asked by chen."}, "legal_basis"),
    ],
)
def test_a_text_that_the_report_cannot_state_is_refused(fields: dict[str, str], field: str) -> None:
    given = msgspec.convert({"subject": "chen"} | fields, NewErasure)
    with pytest.raises(Invalid) as refused:
        check_case_details(given)
    assert [error.field for error in refused.value.errors] == [field]
    assert "chen" not in str(refused.value.errors).casefold(), "an error contains no text of the caller"


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "gdpr", "legal_basis": "f"},
        {"kind": "ccpa", "legal_basis": "§ 1798.105(c)"},
        {"case_reference": "DSR-17 (kitchen)"},
        {"subject": "ab", "case_reference": "file ab-1"},
    ],
)
def test_other_texts_are_accepted(fields: dict[str, str]) -> None:
    check_case_details(msgspec.convert({"subject": "chen"} | fields, NewErasure))


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "x" * 101, "nul\0"])
def test_a_case_reference_is_one_line_of_limited_length(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"subject": "ann", "case_reference": text}, NewErasure)


def test_each_ground_of_the_gdpr_is_quoted() -> None:
    quoted = [describe_basis("gdpr", letter, ENGLISH) for letter in GDPR_GROUNDS]
    assert all(f"Art. 17(1)({letter})" in text for letter, text in zip(GDPR_GROUNDS, quoted, strict=True))
    assert describe_basis("ccpa", None, ENGLISH) == "Cal. Civ. Code § 1798.105(c)"
    assert describe_basis("gdpr", "Art. 17(1)(b), letter of 3 May", ENGLISH) == "Art. 17(1)(b), letter of 3 May"


def test_an_extension_counts_from_the_receipt() -> None:
    received = datetime(2025, 11, 30, 9, tzinfo=UTC)
    assert extended_deadline("gdpr", received, None) == datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    assert extended_deadline("gdpr", received, 1) == datetime(2026, 1, 30, 23, 59, 59, tzinfo=UTC)
    assert extended_deadline("ccpa", received, None) == datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    assert extended_deadline("user", received, None) is None
    with pytest.raises(Invalid):
        extended_deadline("ccpa", received, 2)
