"""Write the answers to a privacy request: confirmation of receipt, extension, refusal, completion (also partial)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args
from uuid import UUID

from app.domain.privacy.documents import html
from app.domain.privacy.documents.texts import ENGLISH, Texts
from app.domain.privacy.requests import Nature, PrivacyRequest
from app.errors import Conflict

LetterKind = Literal["acknowledgement", "extension", "refusal", "completion", "partial"]

LETTERS: Final[tuple[LetterKind, ...]] = get_args(LetterKind)
NOT_HELD: Final = "this letter is only for an erasure that is delayed by a legal hold: this request has no such erasure"
_MISSING: Final[dict[LetterKind, str]] = {
    "acknowledgement": "this request is already answered: send its answer instead",
    "extension": "this request has no extension: record the extension first",
    "refusal": "this request isn't denied: record the denial first",
    "completion": "this request isn't completed: record the completion first",
    "partial": NOT_HELD,
}
WAITS: Final = (
    "the erasure waits for the release of a legal hold: send the letter `partial`, which states what was erased and "
    "what is retained on which ground; the request is answered when the hold is released"
)
ERASING: Final = "the erasure isn't finished: finishing it answers this request and permits the letter `completion`"
_SEARCHED: Final[tuple[Nature, ...]] = ("erasure", "access", "portable")
"""Natures of requests that are answered by searching all systems for the requester's data."""


@dataclass(frozen=True, slots=True)
class HeldMemories:
    """The memories that a legal hold retains; `ground` is its ground in words, or None."""

    hold_id: UUID
    placed_at: datetime
    memories: int
    ground: str | None


@dataclass(frozen=True, slots=True)
class PartialErasure:
    """An erasure that legal holds delay.

    Attributes:
        memories: Number of memories erased by all passes.
        finished_at: End of the last pass.
    """

    memories: int
    finished_at: datetime | None
    held: Sequence[HeldMemories]


@dataclass(frozen=True, slots=True)
class OpenErasure:
    """Another unfinished erasure with the same case reference; `status` is `grace`, `running` or `held`."""

    erasure_id: UUID
    status: str
    erase_after: datetime


@dataclass(frozen=True, slots=True)
class ErasureFacts:
    """Facts about erasures that the answers to a request for erasure state.

    Attributes:
        has_report: Whether an erasure in this service answers the request; its report is enclosed.
        is_empty: Whether the finished erasure found no data in its scope.
        covers_person: Whether the scope of the erasure is all data about one person.
        similar: Number of memories under another spelling of the person's name, which the erasure didn't cover.
        reviews: Number of texts with a part of the person's name that still have to be reviewed.
        others: Other unfinished erasures with the case reference of the request.
        partial: The request's erasure, if legal holds delay it; otherwise None.
    """

    has_report: bool = False
    is_empty: bool = False
    covers_person: bool = False
    similar: int = 0
    reviews: int = 0
    others: Sequence[OpenErasure] = ()
    partial: PartialErasure | None = None

    @property
    def is_open(self) -> bool:
        """True if work remains after the erasure."""
        return bool(self.reviews or self.others)


NO_ERASURE: Final = ErasureFacts()


def possible_letters(request: PrivacyRequest, *, is_held: bool = False) -> list[LetterKind]:
    """Return the letters that can be written about a request in its current state.

    Args:
        is_held: Whether a legal hold delays the request's erasure.
    """
    return [letter for letter in LETTERS if _is_possible(letter, request, is_held=is_held)]


def describe_ground(law: str, ground: str | None, texts: Texts) -> str | None:
    """Return the ground of a legal hold in words, under the GDPR with its article."""
    if ground is None:
        return None
    words = texts.text(f"ground.{ground}")
    return f"{words} ({texts.text(f'ground.gdpr.{ground}')})" if law == "gdpr" else words


def _is_possible(letter: LetterKind, request: PrivacyRequest, *, is_held: bool) -> bool:
    match letter:
        case "acknowledgement":
            return request.answer is None
        case "extension":
            return request.extended_at is not None
        case "refusal":
            return request.answer == "denied"
        case "completion":
            return request.answer == "done"
        case "partial":
            return request.answer is None and is_held


def letter_lines(
    letter: LetterKind,
    request: PrivacyRequest,
    texts: Texts = ENGLISH,
    erasure: ErasureFacts = NO_ERASURE,
) -> list[str]:
    """Return the paragraphs of a letter, from the greeting to the closing.

    Raises:
        Conflict: The request isn't in the state that the letter is about.
    """
    partial = erasure.partial
    if not _is_possible(letter, request, is_held=partial is not None):
        if letter == "completion" and partial is None and erasure.has_report and request.answer is None:
            raise Conflict(ERASING)
        raise Conflict(_MISSING[letter] if partial is None or letter == "extension" else WAITS)
    key, law = f"answer.{letter}", request.law
    opening = texts.text(
        f"{key}.received",
        nature=texts.text(f"nature.{request.nature}"),
        law=texts.text(f"law.{law}"),
        received_at=texts.day(request.received_at),
    )
    lines = [texts.text("answer.greeting"), opening]
    match letter:
        case "acknowledgement":
            due = f"{key}.due" if request.due_at else f"{key}.due_none"
            lines.append(texts.text(due, due_at=texts.day(request.due_at)))
            checked = texts.day(request.identity_checked_at)
            identity = "identity_done" if request.identity_checked_at else "identity_open"
            process = "process_search" if request.nature in _SEARCHED else "process_other"
            lines += [texts.text(f"{key}.{identity}", checked_at=checked), texts.text(f"{key}.{process}")]
        case "extension":
            days = {name: texts.day(getattr(request, name)) for name in ("first_due_at", "due_at")}
            reason = texts.text(f"{key}.reason", reason=request.extension_reason)
            lines += [texts.text(f"{key}.extended", **days), reason]
        case "refusal":
            lines += [texts.text(f"{key}.refused"), texts.text(f"{key}.basis", basis=request.basis)]
        case "completion":
            lines += _describe_completion(request, erasure, texts)
        case "partial":
            lines += _describe_partial(partial, texts) if partial else []
            lines += _describe_open(erasure, texts)
    lines += [texts.text(f"{key}.{part}_{law}") for part in ("law", "complaint") if f"{key}.{part}_{law}" in texts]
    return [*lines, texts.text("answer.closing")]


def _describe_partial(partial: PartialErasure, texts: Texts) -> list[str]:
    key, blank = "answer.partial", texts.text("answer.blank")
    finished_at = texts.day(partial.finished_at)
    erased = texts.count(f"{key}.erased", partial.memories, finished_at=finished_at)
    retained = [
        texts.count(
            f"{key}.retained",
            each.memories,
            hold=each.hold_id,
            placed_at=texts.day(each.placed_at),
            ground=each.ground or blank,
        )
        for each in partial.held
    ]
    rest = "rest" if len(partial.held) == 1 else "rest_several"
    erased = erased if partial.memories else texts.text(f"{key}.erased_none")
    return [erased, *retained, texts.text(f"{key}.hidden"), texts.text(f"{key}.{rest}")]


def _describe_completion(request: PrivacyRequest, erasure: ErasureFacts, texts: Texts) -> list[str]:
    key, is_open = "answer.completion", request.nature == "erasure" and erasure.is_open
    empty = "empty" if erasure.covers_person else "empty_part"
    outcome = empty if erasure.is_empty else request.nature
    done = f"{key}.done_{outcome}{'_report' * erasure.has_report}{'_open' * is_open}"
    lines = [texts.text(done, answered_at=texts.day(request.answered_at))]
    if request.nature == "access" and f"{key}.access_{request.law}" in texts:
        lines.append(texts.text(f"{key}.access_{request.law}", blank=texts.text("answer.blank")))
    if is_open:
        lines += _describe_open(erasure, texts)
    if erasure.similar:
        lines.append(texts.count(f"{key}.similar", erasure.similar))
    return lines


def _describe_open(erasure: ErasureFacts, texts: Texts) -> list[str]:
    """Return a paragraph about the texts that await a review, and one about each other erasure of the case."""
    reviews = [texts.count("answer.open.reviews", erasure.reviews)] if erasure.reviews else []
    return reviews + [
        texts.text(f"answer.open.{each.status}", erasure_id=each.erasure_id, erase_after=texts.moment(each.erase_after))
        for each in erasure.others
    ]


def _head(request: PrivacyRequest, at: datetime, texts: Texts) -> dict[str, str]:
    blank = texts.text("answer.blank")
    return {
        texts.text("answer.controller"): request.controller or blank,
        texts.text("answer.recipient"): texts.text("answer.recipient_blank"),
        texts.text("answer.date"): texts.day(at),
        texts.text("answer.case_reference"): request.case_reference or blank,
        texts.text("answer.request_id"): str(request.request_id),
    }


def render_letter_text(
    letter: LetterKind,
    request: PrivacyRequest,
    at: datetime,
    texts: Texts = ENGLISH,
    erasure: ErasureFacts = NO_ERASURE,
) -> str:
    """Return a letter as plain text, with blanks for the requester's name and address.

    Args:
        at: Date of the letter.

    Raises:
        Conflict: The request isn't in the state that the letter is about.
    """
    lines = letter_lines(letter, request, texts, erasure)
    head = "\n".join(f"{name}: {value}" for name, value in _head(request, at, texts).items())
    sign = f"{texts.text('answer.blank')}\n{texts.text('answer.signature')}"
    return "\n\n".join([head, texts.text(f"answer.{letter}.title"), *lines, sign]) + "\n"


def render_letter_page(
    letter: LetterKind,
    request: PrivacyRequest,
    at: datetime,
    texts: Texts = ENGLISH,
    erasure: ErasureFacts = NO_ERASURE,
) -> str:
    """Return a letter as a printable page, with blanks for the requester's name and address.

    Raises:
        Conflict: The request isn't in the state that the letter is about.
    """
    title = texts.text(f"answer.{letter}.title")
    body = "".join(map(html.paragraph, letter_lines(letter, request, texts, erasure)))
    sign = html.pairs(texts, {texts.text("answer.signature"): ""})
    return html.page(
        texts,
        f"{title} {request.case_reference or request.request_id}",
        f'<section class="letter">{html.pairs(texts, _head(request, at, texts), "box")}{html.heading(title, 1)}{body}'
        f'<section class="sign">{sign}</section></section>',
    )
