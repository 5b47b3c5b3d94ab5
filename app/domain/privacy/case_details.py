"""Details that tie an erasure or a privacy request to the letter that it answers: controller, case and legal basis."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.subject_names import NameFinder
from app.errors import FieldError, Invalid

CONTROLLER_MAX_CHARACTERS: Final = 300
CASE_REFERENCE_MAX_CHARACTERS: Final = 100
LEGAL_BASIS_MAX_CHARACTERS: Final = 300
NOTE_MAX_CHARACTERS: Final = 500
_LINE: Final = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
_SENTENCES: Final = r"^[^\x00]*[^\s\x00][^\x00]*$"
_GROUND: Final = re.compile(r"[a-z]")
NAMED: Final = (
    "contains the subject's name, but is retained after an erasure: write a case number or a role instead, such as "
    "`the customer`"
)
REDACTED: Final = "Text removed: it contained the name of a person whose data was erased."
"""Replacement of a retained text that contains an erased person's name."""
CLEARED: Final = "erased"
"""Replacement of the name in a released legal hold on an erased person or conversation.

It also replaces the reasons of a hold on an erased conversation.
"""

REPLACEMENTS: Final = (REDACTED, CLEARED)
"""Texts that replaced others because of an erasure."""

Controller = Annotated[str, msgspec.Meta(min_length=1, max_length=CONTROLLER_MAX_CHARACTERS, pattern=_LINE)]
CaseReference = Annotated[str, msgspec.Meta(min_length=1, max_length=CASE_REFERENCE_MAX_CHARACTERS, pattern=_LINE)]
LegalBasis = Annotated[str, msgspec.Meta(min_length=1, max_length=LEGAL_BASIS_MAX_CHARACTERS, pattern=_LINE)]
NotedText = Annotated[str, msgspec.Meta(min_length=1, max_length=NOTE_MAX_CHARACTERS, pattern=_SENTENCES)]

GDPR_GROUNDS: Final = ("a", "b", "c", "d", "e", "f")
"""The letters of GDPR Art. 17(1), each a ground for erasure."""


def check_legal_basis(law: Law, legal_basis: str | None) -> None:
    """Check a legal basis that is a single letter: it must be a ground of GDPR Art. 17(1), and the law the GDPR.

    Raises:
        Invalid: There is no such ground, or another law applies.
    """
    if legal_basis is None or not _GROUND.fullmatch(legal_basis):
        return
    if law != "gdpr":
        raise Invalid(errors=[FieldError("legal_basis", "is a letter of GDPR Art. 17(1), but `kind` isn't `gdpr`")])
    if legal_basis not in GDPR_GROUNDS:
        raise Invalid(errors=[FieldError("legal_basis", "isn't a letter of GDPR Art. 17(1): a to f")])


def check_nameless(subject: str | Iterable[str] | None, **texts: str | None) -> None:
    """Check that texts that outlive an erasure don't contain a name of the erased person.

    Args:
        subject: The subject, or all names of the person; None if nobody is named.
        texts: The texts by the names of their fields.

    Raises:
        Invalid: A text contains a name, as `NameFinder` finds it.
    """
    names = NameFinder([subject] if isinstance(subject, str) else subject or ())
    errors = [FieldError(field, NAMED) for field, text in texts.items() if text is not None and names.is_in(text)]
    if errors:
        raise Invalid(errors=errors)
