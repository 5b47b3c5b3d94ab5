"""Unusual queries, each with its expected results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest

from app.domain.policy.policy import Policy
from app.domain.search.parameters import Ranking
from app.errors import Invalid
from app.services.memories import memories
from tests.services.stored_memories import NOON, Shelf, standing_on

LONG_WORD = "x" * 3000
SAID = {
    "zh": "我喜欢喝茶，不喜欢咖啡",  # noqa: RUF001
    "ja": "昨日は東京タワーの近くで魚を食べました",
    "ko": "아침마다 커피를 마셔요",
    "th": "ฉันชอบดื่มน้ำเปล่า",
    "ar": "أحب القهوة في الصباح",
    "ru": "Ёлка стоит у окна",  # noqa: RUF001
    "el": "Καλημέρα κόσμε",
    "party": "Party tonight 🎉🎂 at the harbour",
    "fire": "🔥",
    "cafe": "We met at the Café Zürich",
    "street": "Die Straße ist gesperrt",
    "istanbul": "The İSTANBUL ferry was late",
    "wide": "Invoice ＩＮＶ２０２６ is paid",  # noqa: RUF001 - as wide as Chinese characters
    "ligature": "The ﬁnancial oﬃce moved",
    "composed": "Rene\u0301 plays chess",
    "phone": "iPhone 15を買いました",
    "url": "Docs are at https://docs.example.org/setup/install.html?lang=en",
    "mail": "Write to ann.lee@example.com about the lease",
    "path": "Edit /etc/nginx/site.conf, then restart",
    "windows": "C:\\temp\\it's.txt holds the log",
    "code": "getUserName and parse_header live in auth-service",
    "price": "Release v2.3.1 on 2026-03-05 costs $1,200.50",
    "sql": "Robert'); DROP TABLE students; --",
    "signs": "Battery at 100% and under_score",
    "slash": "Bring tea/coffee",
    "long": f"A token {LONG_WORD}",
    "door": "The lighthouse keeper painted the door green",
}
WORDS = Policy(ranking=Ranking(relevance=0, soft_words=0, actor=0, when=0))
"""Ranks by words only, so that unexpected memories aren't found."""


@pytest.fixture(scope="module")
def standing(standing_database: str) -> Iterator[Shelf]:
    """Every memory above, indexed and embedded; tests must not change it."""
    with standing_on(standing_database):
        shelf = Shelf()
        for key, said in SAID.items():
            shelf.put(key, said)
        shelf.index()
        shelf.embed()
        yield shelf


@pytest.fixture
def own(standing: Shelf) -> Shelf:
    """An empty tenant for a test that makes changes."""
    return Shelf()


def by_words(shelf: Shelf, query: str, **fields: Any) -> list[str]:
    return [result.external_id or "" for result in shelf.search(query, WORDS, **fields)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # scripts without spaces, and scripts with inflected endings
        ("喝茶", ["zh"]),
        ("茶", ["zh"]),
        ("咖啡喜欢", ["zh"]),
        ("東京", ["ja"]),
        ("魚を食べ", ["ja", "phone"]),
        ("タワー", ["ja"]),
        ("ﾀﾜｰ", ["ja"]),
        ("買いました", ["phone", "ja"]),
        ("iphone", ["phone"]),
        ("커피", ["ko"]),
        ("น้ำเปล่า", ["th"]),
        ("القهوة", ["ar"]),
        ("harbour 東京", ["ja", "party"]),
        # letters
        ("ёлка", ["ru"]),
        ("елка", ["ru"]),
        ("ΚΌΣΜΕ", ["el"]),
        ("κοσμε", ["el"]),
        ("café", ["cafe"]),
        ("CAFE zurich", ["cafe"]),
        ("STRASSE", []),  # ß and ss are two spellings, which only the language german unifies
        ("straße", ["street"]),
        ("istanbul", ["istanbul"]),
        ("inv2026", ["wide"]),
        ("ＩＮＶ２０２６", ["wide"]),  # noqa: RUF001
        ("financial office", ["ligature"]),
        ("René", ["composed"]),
        ("rene", ["composed"]),
        # signs
        ("🔥", []),  # has no word, only a meaning
        ("🎉 harbour", ["party"]),
        ("100%", ["signs"]),
        ("under_score", ["signs"]),
        ("%", []),
        ("_", []),
        ("Robert'); DROP TABLE students; --", ["sql"]),
        ("' OR 1=1 --", ["price"]),
        ("lighthouse & !keeper | (green <-> door):*", ["door"]),
        ('"painted door"', ["door"]),
        ("lighthouse:*A \\' \\", ["door"]),
        ("%(tenant)s :tenant $9 {0} keeper", ["door"]),
        # names in code, paths and addresses
        ("getUserName", ["code"]),
        ("getusername", ["code"]),
        ("user", ["code"]),
        ("parse_header", ["code"]),
        ("header", ["code"]),
        ("auth", ["code"]),
        ("auth-service", ["code"]),
        ("/etc/nginx/site.conf", ["path"]),
        ("nginx", ["path"]),
        ("C:\\temp\\it's.txt", ["windows"]),
        ("temp", ["windows"]),
        ("docs.example.org", ["url", "mail"]),
        ("install", ["url"]),
        ("https://docs.example.org/setup/install.html?lang=en", ["url", "mail"]),
        ("ann.lee@example.com", ["mail", "url"]),
        ("lee", ["mail"]),
        ("coffee", ["slash"]),
        # numbers and days
        ("2.3.1", []),  # PostgreSQL reads v2.3.1 as one word
        ("v2.3.1", ["price"]),
        ("1,200.50", ["price"]),
        # no match
        ("", []),
        (" \t\n", []),
        ("?!… —", []),
        ("the and of", []),
        ("zeppelin", []),
        (LONG_WORD, []),  # longer than any word that PostgreSQL indexes
    ],
)
def test_words(standing: Shelf, query: str, expected: list[str]) -> None:
    assert by_words(standing, query) == expected


@pytest.mark.parametrize(("query", "first"), [("🔥", "fire"), (f"{LONG_WORD} token", "long")])
def test_meaning_finds_what_has_no_word(standing: Shelf, query: str, first: str) -> None:
    assert standing.search_ids(query)[0] == first


@pytest.mark.parametrize("query", ["", " \n"])
def test_nothing_is_looked_for(standing: Shelf, query: str) -> None:
    assert standing.search_ids(query) == []


def test_a_day_is_found_by_how_it_is_told(own: Shelf) -> None:
    own.put("then", "The roof was mended", occurred_at=NOON - timedelta(days=30))
    own.put("now", "The roof leaks again")
    own.index()
    assert by_words(own, "What happened on 5 February 2026?")[0] == "then"


def test_of_a_very_long_query_the_rarest_words_count(standing: Shelf) -> None:
    query = f"keeper {'the lease ' * 4000}"[:32_000].ljust(32_768)
    assert set(by_words(standing, query)) == {"door", "mail"}


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of Python and C functions that `work` calls in this thread."""
    called = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal called
        called += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called


@pytest.mark.parametrize("sign", ["word{} ", "{:x}/a.bc ", "ñ{}é "])
def test_the_work_on_a_query_grows_with_its_length_and_not_with_its_square(standing: Shelf, sign: str) -> None:
    query = "keeper " + "".join(sign.format(n) for n in range(8000))
    assert "door" in standing.search_ids(query[:32_768]), "others share many of the numbers"
    quarter, whole = (calls_of(lambda length=length: standing.search_ids(query[:length])) for length in (8_192, 32_768))  # type: ignore[misc]
    assert whole < 6 * quarter


def test_a_query_of_thousands_of_characters_without_blanks_is_quick(standing: Shelf) -> None:
    query = "".join(chr(0x4E00 + n % 20_000) for n in range(32_764)) + "喝茶咖啡"
    assert by_words(standing, query)[0] == "zh"


def test_all_are_filtered(standing: Shelf) -> None:
    assert standing.search_ids("keeper", subject="nobody") == []
    assert standing.search_ids("keeper", before=NOON) == []


def test_what_was_deleted_a_moment_ago_is_never_found(own: Shelf) -> None:
    for key in ("before", "gone", "after"):
        own.put(key, f"{key} the zeppelin {'landed' if key == 'gone' else ''}", thread="t")
    own.index()
    own.embed()
    memories.delete(own.tenant_id, own.ids["gone"])
    assert "gone" not in own.search_ids("zeppelin landed")
    assert by_words(own, "landed") == []  # the word is in no neighbour's context either


def test_what_is_not_embedded_yet_is_found_by_words_what_is_not_indexed_by_meaning(own: Shelf) -> None:
    own.put("words", "The zeppelin has landed")
    own.put("meaning", "An airship arrived")
    own.index("words")
    own.embed("meaning")
    assert set(own.search_ids("zeppelin landed")) == {"words", "meaning"}
    assert by_words(own, "zeppelin") == ["words"]


def test_a_vector_finds_by_meaning_and_words_beside_it_count_too(standing: Shelf) -> None:
    [row] = standing.rows(
        "SELECT CAST(CAST(embedding AS vector) AS real[]) FROM embeddings WHERE memory_id = :id",
        id=standing.ids["door"],
    )
    vector = [3 * float(number) for number in row[0]]
    [alone] = standing.search("", vector=vector, limit=1, explain=True)
    assert (alone.external_id, alone.explain and alone.explain["words"]) == ("door", 0)
    assert standing.search_ids("ferry", vector=vector)[:2] == ["istanbul", "door"]
    with pytest.raises(Invalid) as refused:
        standing.search("", vector=vector[:-1])
    [error] = refused.value.errors
    assert (error.field, error.value, error.limit) == ("vector", len(vector) - 1, len(vector))


def test_what_explains_a_result(own: Shelf) -> None:
    own.put("tea", "Orla drinks mint teas", thread="t")
    own.put("cup", "and breaks the cup", thread="t")
    own.put("far", "Nothing of note")
    own.index()
    own.embed()
    why = {result.external_id: result.explain or {} for result in own.search("Who drinks tea? 喝", explain=True)}
    assert why["tea"]["ranks"]["words"] == 1
    assert list(why["tea"]["matched"]) == ["drinks", "tea"]  # as the query spells them
    assert why["tea"]["near"] == {}
    assert why["cup"]["ranks"]["words"] == 2
    assert (why["cup"]["matched"], list(why["cup"]["near"])) == ({}, ["drinks", "tea"])
    assert why["cup"]["near"]["tea"] == pytest.approx(why["tea"]["matched"]["tea"])
    assert why["far"]["ranks"]["words"] is None
    assert sorted(found["ranks"]["relevance"] for found in why.values()) == [1, 2, 3]
    assert why["tea"]["vitals"].keys() == {"strength", "importance", "recency", "salience"}
    assert all(0 <= value <= 1 for value in why["tea"]["vitals"].values())
