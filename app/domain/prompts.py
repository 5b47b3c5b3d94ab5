"""Build chat prompts that contain untrusted texts, and decode the model's answers; shared by all prompts.

A memory's text may try to instruct the model. It is sent as a one-line JSON string inside a block whose markers are
random per request, so the text can neither close the block nor start another entry. Ids in a request derive from the
same random bytes, so a text cannot predict the id of another memory.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypedDict, TypeVar
from uuid import UUID

import msgspec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DELIMITER_BYTES: Final = 16

_BYTES_A_TOKEN = 4
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029", "\x7f": "\\u007f"})
_DELIMITER = re.compile(r"EBB-[0-9a-f]{16,60}")


class PromptMessage(TypedDict):
    """A chat message."""

    role: str
    content: str


class Unusable(Exception):
    """An answer that cannot be attributed to the request, or that failed a check.

    The message is a fixed phrase and never contains text of the answer.
    """


@dataclass(frozen=True, slots=True)
class Prompt(Generic[T_co]):
    """A request to a chat model, and the validation of its answer.

    Attributes:
        messages: Builds the chat, given the request's `delimiter`, which must never be reused.
        schema: JSON schema of the answer.
        tokens_max: Token limit for the answer.
        read: Returns the result from an answer and the delimiter, or raises `Unusable`.
        truncated: Detail of the error if the answer ends at the token limit.
    """

    messages: Callable[[str], list[PromptMessage]]
    schema: Mapping[str, Any]
    tokens_max: int
    read: Callable[[str, str], T_co]
    truncated: str = ""


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def tokens(text: str) -> int:
    """Estimate the number of tokens: the UTF-8 bytes divided by 4, rounded up."""
    return -(-len(text.encode()) // _BYTES_A_TOKEN)


def clip(text: str, bytes_max: int) -> str:
    """Truncate a text to a number of UTF-8 bytes, ending with `…` if anything was cut."""
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    return encoded[: max(bytes_max - len("…".encode()), 0)].decode(errors="ignore") + "…"


def split_batches(items: Sequence[T], cost: Callable[[T], int], tokens_max: int, items_max: int) -> Iterator[list[T]]:
    """Split items, in order, into batches that fit one call each; an item over the budget forms its own batch.

    Args:
        items: Any number.
        cost: Returns an item's tokens.
        tokens_max: Token budget of one call, 1 or more.
        items_max: Maximum number of items per call, 1 or more.
    """
    batch: list[T] = []
    spent = 0
    for item in items:
        item_tokens = cost(item)
        if batch and (len(batch) >= items_max or spent + item_tokens > tokens_max):
            yield batch
            batch, spent = [], 0
        batch.append(item)
        spent += item_tokens
    if batch:
        yield batch


def delimiter(random: bytes) -> str:
    """Return a request's block marker from `DELIMITER_BYTES` random bytes (8 to 30 are accepted)."""
    return f"EBB-{random.hex()}"


def handle(memory_id: UUID, mark: str) -> str:
    """Return a memory's id within one request: 8 hex digits that cannot be predicted without the mark."""
    return hashlib.blake2b(memory_id.bytes, key=mark.encode(), digest_size=4).hexdigest()


def chat(system: str, heading: str, data: Sequence[Mapping[str, object]], mark: str, task: str) -> list[PromptMessage]:
    """Build a chat: the instructions, then the data in a block between two marker lines, then the task.

    Args:
        system: The instructions, which contain no text of a memory.
        heading: Counts the entries, such as `Memories: 3`.
        data: The entries, one JSON object per line, with any occurrence of the mark escaped.
        mark: The `delimiter` of this request; never reuse one.
        task: Repeats the request after the block.

    Raises:
        ValueError: The mark was not made by `delimiter`.
    """
    if not _DELIMITER.fullmatch(mark):
        raise ValueError("the mark must be created by `delimiter`")
    lines = "\n".join(_line(entry, mark) for entry in data)
    block = f"{mark} BEGIN\n{lines}\n{mark} END"
    content = f"{heading}. The block begins and ends with the line that holds {mark}.\n{block}\n{task}"
    return [{"role": "system", "content": system}, {"role": "user", "content": content}]


def _line(data: Mapping[str, object], mark: str) -> str:
    line = json.dumps(data, ensure_ascii=False)
    # The mark starts with a capital letter, which no JSON escape contains, so escaping it cannot break another escape.
    return line.translate(_LINE_ENDS).replace(mark, f"\\u{ord(mark[0]):04x}{mark[1:]}")


def closed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def listed(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an array."""
    return {"type": "array", "items": items}


def decode(answer: str, decoder: msgspec.json.Decoder[T], characters_max: int) -> T:
    """Decode an answer into the requested structure.

    Raises:
        Unusable: The answer is too long, not JSON, or doesn't match the structure.
    """
    if len(answer) > characters_max:
        raise Unusable("too long")
    try:
        return decoder.decode(answer)
    except msgspec.ValidationError:
        raise Unusable("out of shape") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Unusable("not JSON") from None


def in_order(items: Sequence[N], count: int) -> list[N]:
    """Return an answer's items in the order of their ids.

    Raises:
        Unusable: The ids aren't exactly the numbers from 1 to `count`.
    """
    if len(items) != count:
        raise Unusable("wrong count")
    ordered = sorted(items, key=lambda item: item.id)
    if [item.id for item in ordered] != list(range(1, count + 1)):
        raise Unusable("wrong id")
    return ordered
