"""Classify messages by form: about the speaker, about the world, or small talk."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.recall.bridges import read_days
from app.domain.recall.english import english
from app.domain.text.words import STOP_WORDS, split_words, words_as_written

_LENGTH_WORDS: Final = 20
"""Maximum number of content words that the feature `length` counts."""
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
_NAME_INSIDE: Final = re.compile(r"(?<=[a-z,;] )[A-Z][\w-]*")


@dataclass(frozen=True, slots=True)
class ConversationFeatures:
    """Features of a conversation that need no search; flags are 0 or 1.

    Attributes:
        about_self: The conversation contains I, me, my, we, us or our, or asks about a person named in the memories.
        worldly: The conversation asks for general knowledge and doesn't mention the speaker.
        general: The conversation asks for general knowledge in the first person: "how do I boil an egg".
        phatic: The conversation consists of small talk only.
        chatting: Share of small talk among the content words, 0 to 1.
        when: The conversation names a day, a month, an hour, or "next".
        length: ln(1 + n) / 3 with n the number of content words, at most 20; 0 to 1.02.
        name: The conversation contains a name that the memories use.
        asks_about_self: The newest message asks about the speaker or about a person named in the memories.
        asks_about_person: The newest message asks about a person named in the memories.
    """

    about_self: float
    worldly: float
    general: float
    phatic: float
    chatting: float
    when: float
    length: float
    name: float
    asks_about_self: bool
    asks_about_person: bool


def read_form(said: Sequence[str], known: frozenset[str]) -> ConversationFeatures:
    """Extract the form features of a conversation.

    A question about a person named in the memories counts as a question about the speaker.

    Args:
        said: The messages of one side of the conversation, newest first, without speaker names; at least one.
        known: The names that the conversation shares with the memories, from `find_names`.
    """
    rules = english()
    newest, oldest = said[0], said[-1]
    all_text = "\n".join(said)
    content = [word for word in split_words(all_text) if word not in STOP_WORDS]
    small_talk_words = sum(word in rules.small_talk for word in content)
    asks_about_person = is_question(newest) and not find_persons(newest).isdisjoint(known)
    speaks_of_self = rules.self.search(rules.asides.sub("", all_text)) is not None
    begins_worldly = rules.worldly.match(newest) is not None
    worldly = (begins_worldly or rules.worldly.match(oldest) is not None) and not speaks_of_self
    general = (
        begins_worldly
        and rules.speaker.search(newest) is not None
        and rules.own.search(all_text) is None
        and not any(map(read_days, said))
    )
    question = _SENTENCE_END.split(newest.strip())[-1]
    asks_about_self = (
        is_question(newest) and rules.self.search(rules.asides.sub("", question)) is not None and not general
    )
    return ConversationFeatures(
        about_self=float(rules.self.search(all_text) is not None or asks_about_person),
        worldly=float(worldly and not asks_about_person),
        general=float(general and not asks_about_person),
        phatic=float(small_talk_words == len(content)),
        chatting=small_talk_words / len(content) if content else 1.0,
        when=float(any(rules.when.search(line) for line in said)),
        length=math.log1p(min(len(content), _LENGTH_WORDS)) / 3,
        name=float(bool(known)),
        asks_about_self=asks_about_person or asks_about_self,
        asks_about_person=asks_about_person,
    )


def is_question(message: str) -> bool:
    """Return true if the message ends with a question."""
    return message.rstrip(" \t\n)\"'”’*_").endswith(("?", "\uff1f", "\u061f"))


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text that aren't blank."""
    return [sentence for line in text.splitlines() for sentence in _SENTENCE_END.split(line) if sentence.strip()]


def names_inside(text: str) -> list[str]:
    """Return the capitalised words inside the sentences of a text, without "I"."""
    return [name for name in _NAME_INSIDE.findall(text) if name != "I"]


def find_persons(message: str) -> frozenset[str]:
    """Return the lower-cased names that a message asks about: "does Ann", "Ann's"."""
    names = (match["subject"] or match["owner"] for match in english().person.finditer(message))
    return frozenset(name.lower() for name in names if name[0].isupper()) - STOP_WORDS


def find_names(said: Sequence[str], texts: Iterable[str], labels: Iterable[str]) -> frozenset[str]:
    """Return the lower-cased words of a conversation that memories use as names.

    A word counts as a name if a memory capitalises it inside a sentence or if it is part of a speaker or subject label.
    A word that the conversation asks about as a person also counts if a memory capitalises it at the start of a
    sentence. Days and months never count.

    Args:
        labels: Speakers and subjects of memories.
    """
    content = {word for line in said for word in split_words(line) if word not in STOP_WORDS and not read_days(word)}
    persons = content.intersection(*[frozenset[str]().union(*map(find_persons, said))])
    names = content.intersection(word for label in labels for word in split_words(label))
    for text in texts:
        if content <= names:
            break
        names |= content.intersection(name.lower() for name in names_inside(text))
        if persons - names:
            names |= persons.intersection(word.lower() for word in words_as_written(text) if word[0].isupper())
    return frozenset(names)
