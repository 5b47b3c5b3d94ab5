"""Decode a provider's responses from their bytes, validating every field against the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.ingest.json_input import precompile
from app.domain.prompts import tokens

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """Cost of calls in tokens.

    Attributes:
        calls: Number of billed responses.
        input_tokens: Tokens sent, including cached ones.
        cached_tokens: Input tokens that the provider had cached.
        output_tokens: Tokens generated.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


Spent = Callable[[Usage], object]
"""Callback that receives each call's usage."""


def unnoted(_: Usage) -> None:
    """Ignore a call's usage."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat model's response.

    Attributes:
        content: Text of the response; may be empty.
        problem: Reason why the response is incomplete (truncated or refused), or None.
        usage: Cost of the call.
    """

    content: str = field(repr=False)
    problem: Reason | None
    usage: Usage


class _Tokens(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: dict[str, Any] | None = None


class _Said(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Said
    finish_reason: str | None = None


@precompile
class _Chat(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]
    usage: _Tokens | None = None


class Vector(msgspec.Struct, frozen=True):
    """A vector as received: its index in the request, and its numbers, plain or as base64 of little-endian float32."""

    index: int
    embedding: str | list[float]


@precompile
class _Embeddings(msgspec.Struct, frozen=True):
    data: tuple[Vector, ...]
    usage: _Tokens | None = None


def read_chat(body: bytes, input_tokens: int) -> Reply:
    """Decode a chat response.

    Args:
        body: The response body.
        input_tokens: Estimated input tokens, used if the response has no usage.

    Raises:
        ProviderFailed: `GARBAGE` if the body isn't a chat response.
    """
    answer = _decoded(body, _Chat)
    if not answer.choices:
        raise ProviderFailed(Reason.GARBAGE, "no choices")
    choice = answer.choices[0]
    content = choice.message.content or ""
    return Reply(content, _problem(choice), _usage(answer.usage, input_tokens, tokens(content)))


def read_vectors(body: bytes, input_tokens: int) -> tuple[Sequence[Vector], Usage]:
    """Decode an embedding response into its vectors, as received, and the usage.

    Args:
        body: The response body.
        input_tokens: Estimated input tokens, used if the response has no usage.

    Raises:
        ProviderFailed: `GARBAGE` if the body isn't an embedding response.
    """
    answer = _decoded(body, _Embeddings)
    return answer.data, _usage(answer.usage, input_tokens, 0)


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError:
        detail = "out of shape"
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        detail = "not JSON"
    raise ProviderFailed(Reason.GARBAGE, detail)


def _problem(choice: _Choice) -> Reason | None:
    if choice.finish_reason == "length":
        return Reason.TRUNCATED
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return Reason.REFUSED
    return None


def _usage(given: _Tokens | None, sent: int, answered: int) -> Usage:
    """Return the usage reported by the provider, otherwise an estimate."""
    if given is None:
        return Usage(1, sent, 0, answered)
    cached = (given.prompt_tokens_details or {}).get("cached_tokens")
    return Usage(
        1,
        max(given.prompt_tokens, 0),
        max(cached, 0) if isinstance(cached, int) else 0,
        max(given.completion_tokens, 0),
    )
