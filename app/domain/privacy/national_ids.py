"""Detect personal numbers issued by states or banks, by their form, checksum and the words that name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Final

_REACH: Final = 48


@dataclass(frozen=True, slots=True)
class _Form:
    """Form of a country's identification number.

    Attributes:
        module: Module of python-stdnum that validates the checksum.
        shape: Pattern of the number.
        word: Pattern of the number's name; None if shape and checksum are enough.
        alone: Confidence without the name; 0 if numbers of this shape usually mean something different.
    """

    module: str
    shape: str
    word: str | None
    alone: float = 0.0


_ID: Final = (
    r"(?:national|personal|identity|id|identification|citizen)\s*(?:id(?:entity)?\s*)?(?:card|number|no\.?|code|nr\.?)?"
)
_TAX: Final = r"tax|tin|fiscal|steuer"
_SOCIAL: Final = (
    r"social\s+(?:security|insurance)|insurance|health\s+number|sozialversicherung|s[ée]curit[ée]\s+sociale"
)
_FORMS: Final = (
    _Form("us.ssn", r"\d{3}[- ]\d{2}[- ]\d{4}", rf"ssn|{_SOCIAL}", 0.7),
    _Form("us.itin", r"9\d{2}[- ]?\d{2}[- ]?\d{4}", rf"itin|{_TAX}"),
    _Form("gb.nhs", r"\d{3}[- ]?\d{3}[- ]?\d{4}", r"nhs|health\s+(?:service\s+)?number"),
    _Form("de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}", rf"idnr|identifikationsnummer|{_TAX}"),
    _Form(
        "fr.nir",
        r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
        rf"nir|insee|{_SOCIAL}",
        0.9,
    ),
    _Form("es.dni", r"\d{8}[- ]?[A-HJ-NP-TV-Z]", rf"dni|nif|{_ID}", 0.8),
    _Form("es.nie", r"[XYZ][- ]?\d{7}[- ]?[A-HJ-NP-TV-Z]", rf"nie|{_ID}", 0.9),
    _Form("it.codicefiscale", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", r"codice\s+fiscale", 0.97),
    _Form("nl.bsn", r"\d{9}|\d{4}\.\d{2}\.\d{3}", rf"bsn|burgerservicenummer|sofi|{_ID}"),
    _Form(
        "be.nn", r"\d{2}[. ]?\d{2}[. ]?\d{2}[- ]?\d{3}[. ]?\d{2}", rf"rijksregister\w*|registre\s+national|{_ID}", 0.7
    ),
    _Form("pl.pesel", r"\d{11}", rf"pesel|{_ID}"),
    _Form("se.personnummer", r"(?:\d{2})?\d{6}[-+]\d{4}", rf"personnummer|{_ID}", 0.85),
    _Form("fi.hetu", r"\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]", rf"hetu|henkil\w+tunnus|{_ID}", 0.95),
    _Form("dk.cpr", r"\d{6}-\d{4}", rf"cpr|{_ID}", 0.75),
    _Form("no.fodselsnummer", r"\d{6} ?\d{5}", rf"f[øo]dselsnummer|{_ID}"),
    _Form("ch.ssn", r"756\.?\d{4}\.?\d{4}\.?\d{2}", rf"ahv|avs|{_SOCIAL}", 0.95),
    _Form("at.vnr", r"\d{4} ?\d{6}", rf"svnr|sv-?nummer|{_SOCIAL}"),
    _Form("ie.pps", r"\d{7}[A-W][AHWTX]?", rf"pps|{_SOCIAL}", 0.8),
    _Form("pt.nif", r"\d{9}", rf"nif|contribuinte|{_TAX}"),
    _Form("ro.cnp", r"[1-9]\d{12}", rf"cnp|{_ID}"),
    _Form("cz.rc", r"\d{6}/\d{3,4}", rf"rodn[ée]\s+[čc][ií]slo|{_ID}", 0.85),
    _Form("bg.egn", r"\d{10}", rf"egn|{_ID}"),
    _Form("hr.oib", r"\d{11}", rf"oib|{_ID}"),
    _Form("ee.ik", r"[1-6]\d{10}", rf"isikukood|{_ID}"),
    _Form("tr.tckimlik", r"[1-9]\d{10}", rf"kimlik|tc\s*no|{_ID}"),
    _Form("br.cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}|\d{11}", rf"cpf|{_ID}", 0.9),
    _Form("mx.curp", r"[A-Z]{4}\d{6}[HM][A-Z]{5}[0-9A-Z]\d", r"curp", 0.97),
    _Form("cl.rut", r"\d{1,2}\.\d{3}\.\d{3}-[\dkK]", rf"rut|run|{_ID}", 0.9),
    _Form("ca.sin", r"\d{3}[- ]\d{3}[- ]\d{3}|\d{9}", rf"sin|{_SOCIAL}"),
    _Form("au.tfn", r"\d{3} ?\d{3} ?\d{3}", rf"tfn|{_TAX}"),
    _Form("in_.aadhaar", r"[2-9]\d{3} ?\d{4} ?\d{4}", rf"aadhaar|uidai|{_ID}"),
    _Form("in_.pan", r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", rf"pan|{_TAX}", 0.8),
    _Form("cn.ric", r"[1-9]\d{16}[\dXx]", rf"{_ID}|身份证", 0.95),
    _Form("kr.rrn", r"\d{6}-[1-8]\d{6}", rf"rrn|{_ID}|주민", 0.9),
    _Form("za.idnr", r"\d{13}", _ID),
    _Form("il.idnr", r"\d{9}", rf"teudat|{_ID}"),
)
# Numbers that python-stdnum doesn't know, or that have no checksum.
_NINO: Final = re.compile(
    r"(?<![A-Za-z0-9])(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"
    r"(?![A-Za-z0-9])"
)
_PASSPORT: Final = re.compile(
    r"\b(?:passport|reisepass|passeport|pasaporte)(?:\s+(?:number|no\.?|nummer|num[ée]ro))?(?:\s+is|:)?\s+"
    r"(?P<number>(?=[A-Z0-9]*\d)[A-Z0-9]{6,9})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_SHAPES: Final = tuple(
    (form, re.compile(rf"(?<![A-Za-z0-9.])(?:{form.shape})(?![A-Za-z0-9]|[.-]\d)")) for form in _FORMS
)
_WORDS: Final = {
    form.module: re.compile(rf"\b(?:{form.word})\b", re.IGNORECASE) for form in _FORMS if form.word is not None
}
_MAYBE: Final = re.compile(r"(?:\d.*){6}")


def find_national_ids(text: str) -> Iterator[tuple[int, int, float]]:
    """Yield start, end and confidence of each number issued by a state that identifies a person."""
    if _MAYBE.search(text) is None:
        return
    for form, shape in _SHAPES:
        for match in shape.finditer(text):
            word = _WORDS.get(form.module)
            is_named = word is not None and word.search(text, max(match.start() - _REACH, 0), match.start())
            confidence = 0.97 if is_named else form.alone
            if confidence and len(set(re.sub(r"\D", "", match[0]))) > 1 and _validator(form.module)(match[0]):
                yield match.start(), match.end(), confidence
    for match in _NINO.finditer(text):
        yield match.start(), match.end(), 0.9
    for match in _PASSPORT.finditer(text):
        yield match.start("number"), match.end("number"), 0.9


def is_iban(text: str) -> bool:
    """Return whether this is a valid account number: country, length and checksum agree."""
    return _validator("iban")(text)


@cache
def _validator(module: str) -> Callable[[str], bool]:
    is_valid: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    return is_valid
