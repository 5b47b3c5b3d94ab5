"""Keep the names of people out of texts that outlive an erasure, and redact such texts when a person is erased.

A text that certainly names the person of its request is refused when it is written. An erasure redacts the texts that
name the person all the same: in another spelling, misspelt, by an alias, or in the records of another request. The
names are the subject, and the speakers who occur only in memories about the subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from app.domain.privacy.case_details import check_nameless
from app.domain.privacy.erasure import is_whole
from app.domain.privacy.name_parts.finder import NamePartFinder
from app.domain.privacy.subject_names import NameFinder, contains_exactly, fold_name, spelling_variants
from app.store.core import database
from app.store.erasure.references import as_word
from app.store.erasure.requests import Erasure
from app.store.memories import subjects
from app.store.privacy import retained_texts
from app.store.privacy.retained_texts import RetainedText, TextPlace

WORDS_MAX: Final = 4
"""Maximum number of words of a name that is sought in texts after a restore."""
MENTIONS_MAX: Final = 50
"""Maximum number of texts with a part of a name that a report lists."""
FREQUENT_MIN: Final = 10
"""Number of texts that may contain a part of a name before the part can count as a frequent word."""
FREQUENT_SHARE: Final = 0.1
"""Share of all texts above which a part of a name is a frequent word. Texts with only frequent words aren't listed."""
NAMES_MAX: Final = 20_000
"""Maximum number of possible names, read from texts, that a restore compares with an entry of the ledger."""


def check_texts(tenant_id: UUID, subject: str | None, **texts: str | None) -> None:
    """Check that texts about a subject don't contain the subject's names.

    Raises:
        Invalid: A text contains a name.
    """
    if subject is not None:
        with database.tenant(tenant_id) as tx:
            check_within(tx, tenant_id, subject, **texts)


def check_within(tx: database.Transaction, tenant_id: UUID, subject: str | None, **texts: str | None) -> None:
    """Check texts like `check_texts`, within a transaction."""
    if subject is not None and any(texts.values()):
        check_nameless([subject, *retained_texts.find_aliases(tx, tenant_id, subject)], **texts)


def check_about(tenant_id: UUID, item_id: str, **texts: str | None) -> None:
    """Check texts about an erasure, an export, a legal hold or a memory; other items name no subject.

    Raises:
        Invalid: A text contains a name of the item's subject.
    """
    try:
        known_id = UUID(item_id)
    except ValueError:
        return
    with database.tenant(tenant_id) as tx:
        check_about_within(tx, tenant_id, known_id, **texts)


def check_about_within(tx: database.Transaction, tenant_id: UUID, item_id: UUID, **texts: str | None) -> None:
    """Check texts like `check_about`, within a transaction."""
    check_within(tx, tenant_id, retained_texts.find_subject(tx, tenant_id, item_id), **texts)


def find_aliases(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> list[str] | None:
    """Return the person's other names, found now or in an earlier pass; None unless the erasure covers a person."""
    subject = _erased_subject(erasure)
    if subject is None:
        return None
    return sorted({*retained_texts.find_aliases(tx, tenant_id, subject), *(erasure.aliases or ())})


def find_named(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> list[RetainedText]:
    """Return the retained texts that contain a name of the erased person; none unless the erasure covers a person.

    A text with the name as another stored subject is spelled, but not as the erased person is, is omitted:
    `find_possible` lists it. In a reason of a released hold on the person, a part of the name counts as the name, and
    short names and names of roles are looked for too.
    """
    subject = _erased_subject(erasure)
    if subject is None:
        return []
    names_of_person = [subject, *(erasure.aliases or ())]
    names, own = NameFinder(names_of_person), retained_texts.list_hold_texts(tx, tenant_id, subject)
    if not names and not own:
        return []
    namesakes = subjects.find_namesakes(tx, tenant_id, subject)
    texts = [
        each
        for each in retained_texts.list_texts(tx, tenant_id, erasure.erasure_id, subject, as_word(subject))
        if each.subject is None or not names.is_in(each.subject)  # omits a hold in force on this subject
    ]
    whole, finder = NameFinder([subject], every=True), NamePartFinder(names_of_person)
    found = [
        each
        for each in texts
        if (each.key in own and (names.is_in(each.text) or whole.is_in(each.text) or finder.find(each.text)))
        or (names.is_in(each.text) and not _means_namesake(each.text, subject, namesakes))
    ]
    others = {each: names.misspellings(each.text) for each in texts if each not in found}
    known = _known_names(tx, tenant_id, {word for words in others.values() for word in words})
    return [*found, *(each for each, words in others.items() if words - known)]


def redact_named(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> int:
    """Replace the texts that `find_named` returns with a standard sentence. Return their number."""
    found = find_named(tx, tenant_id, erasure)
    retained_texts.redact(tx, tenant_id, found)
    return len(found)


def find_possible(tenant_id: UUID, erasure: Erasure) -> dict[str, Any] | None:
    """Return the places of texts that contain a part of the erased person's names or a namesake, for the report.

    Such a text may mean another person, so an operator decides about it; it isn't redacted. Decisions from an earlier
    pass are retained.

    Returns:
        `texts`, at most `MENTIONS_MAX` places, and `more`, the number of further texts: those above the limit, and
        those that contain only parts that occur in very many texts. None if the erasure covers no person, or if the
        names have no parts and nobody has the same name in another spelling.
    """
    subject = _erased_subject(erasure)
    if subject is None:
        return None
    finder = NamePartFinder([subject, *(erasure.aliases or ())])
    with database.tenant(tenant_id) as tx:
        namesakes = subjects.find_namesakes(tx, tenant_id, subject)
        if not finder.parts and not namesakes:
            return None
        texts = retained_texts.list_texts(tx, tenant_id, erasure.erasure_id, subject, as_word(subject))
    found = {
        each.place: parts | named
        for each in texts
        for parts in [finder.find(each.text)]
        for named in [{each.key} if _means_namesake(each.text, subject, namesakes) else set()]
        if parts or named
    }
    tally = Counter(part for parts in found.values() for part in parts)
    frequent = {part for part, count in tally.items() if count > max(FREQUENT_MIN, len(texts) * FREQUENT_SHARE)}
    places = [place for place, parts in found.items() if parts - frequent][:MENTIONS_MAX]
    earlier = {_place(each): each for each in ((erasure.report or {}).get("mentions") or {}).get("texts", ())}
    listed = [earlier.get(place) or place._asdict() for place in places]
    return {"texts": listed, "more": len(found) - len(places)}


def _means_namesake(text: str, subject: str, namesakes: Collection[str]) -> bool:
    """Return True if a text contains the name only as subjects with another spelling of it are stored."""
    return contains_exactly(text, namesakes) and not contains_exactly(text, [subject])


def _place(mention: Mapping[str, Any]) -> TextPlace:
    return TextPlace(mention["table"], mention["column"], mention["key"])


class MentionText(NamedTuple):
    """A text that may mean an erased person, with its number in the erasure's report.

    Attributes:
        record_id: Id of the record; None for grounds of anonymised memories.
        text: The text; None if it was redacted or deleted.
        decision: `redact` or `keep`, by an operator; None while it isn't reviewed.
    """

    number: int
    table: str
    column: str
    record_id: str | None
    text: str | None
    decision: str | None


def read_mentions(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> list[MentionText]:
    """Return the texts that may mean an erased person, in the order of the erasure's report."""
    mentions = ((erasure.report or {}).get("mentions") or {}).get("texts", [])
    current = retained_texts.read_texts(tx, tenant_id, [_place(each) for each in mentions])
    return [
        MentionText(
            *(number, each["table"], each["column"], None if each["table"] == "anonymised" else each["key"]),
            known and known.text,
            each.get("decision"),
        )
        for number, each in enumerate(mentions, start=1)
        for known in [current.get(_place(each))]
    ]


def mark_gone(tx: database.Transaction, tenant_id: UUID, report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an erasure's report with the decision `gone` for texts that are deleted or replaced by another erasure."""
    mentions = report.get("mentions")
    if not mentions or all(each.get("decision") == "redact" for each in mentions["texts"]):
        return report
    current = retained_texts.read_texts(tx, tenant_id, [_place(each) for each in mentions["texts"]])
    texts = [
        each if each.get("decision") == "redact" or _place(each) in current else each | {"decision": "gone"}
        for each in mentions["texts"]
    ]
    return {**report, "mentions": mentions | {"texts": texts}}


def redact_mentions(tx: database.Transaction, tenant_id: UUID, mentions: Sequence[Mapping[str, Any]]) -> None:
    """Replace the texts at these entries of a report with a standard sentence."""
    current = retained_texts.read_texts(tx, tenant_id, [_place(each) for each in mentions])
    retained_texts.redact(tx, tenant_id, list(current.values()))


def possible_names(texts: Sequence[str]) -> Iterator[str]:
    """Yield up to `NAMES_MAX` possible names in texts: up to `WORDS_MAX` neighbouring words, in usual spellings."""
    yield from islice(_distinct(_spell_words(texts)), NAMES_MAX)


def _distinct(names: Iterator[str]) -> Iterator[str]:
    known: set[str] = set()
    for name in names:
        if name not in known:
            known.add(name)
            yield name


def _spell_words(texts: Sequence[str]) -> Iterator[str]:
    for text in dict.fromkeys(texts):
        words = [word.strip(".,;:!?()[]\"'") for word in text.split()]
        for start in range(len(words)):
            for end in range(start + 1, min(start + WORDS_MAX, len(words)) + 1):
                yield from spelling_variants(" ".join(words[start:end]))
        yield from spelling_variants(text)


def _erased_subject(erasure: Erasure) -> str | None:
    return erasure.scope.subject if is_whole(erasure.scope, "subject") else None


def _known_names(tx: database.Transaction, tenant_id: UUID, words: Collection[str]) -> set[str]:
    """Return the words that are the name of another subject, and therefore no misspelling."""
    variants = {variant for word in words for variant in spelling_variants(word)}
    known = {fold_name(each.subject) for each in subjects.count_memories(tx, tenant_id, sorted(variants))}
    return {word for word in words if fold_name(word) in known}
