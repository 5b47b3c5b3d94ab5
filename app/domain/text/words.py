"""Tokenise text for the embedder and the ranking: content words, speakers, names, and the intent of a query.

The full-text index tokenises independently (PostgreSQL, by language); this module needs no database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import filterfalse

SPEAKER_MAX_CHARACTERS = 40
HEAD_WORDS = 40
"""Number of content words at the start of a text that represent it in word-by-word comparison."""
HEAD_CHARACTERS = 600
"""Number of characters from which the head words are taken."""

# "don't" is one word; "Ann's" is two, and the second is a stop word.
_WORD = re.compile(r"[^\W_]+(?:['’](?!s\b)[^\W_]+)*")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'(?!s\b)[a-z0-9]+)*")
"""Equivalent of `_WORD` for lower-cased ASCII; it takes two thirds of the time."""
_SPACED = "".join(chr(n) if chr(n).isalnum() else " " for n in range(128))
"""Table that replaces ASCII symbols by spaces; translating and splitting takes a third of the time of `_ASCII_WORD`."""
_BETWEEN_TEXTS = "\0"
"""Separator of joined texts; no stored text contains it."""
_SPACED_TEXTS = "".join(chr(n) if chr(n).isalnum() or chr(n) in {"'", _BETWEEN_TEXTS} else " " for n in range(128))
"""Table like `_SPACED` that leaves apostrophes and the separator of texts unchanged."""
_OUTER_APOSTROPHE = re.compile(r"'(?:(?=s\b)|(?![a-z0-9])|(?<![a-z0-9]'))")
"""An apostrophe that `_ASCII_WORD` doesn't include in a word."""
_TURN = re.compile(r"\s*(?P<speaker>[^\W\d_][\w.'’-]*(?: [\w.'’-]+){0,2}):\s")
_ASKS_WHEN = re.compile(r"\b(when|how long|(what|which) (year|month|day|date|time))\b", re.IGNORECASE)
# Grouped by first letter, for lower-cased text; it takes an eighth of the time of a plain alternation.
_TELLS_WHEN = re.compile(
    r"\b(?:y(?:esterday|ears?)|t(?:oday|onight|omorrow|uesday|hursday"
    r"|his (?:morning|afternoon|evening|spring|summer|autumn|fall|winter))|a(?:go|pril|ugust)|last|n(?:ext|ovember)"
    r"|recently|we(?:ek(?:end)?|dnesday)|m(?:onth|onday|arch|ay)|friday|s(?:aturday|unday|eptember)"
    r"|j(?:anuary|une|uly)|february|october|december|\d{4})\b"
)
_ASKS = re.compile(r"[?\uff1f\u061f]")  # including Chinese and Arabic question marks
# Begins with a set of letters, which the regex engine finds fastest; `(?<!\w.)` is the word boundary before the letter.
_FIRST_PERSON = re.compile(
    r"[IiMmWwuOo](?<!\w.)(?:(?<=[Ii])|(?<=[Mm])(?:e|y(?:self)?|ine)|(?<=[Ww])e|(?<=u)s|(?<=[Oo])urs?)\b"
)

_PAST = (
    "recommended|suggested|said|told|advised|proposed|gave|given|wrote|written|drafted|listed|explained|mentioned"
    "|named|described|warned|offered|planned|put|called|quoted|estimated|calculated|worked out|came up with"
)
_BARE = (
    "recommend|suggest|say|tell|advise|propose|give|write|draft|list|explain|mention|name|describe|warn|offer|plan|put"
    "|call|quote|estimate|calculate|set|want|work out|come up with"
)
_YOURS = (
    "advice|suggestions?|recommendations?|recipe|draft|plan|list|version|sheet|answer|proposal|estimate|table|outline"
    "|template|letter|tips?|timetable|schedule|explanation|summary"
)
_ASKS_ASSISTANT = re.compile(
    rf"\b(?:did you (?:\w+ )?(?:{_BARE})|(?:had|have) you (?:\w+ )?(?:{_PAST})|you(?:'ve|'d)? (?:\w+ )?(?:{_PAST})"
    rf"|your (?:{_YOURS}))\b",
    re.IGNORECASE,
)
_ASKS_NOW = re.compile(
    r"\b(?:now|nowadays|currently|current|these days|latest|still|finally|actually|newest|most recent|at present|by now"
    r"|at the moment|up to date)\b",
    re.IGNORECASE,
)

_ENGLISH = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves what which who whom this that these those am is are
was were be been being have has had having do does did doing a an the and but if or because as until while
of at by for with about against between into through during before after above below to from up down in out
on off over under again further then once here there when where why how all any both each few more most
other some such no nor not only own same so than too very s t can will just don should now would could
cannot let i'm you're we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll
he'll she'll we'll they'll isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't
wouldn't shan't shouldn't can't couldn't mustn't
"""
STOP_WORDS = frozenset(_ENGLISH.split())


def split_words(text: str) -> list[str]:
    """Return all words in lower case, in order; numbers are included, emoji and symbols are not."""
    lowered = text.lower()
    if not text.isascii():
        return _WORD.findall(lowered)
    return _ASCII_WORD.findall(lowered) if "'" in lowered else lowered.translate(_SPACED).split()


def words_as_written(text: str) -> list[str]:
    """Return all words in order with their original case."""
    return _WORD.findall(text)


def content_words(text: str) -> list[str]:
    """Return the words other than stop words, in order; all words if there are no others."""
    words = split_words(text)
    return list(filterfalse(STOP_WORDS.__contains__, words)) or words


def first_content_words(text: str) -> list[str]:
    """Return the distinct words among the first `HEAD_WORDS` content words of a text, in order."""
    return list(dict.fromkeys(content_words(text[:HEAD_CHARACTERS])[:HEAD_WORDS]))


def split_heads(texts: Sequence[str]) -> list[list[str]]:
    """Return the first `HEAD_WORDS` content words of each text, in order; a word may be repeated.

    ASCII texts are split together, which takes a third of the time of one call per text.
    """
    heads = [text[:HEAD_CHARACTERS] for text in texts]
    alone = [not head.isascii() or _BETWEEN_TEXTS in head for head in heads]
    joined = ["" if is_alone else head for head, is_alone in zip(heads, alone, strict=True)]
    lowered = f" {_BETWEEN_TEXTS} ".join(joined).lower()
    if "'" in lowered:
        lowered = _OUTER_APOSTROPHE.sub(" ", lowered)
    words = list(filterfalse(STOP_WORDS.__contains__, lowered.translate(_SPACED_TEXTS).split()))
    ends = [place for place, word in enumerate(words) if word == _BETWEEN_TEXTS]
    starts = [0, *(end + 1 for end in ends)]
    ends.append(len(words))
    return (
        [
            words[start : min(end, start + HEAD_WORDS)] if end > start else content_words(head)[:HEAD_WORDS]
            for start, end, head in zip(starts, ends, heads, strict=True)
        ]
        if texts
        else []
    )


def format_line(text: str, speaker: str | None) -> str:
    """Format a text as a line of a conversation, `Speaker: text`, unless it already starts with the speaker."""
    if not speaker or text.lstrip().lower().startswith(f"{speaker.lower()}:"):
        return text
    return f"{speaker}: {text}"


def find_speaker(text: str, speaker: str | None) -> str | None:
    """Return the given speaker, otherwise the name (up to three words) before a colon at the start of the text."""
    if speaker:
        return speaker
    turn = _TURN.match(text)
    return turn["speaker"] if turn and len(turn["speaker"]) <= SPEAKER_MAX_CHARACTERS else None


def query_names(query: str) -> frozenset[str]:
    """Return the lower-cased words of a query that may be names.

    A name that is also a stop word (Will, An) counts only if it is written as a name: capitalised and not the query's
    first word.
    """
    written = _WORD.findall(query)
    content = {word.lower() for word in written} - STOP_WORDS
    capitalised = {word.lower() for word in written[1:] if word[0].isupper() and word != "I"}
    return frozenset(content | capitalised)


def is_named(speaker: str | None, named: frozenset[str]) -> bool:
    """Return true if any word of the speaker's name is among the names."""
    return speaker is not None and not named.isdisjoint(split_words(speaker))


def asks_for_time(query: str) -> bool:
    """Return true if an English query asks for a time."""
    return _ASKS_WHEN.search(query) is not None


def states_time(text: str) -> bool:
    """Return true if an English text states a time: a day, a month, a year, "ago", "next"."""
    return _TELLS_WHEN.search(text.lower()) is not None


def contains_question(text: str) -> bool:
    """Return true if a text contains a question."""
    return _ASKS.search(text) is not None


def asks_assistant(query: str) -> bool:
    """Return true if an English query asks about the assistant's words: "what did you suggest?", "your recipe"."""
    return _ASKS_ASSISTANT.search(query) is not None


def asks_for_present(query: str) -> bool:
    """Return true if an English query asks for the present state: "now", "currently", "latest"."""
    return _ASKS_NOW.search(query) is not None


def is_in_first_person(text: str) -> bool:
    """Return true if an English text is in the first person: I, my, we."""
    return _FIRST_PERSON.search(text) is not None
