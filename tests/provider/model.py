"""Deterministic text model behind the provider, plausible enough for a demonstration."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

WORD = re.compile(r"[^\W_]+")
BLOCK = re.compile(r"^(?P<mark>\S+) BEGIN\n(?P<lines>.*)\n(?P=mark) END$", re.MULTILINE | re.DOTALL)

FEELING = frozenset(
    [
        "love",
        "loved",
        "hate",
        "afraid",
        "happy",
        "sad",
        "proud",
        "angry",
        "cried",
        "miss",
        "died",
        "wonderful",
        "terrible",
        "married",
    ]
)
DOING = frozenset(
    [
        "decided",
        "must",
        "promise",
        "promised",
        "deadline",
        "remember",
        "plan",
        "agreed",
        "tomorrow",
        "buy",
        "call",
        "book",
        "fix",
    ]
)
PERSONAL = frozenset(
    [
        "my",
        "our",
        "mother",
        "father",
        "daughter",
        "son",
        "wife",
        "husband",
        "family",
        "birthday",
        "friend",
        "name",
        "home",
    ]
)
SMALL = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "has",
        "have",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "were",
        "with",
    ]
)
CATEGORY_WORDS = {
    "pii": frozenset(["email", "phone", "address", "passport", "born"]),
    "financial": frozenset(["bank", "salary", "account", "euros", "dollars", "tax", "invoice"]),
    "health": frozenset(["doctor", "hospital", "allergic", "medicine", "ill", "cancer", "pregnant"]),
    "credentials": frozenset(["password", "token", "secret", "pin"]),
    "work": frozenset(["meeting", "project", "release", "deadline", "customer", "office"]),
}
CUES = {
    "shellfish": ["prawns", "Seafood Buffet", "sushi"],
    "penicillin": ["prescribe", "antibiotics"],
    "knee": ["skiing", "stairs"],
}
"""Cues for memories that contain this word."""
SENSITIVITY = {"health": 10, "financial": 10, "credentials": 10, "pii": 7, "work": 3, "casual": 1}


def tokens(text: str) -> int:
    return -(-len(text.encode()) // 4)


def vector(text: str, dimensions: int) -> list[float]:
    """Return a unit vector: the sum of the words' vectors, so that texts with common words are near each other."""
    words = [word for word in WORD.findall(text.lower()) if word not in SMALL] or [text]
    sums = [sum(numbers) for numbers in zip(*(_word(word, dimensions) for word in words), strict=True)]
    length = math.hypot(*sums)
    return [number / length for number in sums]


@lru_cache(maxsize=50_000)
def _word(word: str, dimensions: int) -> tuple[float, ...]:
    random = hashlib.shake_256(word.encode()).digest(2 * dimensions)
    return tuple(int.from_bytes(random[at : at + 2], "big") / 32767.5 - 1 for at in range(0, 2 * dimensions, 2))


def memories(chat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the memories in the delimited block of a chat's last message; for a reranker, the query comes first.

    Lines with context of memories are left out. Empty without a block.
    """
    return [line for line in lines(chat) if "context" not in line]


def lines(chat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all lines in the delimited block of a chat's last message; empty without a block."""
    found = BLOCK.search(chat[-1]["content"])
    return [json.loads(line) for line in found["lines"].split("\n")] if found else []


def liking(query: str, passage: dict[str, Any]) -> dict[str, Any]:
    """Rate a passage for a query: the share of its words that also occur in the query."""
    said = set(WORD.findall(passage["text"].lower())) - SMALL
    shared = said & set(WORD.findall(query.lower()))
    return {"id": passage["id"], "score": round(len(shared) / max(len(said), 1), 2)}


def question(memory: dict[str, Any]) -> dict[str, Any]:
    """Build a question from the second half of a memory, prefixed with words that the memory lacks."""
    said = [word for word in WORD.findall(memory["memory"].lower()) if word not in SMALL]
    half = " ".join(said[len(said) // 2 :])
    return {"id": memory["id"], "question": f"Could somebody perhaps remember anything about {half}?"}


def outdated(new: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier memories that a new one outdates: those that differ only in the last word."""
    *frame, value = WORD.findall(new["text"].lower())
    found = []
    for earlier in new["earlier"]:
        *other, former = WORD.findall(earlier["text"].lower())
        if other == frame and former != value:
            found.append(earlier["id"])
    return {"position": new["position"], "id": new["id"], "outdated": found}


def score(memory: dict[str, Any]) -> dict[str, Any]:
    """Return one memory's part of a response."""
    text = memory["text"]
    words = WORD.findall(text.lower())
    said = set(words)
    noise = hashlib.blake2b(text.encode(), digest_size=4).digest()
    categories = [name for name, signs in CATEGORY_WORDS.items() if said & signs] or ["casual"]
    scores = {
        "emotional": 2 + 3 * len(said & FEELING) + text.count("!"),
        "novelty": 1 + len(said - SMALL) / 4,
        "actionable": 1 + 3 * len(said & DOING),
        "personal": 2 + 2 * len(said & PERSONAL),
    }
    return {
        "position": memory["position"],
        "id": memory["id"],
        **{name: min(10, value + noise[at] / 255) for at, (name, value) in enumerate(scores.items())},
        "kind": "emotional" if said & FEELING else "procedural" if "how" in said else "episodic",
        "entities": re.findall(r"\b[A-Z][a-z]+\b", text)[:8],
        "topics": sorted(said - SMALL, key=len)[-3:],
        "categories": categories,
        "sensitivity": max(SENSITIVITY[name] for name in categories),
        "cues": cues(said - SMALL),
    }


def cues(said: set[str]) -> list[str]:
    """Return the cues for a memory's words: those of `CUES`, otherwise a phrase about its longest word."""
    known = [cue for word, found in CUES.items() if word in said for cue in found]
    longest = max(said, key=lambda word: (len(word), word), default="")
    return known or [f"talk about {longest[:40]}"] * bool(longest)
