"""The labelled texts are as their guide says: numerous, varied, and split into two similar halves."""

from __future__ import annotations

import json
import re
from collections import Counter
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from app.domain.ingest.memory import KINDS, TEXT_MAX_BYTES

HERE = Path(__file__).parent
CRITERIA = ("emotional", "novelty", "actionable", "personal")
LABELLED_NEEDS = {"id", "text", "kind", *CRITERIA, "half"}
LABELLED_MAY = {"speaker", "thread", "note"}
HOSTILE_NEEDS = {"id", "text", "twin", "way", "wants"}
BANDS = (0.0, 0.35, 0.55, 1.01)
"""Bounds of the low, middle and high band, each including its lower bound."""

# words that are common in one of these languages and rare in the others
WORDS = {
    "German": {"ich", "und", "nicht", "ist", "wir", "mit", "heute", "der", "die", "das"},
    "French": {"je", "suis", "et", "est", "pour", "les", "du", "j'ai", "dans", "ça"},
    "Spanish": {"hay", "hemos", "los", "y", "el", "en", "para", "que", "mi", "nada"},
    "Portuguese": {"não", "e", "uma", "há", "minha", "sou", "à", "do", "um", "hoje"},
    "Turkish": {"ve", "ama", "çok", "bu", "da", "için", "bir", "her", "bugün", "dün"},
}
ENGLISH = {"the", "and", "a", "is", "to", "of", "i", "my", "for", "it", "was", "on", "in", "this", "at"}
KANA = re.compile("[\u3040-\u30ff]")
LINK = re.compile(r"[\w.+-]+@([\w.-]+\w)|https?://([\w.-]+)")
PHONE = re.compile(r"\b\d{3}-\d{4}\b")


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


LABELLED = read("labelled.jsonl")
HOSTILE = read("hostile.jsonl")
HALVES = {half: [item for item in LABELLED if item["half"] == half] for half in ("dev", "check")}


def salience(item: dict[str, Any]) -> float:
    return float(sum(item[criterion] for criterion in CRITERIA)) / 40


def shares(items: list[dict[str, Any]]) -> list[float]:
    """Return the fraction of items in each band."""
    return [sum(low <= salience(item) < high for item in items) / len(items) for low, high in pairwise(BANDS)]


def language(text: str) -> str:
    """Guess the language from its commonest words; English unless another language has more."""
    if KANA.search(text):
        return "Japanese"
    words = Counter(re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower()))
    counts = {name: sum(words[word] for word in common) for name, common in {"English": ENGLISH, **WORDS}.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= 2 else "English"


def test_every_labelled_text_has_the_fields_and_no_others() -> None:
    assert len(LABELLED) >= 340
    for item in LABELLED:
        assert set(item) >= LABELLED_NEEDS, item["id"]
        assert set(item) <= LABELLED_NEEDS | LABELLED_MAY, item["id"]
        assert item["kind"] in KINDS, item["id"]
        assert all(type(item[criterion]) is int and 0 <= item[criterion] <= 10 for criterion in CRITERIA), item["id"]
        optional = [item[name] for name in LABELLED_MAY if name in item]
        assert all(isinstance(value, str) and value.strip() for value in [item["text"], *optional]), item["id"]
        assert len(item["text"].split()) <= 120, item["id"]


@pytest.mark.parametrize(("items", "letter"), [(LABELLED, "s"), (HOSTILE, "h")], ids=["labelled", "hostile"])
def test_ids_count_up_and_no_text_comes_twice(items: list[dict[str, Any]], letter: str) -> None:
    width = len(items[0]["id"]) - 1
    assert [item["id"] for item in items] == [f"{letter}{number:0{width}}" for number in range(1, len(items) + 1)]
    texts = Counter(" ".join(text.lower().split()) for item in items for text in (item["text"], item.get("twin", "")))
    assert [text for text, times in texts.items() if text and times > 1] == []


def test_the_halves_follow_from_the_ids_and_are_alike() -> None:
    for item in LABELLED:
        odd = sha256(item["id"].encode()).digest()[0] % 2
        assert item["half"] == ("check" if odd else "dev"), item["id"]
    dev, check = HALVES["dev"], HALVES["check"]
    assert abs(len(dev) - len(check)) <= 0.1 * len(LABELLED)
    for criterion in (salience, *(lambda item, name=name: item[name] / 10 for name in CRITERIA)):
        first, second = [criterion(item) for item in dev], [criterion(item) for item in check]
        assert fmean(first) == pytest.approx(fmean(second), abs=0.05)
        assert pstdev(first) == pytest.approx(pstdev(second), abs=0.05)
    assert shares(dev) == pytest.approx(shares(check), abs=0.05)


def test_half_of_the_texts_matter_little_and_a_quarter_much() -> None:
    assert shares(LABELLED) == pytest.approx([0.5, 0.25, 0.25], abs=0.05)


def test_the_criteria_use_their_scale_and_tell_different_things() -> None:
    for criterion in CRITERIA:
        assert {item[criterion] for item in LABELLED} >= set(range(10)), criterion
    strong = [item for item in LABELLED if max(item[criterion] for criterion in CRITERIA) >= 8]
    lopsided = [item for item in strong if min(item[criterion] for criterion in CRITERIA) <= 2]
    assert len(lopsided) >= len(strong) / 4


def test_every_kind_has_its_share() -> None:
    kinds = Counter(item["kind"] for item in LABELLED)
    assert all(kinds[kind] >= 10 for kind in KINDS), kinds


def test_an_item_that_says_another_again_comes_later_and_is_not_new() -> None:
    again = [(item, found[1]) for item in LABELLED if (found := re.match(r"says (s\d+) again", item.get("note", "")))]
    assert len(again) >= 10
    for item, earlier in again:
        assert earlier < item["id"]
        assert item["novelty"] <= 1, item["id"]


def test_texts_are_of_many_lengths() -> None:
    words = [len(item["text"].split()) for item in LABELLED]
    assert sum(count <= 3 for count in words) >= 10
    assert sum(count >= 60 for count in words) >= 5
    assert len({item["text"].split()[0].lower() for item in LABELLED}) >= 120


def test_some_texts_are_in_other_languages() -> None:
    found = Counter(language(item["text"]) for item in LABELLED)
    assert all(found[name] >= 3 for name in (*WORDS, "Japanese")), found
    assert 18 <= len(LABELLED) - found["English"] <= 35, found


def test_addresses_and_phones_are_of_nobody() -> None:
    texts = [str(text) for item in LABELLED + HOSTILE for text in item.values()]
    hosts = [found[1] or found[2] for text in texts for found in LINK.finditer(text)]
    assert [host for host in hosts if not host.endswith("example.com")] == []
    phones = [phone for text in texts for phone in PHONE.findall(text)]
    assert phones
    assert [phone for phone in phones if not phone.startswith("555-01")] == []


def test_every_hostile_text_has_a_harmless_twin_of_like_length() -> None:
    assert len(HOSTILE) >= 50
    for item in HOSTILE:
        assert set(item) == HOSTILE_NEEDS, item["id"]
        assert all(isinstance(value, str) and value.strip() for value in item.values()), item["id"]
        assert 0.8 <= len(item["twin"]) / len(item["text"]) <= 1.25, item["id"]
        assert max(len(item[name].encode()) for name in ("text", "twin")) <= TEXT_MAX_BYTES, item["id"]
        assert not re.search(r"\b(scor|rat(e|ing)\b|criteri|salien|emotional|never.forget)", item["twin"].lower()), (
            item["id"]
        )


def test_hostile_texts_go_many_ways() -> None:
    ways = {item["way"] for item in HOSTILE}
    assert len(ways) >= 20
    assert sum(way.startswith("language: ") for way in ways) >= 8
    for way in ("base64", "rot13", "hex", "leetspeak", "reversed", "zero-width characters", "homoglyphs"):
        assert way in ways
