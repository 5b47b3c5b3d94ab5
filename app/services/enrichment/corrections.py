"""Link a user's statements to the earlier statements that they correct.

Rules detect corrections in English texts when a memory is indexed or edited. The only effect is a link, by
which a search ranks the current statement above the outdated one (`domain.search.correction_order`); nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from typing import Final
from uuid import UUID

from app.domain.corrections import (
    EarlierStatement,
    ParsedStatement,
    find_corrections,
    may_correct,
    parse_statement,
    rarity,
)
from app.domain.corrections.stems import stem
from app.domain.ingest.roles import speaker_name
from app.domain.ingest.sources import is_lower
from app.domain.policy.policy import Policy
from app.services.enrichment import texts
from app.services.enrichment.texts import Texts
from app.store.core import database
from app.store.enrichment import corrections, word_index
from app.store.enrichment.complete_texts import CompleteText
from app.store.enrichment.corrections import CorrectionInput, CorrectionProbe
from app.store.memories import provenance
from app.store.tenants import policies

WINDOW: Final = 2_000
"""Number of memories per subject searched for corrected statements, counted back from the newest correcting one."""
EARLIER_MOST: Final = 40
"""Maximum number of earlier memories parsed for each later memory; all of them share a rare word with it."""
LEXEMES_MOST: Final = 12
"""Maximum number of a later memory's words, rarest first, used to look up earlier memories that share any of them."""
COMMON_SHARE: Final = 0.2
"""Words in more than this share of a tenant's memories are too common to identify a topic."""
SMALL_TENANT: Final = 50
"""Words in at most this many memories are never too common."""
_USERS: Final = frozenset({None, "user"})


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """A memory that states a change."""

    said: CorrectionInput
    statement: ParsedStatement


@dataclass(frozen=True, slots=True)
class ExaminedMemories:
    """Memories examined for corrections.

    Attributes:
        memory_ids: All examined memories.
        given: The examined memories that callers sent and whose texts can be read.
        later: The examined memories in which a user states a change.
        since: Time of the earliest examined memory with a user's statement, by subject.
        to_mark: Memories whose stored flag `says_change` differs, or whose texts can't be read.
    """

    memory_ids: Sequence[UUID]
    given: list[CompleteText]
    later: list[ChangeStatement]
    since: dict[str | None, datetime]
    to_mark: Collection[UUID]


def examine_memories(memory_ids: Sequence[UUID], read_texts: Texts, policy: Policy) -> ExaminedMemories:
    """Find new or edited memories that state a change.

    Args:
        read_texts: Texts of these memories, without deleted and cold ones.
    """
    if not policy.supersession.corrections or policy.language != "english" or not memory_ids:
        return ExaminedMemories(memory_ids, [], [], {}, ())
    from_callers = [memory for memory in read_texts.memories if memory.is_given]
    screened = compress(read_texts.memories, read_texts.screened.corrections)
    later = _change_statements([_as_said(memory) for memory in screened if memory.is_given and memory.role in _USERS])
    since = _memories_since([memory for memory in from_callers if memory.role in _USERS])
    to_mark = _list_to_mark(memory_ids, read_texts, [change.said.memory_id for change in later])
    return ExaminedMemories(memory_ids, from_callers, later, since, to_mark)


def _list_to_mark(memory_ids: Sequence[UUID], read_texts: Texts, saying: Sequence[UUID]) -> set[UUID]:
    marked = [memory.memory_id for memory in read_texts.memories if memory.says_change]
    if len(read_texts.memories) < len(memory_ids):
        marked += set(memory_ids).difference(memory.memory_id for memory in read_texts.memories)
    return set(saying).symmetric_difference(marked)


def mark(tx: database.Transaction, tenant_id: UUID, examined: ExaminedMemories) -> None:
    """Update the flags `says_change` that differ; the caller has locked the memories' rows, but not yet their words."""
    if examined.to_mark:
        saying = [change.said.memory_id for change in examined.later]
        corrections.mark_changes(tx, tenant_id, sorted(examined.to_mark), saying)


def link_corrections(tx: database.Transaction, tenant_id: UUID, examined: ExaminedMemories) -> None:
    """Add links for the corrections that these memories make or receive, and delete links that no longer apply.

    Call this after indexing the memories' words, in the same transaction: the lock on the words ensures that of two
    memories indexed concurrently, the second sees the first. Two memories are compared only if one states a change.
    """
    if not examined.memory_ids:
        return
    are_linked = corrections.has_corrections(tx, tenant_id)
    concerned = corrections.list_concerned(tx, tenant_id, examined.memory_ids, examined.since, are_linked=are_linked)
    concerned_statements = (
        [memory for memory in corrections.read(tx, tenant_id, concerned) if _is_users(memory)] if concerned else []
    )
    later = [*examined.later, *_change_statements(concerned_statements)] if examined.since else []
    pairs = _pairs(tx, tenant_id, later, examined.given) if later else []
    corrections.replace_corrections(tx, tenant_id, examined.memory_ids, concerned, pairs, are_linked=are_linked)


def refresh_corrections(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], policy: Policy | None = None
) -> None:
    """Examine and link memories whose rows are locked and whose words are already indexed.

    Args:
        memory_ids: Memories whose text, thread or subject has changed; may be empty.
        policy: The tenant's policy; None reads it from the database.
    """
    if memory_ids:
        policy = policy or policies.read_current(tx, tenant_id)
        examined = examine_memories(memory_ids, texts.read(tx, tenant_id, memory_ids), policy)
        mark(tx, tenant_id, examined)
        link_corrections(tx, tenant_id, examined)


def _is_users(said: CorrectionInput) -> bool:
    """Return True for a user's statement; statements by other roles neither correct others nor are corrected."""
    return said.role in _USERS


def _change_statements(given: Sequence[CorrectionInput]) -> list[ChangeStatement]:
    parsed = [ChangeStatement(memory, parse_statement(memory.text)) for memory in given if may_correct(memory.text)]
    return [change for change in parsed if change.statement.says_change]


def _as_said(read: CompleteText) -> CorrectionInput:
    return CorrectionInput(read.memory_id, read.text, read.subject, read.speaker, read.moment, read.seq, read.role)


def _memories_since(given: Sequence[CompleteText]) -> dict[str | None, datetime]:
    since: dict[str | None, datetime] = {}
    for memory in given:
        if memory.subject not in since or memory.moment < since[memory.subject]:
            since[memory.subject] = memory.moment
    return since


def _pairs(
    tx: database.Transaction, tenant_id: UUID, later: Sequence[ChangeStatement], beside: Sequence[CompleteText]
) -> list[tuple[UUID, UUID]]:
    """Return the corrections stated in the later memories, as pairs of the later and the corrected memory's id.

    A memory doesn't correct a memory with a higher source.
    """
    spellings = sorted({word for change in later for word in change.statement.spellings_beside})
    terms, total = word_index.count_terms(tx, tenant_id, "", spellings, "english")
    lexemes: dict[str, list[str]] = {}
    documents: dict[str, int] = {}
    for term in terms:
        if term.spelling is not None:
            lexemes.setdefault(term.spelling, []).append(term.lexeme)
            documents[term.spelling] = max(documents.get(term.spelling, 0), term.documents)
    probes = [
        CorrectionProbe(change.said, rare_lexemes)
        for change in later
        if (rare_lexemes := _rarest(change.statement.spellings, lexemes, documents, total))
    ]
    if not probes:
        return []
    earlier_by_later: dict[UUID, list[EarlierStatement]] = {}
    speakers = {change.said.memory_id: speaker_name(change.said.speaker) for change in later}
    parsed: dict[UUID, ParsedStatement] = {}
    preceding_ids = _preceding_ids(probes, beside)
    for later_id, earlier in corrections.find_earlier(
        tx, tenant_id, probes, preceding_ids, window=WINDOW, most=EARLIER_MOST
    ):
        if _is_users(earlier) and speaker_name(earlier.speaker) == speakers[later_id]:
            if earlier.memory_id not in parsed:
                parsed[earlier.memory_id] = parse_statement(earlier.text)
            earlier_by_later.setdefault(later_id, []).append(
                EarlierStatement(earlier.memory_id, parsed[earlier.memory_id])
            )
    rarities = _rarities(documents, total)
    pairs = [
        (change.said.memory_id, correction.corrected_id)
        for change in later
        for correction in find_corrections(change.statement, earlier_by_later.get(change.said.memory_id, []), rarities)
    ]
    sources = provenance.read_sources(tx, tenant_id, sorted({end for pair in pairs for end in pair})) if pairs else {}
    return [pair for pair in pairs if not is_lower(sources.get(pair[0]), sources.get(pair[1]))]


def _preceding_ids(probes: Sequence[CorrectionProbe], beside: Sequence[CompleteText]) -> list[UUID]:
    """Return the memories in `beside` that precede a later memory with the same subject."""
    latest: dict[str | None, tuple[datetime, int]] = {}
    for said in (probe.said for probe in probes):
        latest[said.subject] = max(latest.get(said.subject, (said.moment, said.seq)), (said.moment, said.seq))
    return [
        memory.memory_id
        for memory in beside
        if memory.subject in latest and (memory.moment, memory.seq) < latest[memory.subject]
    ]


def _rarest(
    spellings: frozenset[str], lexemes: Mapping[str, Sequence[str]], documents: Mapping[str, int], total: int
) -> list[str]:
    """Return the lexemes of the rarest of these words that occur in at least two memories and aren't too common."""
    most = max(SMALL_TENANT, COMMON_SHARE * total)
    shared = [word for word in spellings if 1 < documents.get(word, 0) <= most]
    rarest = sorted(shared, key=lambda word: (documents[word], word))[:LEXEMES_MOST]
    return list(dict.fromkeys(lexeme for word in rarest for lexeme in lexemes[word]))


def _rarities(documents: Mapping[str, int], total: int) -> dict[str, float]:
    """Return the rarity of each stem, which is the rarity of its most common spelling."""
    documents_by_stem: dict[str, int] = {}
    for word, count in documents.items():
        documents_by_stem[stem(word)] = max(documents_by_stem.get(stem(word), 0), count)
    return {stemmed: rarity(count, total) for stemmed, count in documents_by_stem.items()}
