"""Classify a text by English patterns: the importance classes of `cmm` and the topics of `mnemex`.

Seeds 000 and 002 name the classes with few examples; the patterns were written for Ebbing. Questions and sentences that
instruct a model to score or store memories never match. Texts in other languages have no topic, and are `normal`,
`novel` or `routine`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from app.domain.salience.features import strip_instructions

ImportanceClass = Literal["correction", "instruction", "novel", "normal", "routine"]
Topic = Literal["security", "decision", "preference"]

NOVEL_BELOW: Final = 0.5
"""Cosine to the nearest earlier memory below which a text is novel."""
CHARACTERS_MAX: Final = 4_000
"""Number of characters examined; the beginning of a text shows its class."""
_NAMED_MAX = 4  # maximum length of small talk with a name, in words: "see you tomorrow, Ana"

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
_WORD = re.compile(r"[^\W_]+(?:['\-][^\W_]+)*")
_OPENING = r"^\W*(?:(?:and|but|so|also|oh|no|ok|okay|well|sorry|wait|oops|please)\b\W*){0,3}"


def importance_class(text: str, nearest: float | None) -> ImportanceClass:
    """Return the first matching class of seed 002's table; small talk is never novel.

    Args:
        nearest: Cosine to the nearest earlier memory, 0 to 1; None if unknown, in which case no text is novel.
    """
    sentences = _statements(text)
    if _any(_CORRECTION, sentences):
        return "correction"
    if _any(_INSTRUCTION, sentences):
        return "instruction"
    if _is_small_talk(text):
        return "routine"
    return "novel" if nearest is not None and nearest < NOVEL_BELOW else "normal"


def topic(text: str) -> Topic | None:
    """Return the first matching topic of a text, or None (seed 000, context-aware strength)."""
    sentences = _statements(text)
    return next((name for name, pattern in _TOPICS.items() if _any(pattern, sentences)), None)


def _statements(text: str) -> list[str]:
    """Return the sentences of a text, without questions and without instructions to the scorer."""
    sentences = _SENTENCE_END.split(strip_instructions(text[:CHARACTERS_MAX]))
    return [sentence for sentence in sentences if sentence and not sentence.rstrip(" \t\"')").endswith("?")]


def _any(pattern: re.Pattern[str], sentences: Sequence[str]) -> bool:
    return any(pattern.search(sentence) for sentence in sentences)


def _is_small_talk(text: str) -> bool:
    """Return true if the text has no words, or only greetings, thanks and assent, optionally followed by a name."""
    words = _WORD.findall(text[:CHARACTERS_MAX].replace("’", "'"))
    other_words = [word for word in words if word.lower() not in _SMALL_TALK]
    is_named = other_words == words[-1:] and 1 < len(words) <= _NAMED_MAX and words[-1].istitle()
    return not other_words or is_named


def _pattern(*ways: str) -> re.Pattern[str]:
    return re.compile("|".join(ways), re.IGNORECASE)


_BELIEF = r"(?:(?:i think|i believe|i am afraid|i'm afraid) (?:that )?)?"
_ABOUT = r"(?=\W*$|[,;:]| (?:about|on|there|here|again)\b)"  # not "wrong to trust him", "mistaken for a thief"
_CORRECTION = _pattern(
    _OPENING + r"actually\b",
    r",\s*actually\W*$",
    _OPENING + r"correction\W",
    r"\b(?:i|we) (?:was|were) (?:completely |totally )?(?:wrong|mistaken|incorrect)\b",
    r"\bi (?:misspoke|misremembered|stand corrected|made a mistake|mixed (?:that|it|them) up|got (?:that|it) wrong)\b",
    r"\bi meant\b(?! to\b)",
    r"\bthat(?:'s| is| was) (?:wrong|incorrect|not (?:right|true|correct))\b",
    r"\b(?:scratch|correct) that\b",
    r"\bto correct (?:myself|that)\b",
    _OPENING + r"my (?:mistake|bad)\b",
    r"^\W*no\b\W+(?:that|this|it)(?:'s| is| was) the wrong [a-z]",
    _OPENING + r"(?:that|this)(?:'s| is) the wrong [a-z][\w-]*(?: [a-z][\w-]*)?(?:\W*$|[,;:])",
    r"^\W*no\b\W+i (?:said|wrote|told you|asked for)\b(?! (?:nothing|nobody|no|yes|so|sorry|hello|goodbye|that i)\b)",
    r"\bi said [^,;]{1,40}, not\b",
    _OPENING + _BELIEF + r"you(?:'re| are| were) (?:all |completely |totally )?(?:wrong|mistaken|incorrect)\b" + _ABOUT,
    _OPENING + _BELIEF + r"you(?:'ve| have)? got (?:that|it|this) (?:all |completely |totally )?wrong\b",
)
_BARE = r"(?!mind\b|again\b|been\b|ever\b|before\b|heard\b|seen\b|had\b|was\b|a\b|the\b)[a-z]"
_ORDER = rf"(?:(?:always|never) {_BARE}|(?:do not|don't) (?!know\b|think\b|worry\b|mind\b|care\b|see\b|have\b)[a-z])"
_INSTRUCTION = _pattern(
    _OPENING + _ORDER,
    r"^\W*(?:when|whenever|if|before|after|unless)\b[^,]{1,120}, (?:please )?" + _ORDER,
    _OPENING + r"(?:remember|note|keep in mind|bear in mind)(?: that\b| to\b| not\b| my\b| this\b| the\b|[,:])",
    _OPENING + r"(?:make|be) sure\b",
    r"\b(?:do not|don't) forget (?:to|that)\b",
    r"^\W*please [a-z]",
    r"\bfrom (?:now|here) on\b",
    r"\byou (?:must|mustn't|shall|(?:should|need to|have to) (?:always|never))\b",
    r"\bi (?:want|need|'d like|would like) you to\b",
)
_WORDS = """
    hello hi hey howdy greetings good morning afternoon evening night day bye goodbye see you later soon tomorrow
    thanks thank thx ty many much so very a lot for your the help cheers welcome you're anytime no problem worries
    yes yep yeah yup sure ok okay k kk alright right fine great cool nice perfect awesome lovely wow lol haha hehe
    how are is it going doing today what's up i'm we're and well too there again have weekend take care got sounds
    hm hmm um uh mhm congrats congratulations please
"""
_SMALL_TALK = frozenset(_WORDS.split())
_NOT_NEGATED = r"(?<!not )(?<!n't )(?<!never )(?<!yet )(?<!be )"
_LIKE = r"(?:really |absolutely |also )?(?:like|love|enjoy|hate|dislike|adore|detest|can't stand)"
_TOPICS: Final[dict[Topic, re.Pattern[str]]] = {
    "security": _pattern(
        r"\b(?:password|passphrase|passcode|credential)s?\b",
        r"\b(?:api|private|secret|ssh|gpg|encryption|signing|master|recovery|access)[ _-]keys?\b",
        r"\b(?:access|refresh|auth|bearer|api)[ _-]tokens?\b|\bclient secret\b",
        r"\b(?:recovery|backup|door|alarm|safe|pin|entry)[ -]codes?\b|\b(?:seed|recovery) phrase\b|\bpin is \d",
        r"\b(?:2fa|mfa|totp|two-factor)\b",
        r"\b(?:vulnerabilit(?:y|ies)|ransomware|malware|phishing|zero-day|cve-\d{4}-\d+)\b",
        r"\b(?:data|security) (?:breach|incident|leak|hole|flaw)\b",
        r"\b(?:was|were|been|got) (?:hacked|breached|compromised)\b",
        r"-----begin [a-z ]{0,20}private key",
        r"\b(?:sk|ghp|xoxb|xoxp)[-_][a-z0-9]{16}|\bakia[0-9a-z]{16}\b",
    ),
    "decision": _pattern(
        rf"{_NOT_NEGATED}\b(?:decided|agreed|opted|resolved|voted) (?:to|on|against|that|for)\b",
        r"\b(?:we|i|they)(?:'ve| have)? (?:decided|chosen?|rejected|settled on|ruled out|picked(?! up\b))\b",
        r"\b(?:we're|they're|i'm|(?:we|they) are|i am) going with\b",
        r"^\W*(?:decided|chose|rejected|decision:)",
        r"\b(?:our|my|the|their|final) decision (?:is|was|stands)\b",
        r"\bmade (?:(?:the|a|our|my|their) decision|up (?:my|our) minds?)\b",
    ),
    "preference": _pattern(
        r"\b(?:prefers?|preferred|favou?rites?)\b|\bpreferences? (?:is|are|for)\b|\b(?:i'd|would|she'd|he'd) rather\b",
        rf"(?<!would )\b(?:i|we|they|users|she|he|user) {_LIKE}s?\b(?! (?:you|him|her|them)\b)",
        r"\b(?:don't|doesn't|do not|does not) (?:really )?(?:like|enjoy)\b",
    ),
}
