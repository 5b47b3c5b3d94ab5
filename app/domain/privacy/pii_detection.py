"""Detect personal data in texts without a model, by patterns and, where they exist, checksums.

Names of persons and street addresses (`IDENTITY_KINDS`) occur in most conversations; they are detected on request only.

Each finding has a confidence. Data with a checksum or a distinctive form is reported regardless of its context. Plain
digits are reported only if a word shortly before them says what they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from operator import attrgetter
from typing import Final, Literal

from stdnum import luhn

from app.domain.privacy import national_ids, secrets
from app.domain.privacy.identities import person_names, street_addresses
from app.domain.privacy.parameters import IdentityKind

Kind = (
    Literal["email", "phone", "card", "iban", "national_id", "birth_date", "machine_address", "secret"] | IdentityKind
)

KINDS: Final[tuple[Kind, ...]] = (
    *("email", "phone", "card", "iban"),
    *("national_id", "birth_date", "machine_address", "secret"),
)
IDENTITY_KINDS: Final[tuple[IdentityKind, ...]] = ("person_name", "street_address")
ALL_KINDS: Final[tuple[Kind, ...]] = (*KINDS, *IDENTITY_KINDS)
CATEGORY: Final[dict[Kind, str]] = {
    "email": "pii",
    "phone": "pii",
    "card": "financial",
    "iban": "financial",
    "national_id": "pii",
    "birth_date": "pii",
    "machine_address": "pii",
    "secret": "credentials",
    "person_name": "pii",
    "street_address": "pii",
}
"""Privacy category of each kind."""
REPORTED_FROM: Final = 0.5
"""Minimum confidence of reported findings."""

MAYBE: Final = (
    "@|\uff20|://|::|----|[0-9].{0,3}[0-9].{0,3}[0-9].{0,3}[0-9]|[0-9a-f]{2}[:-][0-9a-f]{2}[:-]|[a-z0-9_-]{20}"
    "|born|birth|d\\.?o\\.?b|gebor|geburt|naissance|anniversaire|n[\u00e9e]e? le|nac[i\u00ed]|cumplea|nat[oa] il"
    "|pass|pwd|pin|kennwort|mot +de|contrase|key|token|secret|bearer|code"
)
"""A pattern that matches every text with a finding, ignoring case; Python and PostgreSQL interpret it alike."""
_SIGNS: Final = (
    *("@", "\uff20", "://", "::", "----", "born", "birth", "dob", "d.ob", "do.b", "d.o.b", "gebor", "geburt"),
    *("naissance", "anniversaire", "né le", "ne le", "née le", "nee le"),
    *("naci", "nací", "cumplea", "nato il", "nata il"),
    *("pass", "pwd", "pin", "kennwort", "mot ", "contrase", "key", "token", "secret", "bearer", "code"),
)
MARKERS: Final = tuple(sign.replace(".", " ").replace("/", " ").replace("\uff20", "@") for sign in _SIGNS)
"""The signs in the notation of `app.domain.text.markers`."""
DIGITS_MIN: Final = 4
DASHES_MIN: Final = 2
"""Number of colons and dashes from which a text is scanned even if it contains none of `_SIGNS`."""
_DIGITS: Final = re.compile(r"[0-9].{0,3}[0-9].{0,3}[0-9].{0,3}[0-9]")
LONG: Final = 20
"""Minimum length of a word that may be a secret."""
_IDENTITY_FINDERS: Final[dict[IdentityKind, Callable[[str], Iterator[tuple[int, int, float]]]]] = {
    "person_name": person_names.find_person_names,
    "street_address": street_addresses.find_street_addresses,
}


@dataclass(frozen=True, slots=True)
class PiiFinding:
    """Personal data in a text.

    Attributes:
        kind: Kind of the data.
        start: Index of the first character.
        end: Index after the last character.
        confidence: 0 to 1.
    """

    kind: Kind
    start: int
    end: int
    confidence: float


def detect_pii(text: str, regions: Sequence[str] = (), identities: Sequence[IdentityKind] = ()) -> list[PiiFinding]:
    """Return the personal data in a text, in order; of overlapping findings, only the one with the highest confidence.

    Args:
        text: Any text.
        regions: Countries, as ISO 3166 codes, whose national formats of telephone numbers are recognised. Numbers with
            a country prefix (`+49 …`) are always recognised.
        identities: Identities to be reported too.
    """
    findings = [finding for find in _FINDERS for finding in find(text, regions)] if may_be(text) else []
    findings += (PiiFinding(kind, *found) for kind in identities for found in _IDENTITY_FINDERS[kind](text))
    return _drop_overlaps([finding for finding in findings if finding.confidence >= REPORTED_FROM])


def count_identities(text: str) -> dict[IdentityKind, int]:
    """Return the number of names of persons and of street addresses in a text, without kinds that don't occur."""
    kinds = [finding.kind for finding in detect_pii(text, identities=IDENTITY_KINDS)]
    return {kind: kinds.count(kind) for kind in IDENTITY_KINDS if kind in kinds}


def may_be(text: str) -> bool:
    """Return False only if `MAYBE` can't match. It runs on every text, in a tenth of the time of `MAYBE`."""
    lower = text.lower()
    return (
        any(sign in lower for sign in _SIGNS)
        or _DIGITS.search(text) is not None
        or lower.count(":") + lower.count("-") >= DASHES_MIN
        or max(map(len, lower.split()), default=0) >= LONG
    )


def _drop_overlaps(found: Sequence[PiiFinding]) -> list[PiiFinding]:
    accepted: list[PiiFinding] = []  # in order; no two overlap, so a new one can only overlap its neighbours
    ranked = sorted(found, key=lambda each: (-each.confidence, ALL_KINDS.index(each.kind), each.start, -each.end))
    for finding in ranked:
        place = bisect_left(accepted, finding.start, key=_start)
        is_free_before = place == 0 or accepted[place - 1].end <= finding.start
        if is_free_before and (place == len(accepted) or finding.end <= accepted[place].start):
            accepted.insert(place, finding)
    return accepted


_start = attrgetter("start")


# --- E-mail ---

_EMAIL: Final = re.compile(
    r"(?<![\w.+%-])[\w.!#$%&'*+/=?^`{|}~-]{1,64}[@\uff20](?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+(?:[^\W\d_]{2,63}|xn--[\w-]{2,59})(?!\w)"
)
# Text in a script without spaces, directly before an address.
_RUN_ON: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+(?=[A-Za-z0-9])")
_EXAMPLE: Final = re.compile(
    r"@(?:[\w-]+\.)*example\.(?:com|org|net)$|\.(?:png|jpe?g|gif|svg|js|css|py)$", re.IGNORECASE
)


def _emails(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for match in _EMAIL.finditer(text):
        confidence = 0.6 if _EXAMPLE.search(match[0]) else 0.99
        run_on = _RUN_ON.match(match[0])
        yield PiiFinding("email", match.start() + (run_on.end() if run_on else 0), match.end(), confidence)


# --- Telephone numbers ---

_DIALLED: Final = re.compile(r"(?:\+|\(|\d)[\d\s().\-/]{5,}\d")
_PHONE_WORD: Final = re.compile(
    r"\b(?:phone|tel(?:e(?:fon|phone|fono))?|mobile|cell|call|text|sms|whatsapp|fax|handy|ring|reach|dial|contact"
    r"|t[ée]l[ée]phone|numbers? is|nummer|appelle|llama)\w*",
    re.IGNORECASE,
)
_WORDS_REACH: Final = 40


def _phones(text: str, regions: Sequence[str]) -> Iterator[PiiFinding]:
    if _DIALLED.search(text) is None:
        return
    import phonenumbers  # noqa: PLC0415 - 20 MB of patterns that only processes with texts need

    for region in regions or (None,):
        matcher = phonenumbers.PhoneNumberMatcher(text, region, leniency=phonenumbers.Leniency.VALID)
        for match in matcher:
            raw = match.raw_string
            start = match.start + (raw.startswith("(") and ")" not in raw)
            is_named = _has_word_before(text, start, _PHONE_WORD)
            confidence = 0.97 if text[start] == "+" else 0.9 if is_named else 0.7
            yield PiiFinding("phone", start, match.end, confidence)


def _has_word_before(text: str, start: int, word: re.Pattern[str]) -> bool:
    """Return whether a word occurs shortly before a position."""
    return word.search(text, max(start - _WORDS_REACH, 0), start) is not None


# --- Cards and accounts ---

_CARD: Final = re.compile(r"(?<![\d.,-])(?:\d[ -]?){12,18}\d(?!\w|[.,-]\d)")
# First digits and lengths of Visa, Mastercard, American Express, Discover, Diners Club, JCB, Maestro, UnionPay.
_CARD_FORM: Final = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|6(?:011|5\d\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|(?:5018|5020|5038|6304|67\d\d)\d{8,15}|62\d{14,17}"
)
_CARD_WORD: Final = re.compile(
    r"\b(?:card|visa|master ?card|amex|american express|credit|debit|karte|carte|tarjeta|cvc|cvv|expir)\w*",
    re.IGNORECASE,
)


def _cards(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if _CARD_FORM.fullmatch(digits) and len(set(digits)) > 1 and luhn.is_valid(digits):
            grouped = " " in match[0] or "-" in match[0]
            confidence = 0.97 if _has_word_before(text, match.start(), _CARD_WORD) else 0.9 if grouped else 0.75
            yield PiiFinding("card", match.start(), match.end(), confidence)


_IBAN: Final = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,3})?(?![A-Za-z0-9])"
)


def _ibans(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for match in _IBAN.finditer(text):
        for end in _ends(match[0]):
            if national_ids.is_iban(match[0][:end]):
                yield PiiFinding("iban", match.start(), match.start() + end, 0.99)
                break


def _ends(candidate: str) -> Iterator[int]:
    """Yield possible ends of the match, longest first, since a following word looks like another group."""
    yield len(candidate)
    yield from reversed([place for place, character in enumerate(candidate) if character in " -"])


# --- National ids ---


def _nationals(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for start, end, confidence in national_ids.find_national_ids(text):
        yield PiiFinding("national_id", start, end, confidence)


# --- Dates of birth ---

_MONTH: Final = (
    r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|janv|févr|mars|avr|juin|juil|août|déc|ene|abr|ago|dic)"
    r"[^\W\d]*\.?"
)
_DATE: Final = (
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\s?\d{{1,2}}[-/.]\s?(?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?{_MONTH},?(?:\s+(?:de\s+)?\d{{4}})?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?)"
)
_BORN: Final = re.compile(
    r"\b(?:born(?:\s+(?:in\s+\w+\s+)?on)?|birth\s?da(?:y|te)(?:\s+is)?|date\s+of\s+birth|d\.?o\.?b\.?|geboren(?:\s+am)?"
    r"|geburtsdatum|geburtstag|n[ée]e?\s+le|date\s+de\s+naissance|anniversaire|nac(?:[ií]|i[óo]|ido|ida)(?:\s+el)?"
    r"|fecha\s+de\s+nacimiento|cumplea[ñn]os|nato\s+il|nata\s+il)\b"
    rf"(?P<between>[^.!?\n\d]{{0,24}}?)(?P<date>{_DATE})(?!\d)",
    re.IGNORECASE,
)


_BEFORE_BORN: Final = re.compile(
    rf"\b(?:am|op)\s+(?P<date>{_DATE})(?P<between>[^.!?\n\d]{{0,24}}?)\bgeboren\b", re.IGNORECASE
)


def _births(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for match in (*_BORN.finditer(text), *_BEFORE_BORN.finditer(text)):
        has_year = re.search(r"\d{4}|\d[-/.]\s?\d{1,2}[-/.]\s?\d{2}$", match["date"]) is not None
        yield PiiFinding("birth_date", match.start("date"), match.end("date"), 0.95 if has_year else 0.7)


# --- Machine addresses ---

_IPV4: Final = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d]|\.\d)")
_IPV6: Final = re.compile(
    r"(?<![\w:])(?:[0-9a-f]{1,4}:|:){2,7}(?::|[0-9a-f]{1,4})?(?:[0-9a-f:.]*[0-9a-f])?(?![\w:])", re.IGNORECASE
)
_MAC: Final = re.compile(r"(?<![\w:-])[0-9a-f]{2}(?:(:|-)[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}(?![\w:-])", re.IGNORECASE)
_VERSION_WORD: Final = re.compile(
    r"\b(?:version|release|v|build|section|chapter|§|upgrade\w*|driver|firmware)\s*$", re.IGNORECASE
)


def _machines(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for pattern in (_IPV4, _IPV6):
        for match in pattern.finditer(text):
            try:
                address = ip_address(match[0])
            except ValueError:
                continue
            is_version = _VERSION_WORD.search(text, max(match.start() - 12, 0), match.start()) is not None
            if address.is_unspecified or address.is_loopback or address.is_multicast or is_version:
                continue
            yield PiiFinding("machine_address", match.start(), match.end(), 0.9 if address.is_global else 0.6)
    for match in _MAC.finditer(text):
        yield PiiFinding("machine_address", match.start(), match.end(), 0.85)


# --- Secrets ---


def _secrets(text: str, _: Sequence[str]) -> Iterator[PiiFinding]:
    for start, end, confidence in secrets.find_secrets(text):
        yield PiiFinding("secret", start, end, confidence)


_FINDERS: Final[tuple[Callable[[str, Sequence[str]], Iterator[PiiFinding]], ...]] = (
    *(_emails, _phones, _cards, _ibans),
    *(_nationals, _births, _machines, _secrets),
)
