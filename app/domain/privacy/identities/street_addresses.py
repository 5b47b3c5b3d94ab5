"""Find street addresses in texts by their forms in English, German, Dutch, Nordic, Romance and Polish usage.

A street needs a house number: "High Street" alone is a place. Cities and post codes after it are part of the address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_NAME: Final = r"[A-ZÀ-ÞŁŚŻŹĆČŠŽ][\w'’.-]{0,40}"
_NUMBER: Final = r"\d{1,4}(?:\s?[a-z])?\b(?!\s*(?:uhr|min|std|stunden|km|meter|euro|€|%|prozent|[.,:]\d|°))"
_CITY: Final = rf"(?:,?\s+\d{{4,5}}\s+{_NAME}(?:\s+(?:am|an\s+der|im)\s+{_NAME})?)?"

_ENGLISH: Final = re.compile(
    r"(?<![\w.,-])(?:(?:Flat|Apt|Apartment|Unit|Suite)\.?\s*\d{1,4}[A-Za-z]?,\s*)?\d{1,5}[A-Za-z]?\s+"
    rf"(?:(?:{_NAME}|\d{{1,3}}(?:st|nd|rd|th))\s+){{1,3}}"
    r"(?:Street|St|Road|Rd|Avenue|Ave|Lane|Ln|Drive|Dr|Court|Ct|Way|Boulevard|Blvd|Close|Crescent|Square|Terrace|Place|Pl"
    r"|Parkway|Pkwy|Highway|Hwy|Grove|Gardens|Hill|Row|Mews|Quay|Walk|Parade|Rise|Circle|Cir|Trail|Green|View)\b\.?"
    r"(?:,?\s*(?:Flat|Apt|Apartment|Unit|Suite|#)\.?\s*\d{1,4}[A-Za-z]?)?"
)
_FRENCH: Final = re.compile(
    r"(?<![\w.,-])\d{1,4}(?:\s?(?:bis|ter))?,?\s+"
    r"(?i:rue|avenue|av\.|boulevard|bd|place|allée|chemin|impasse|quai|route|cours|passage)\s+"
    rf"(?:de\s+la\s+|de\s+l['’]|des\s+|du\s+|de\s+|d['’])?(?:\w[\w'’-]{{0,40}})(?:[\s-]{_NAME}){{0,3}}"
)
_SOUTHERN: Final = re.compile(
    r"\b(?:Calle|C/|Avenida|Avda?\.?|Paseo|Plaza|Rua|Travessa|Praça|Via|Viale|Piazza|Corso|Vicolo|ul\.|ulica|aleja|al\.)\s*"
    rf"(?:(?:de|del|da|do|dos|das|della|dei|di)\s+(?:la\s+|los\s+|las\s+)?)*{_NAME}"
    rf"(?:\s+(?:(?:de|del|da|do|di|y|e)\s+(?:la\s+)?)?{_NAME}){{0,3}},?\s+(?:n[º°.]\s*)?{_NUMBER}"
)
_COMPOUND: Final = re.compile(
    rf"\b(?P<street>(?:{_NAME}-)?[A-ZÄÖÜÅØ][\w.-]{{0,40}}?"
    r"(?:stra(?:ß|ss)e|str\.|gasse|weg|allee|platz|ring|damm|ufer|chaussee|steig|pfad|stieg|graben|wall|twiete|kamp"
    r"|straat|gracht|laan|plein|kade|singel|dijk|gatan|gata|vägen|veien|vej|gade|katu)"
    rf"|(?!(?:Auf|Im|Am|Der|Die|Das|Den|Dem|In|Zum|Zur|Ein|Eine|Von|Vor)\s){_NAME}\s+"
    rf"(?:Stra(?:ß|ss)e|Str\.|Allee|Weg|Platz|Ring|Damm|Ufer|Chaussee))\s+{_NUMBER}{_CITY}"
)
_NO_STREETS: Final = re.compile(
    r"(?:park|stell|sitz|arbeits|spiel|lager|speicher|steh|start|tabellen|schlaf|fahrrad|liege|zelt|studien|kita|heim|um|aus"
    r"|hin|rück|schul|arbeits|ohr|fing|he|halb|lebens|fuß|rad|wander|feld|boxen|boxr|ehe|schlüssel|kranken|auf|jahr)"
    r"-?(?:platz|weg|ring|pfad|steig)$",
    re.IGNORECASE,
)
_LANDMARK: Final = re.compile(
    r"\b(?:Am|An\s+de[rnm]|Auf\s+de[rnm]|Im|In\s+de[rn]|Unter\s+de[rn]|Zum|Zur|Hinter\s+de[rm]|Bei(?:m|\s+der)|Vor\s+de[rm])\s+"
    r"(?:(?:Alten|Neuen|Hohen|Großen|Kleinen|Langen|Oberen|Unteren)\s+)?(?:[A-ZÄÖÜ][\wäöüß-]{0,40})?"
    r"(?i:markt|park|mühle|linden|kirche|bach|see|wald|berg|hang|graben|tor|ufer|anger|brunnen|bahnhof|hafen|schloss|schloß"
    r"|garten|feld|wiese|wiesen|hof|weiher|kanal|eichen|buchen|alster|höhe|burg|teich|damm|platz|wall|dorf|heide|steg"
    rf"|rathaus|dom)\s+{_NUMBER}{_CITY}"
)


def find_street_addresses(text: str) -> Iterator[tuple[int, int, float]]:
    """Yield the start, end and confidence (0 to 1) of street addresses; matches of several forms may overlap."""
    if not any(character.isdecimal() for character in text):
        return
    for pattern, confidence in ((_ENGLISH, 0.9), (_FRENCH, 0.85), (_SOUTHERN, 0.85), (_LANDMARK, 0.7)):
        for match in pattern.finditer(text):
            yield match.start(), match.end(), confidence
    for match in _COMPOUND.finditer(text):
        if not _NO_STREETS.search(match["street"]):
            yield match.start(), match.end(), 0.9
