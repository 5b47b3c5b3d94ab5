"""Call a model provider over OpenAI's protocol: requests, responses, and the classification of failures.

The `openai` package only sends the requests: its retries, redirects and environment variables are disabled. Responses
are decoded from their bytes (`responses.py`) because the package doesn't validate them. Its errors never leave this
module, because their messages may quote the request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import openai

from app.clients.llm import egress, responses
from app.clients.llm.resilience import (
    Backoff,
    Breaker,
    Clock,
    ProviderFailed,
    Reason,
    Retries,
    Slots,
)
from app.clients.llm.responses import Reply, Usage, Vector
from app.clients.retry_after import retry_after_seconds
from app.domain.prompts import PromptMessage, tokens
from app.domain.server_urls import check_http_url
from app.errors import Misconfigured
from app.settings import MIB, Settings

CHAT_ANSWER_MAX_BYTES: Final = MIB
"""Ratings and summaries take kilobytes; only the vectors of a batch take megabytes."""
LARGEST_DIMENSIONS: Final = 4096
"""Dimensions of the largest common models: a tenant's model, or its own size, may exceed the settings."""
NUMBER_BYTES: Final = 32
"""Size of a vector's number: a double in JSON has up to 24 characters, and a comma and white space follow it."""
_CHAT_PATH: Final = "/chat/completions"
NO_KEY: Final = "none"
"""API key to send if none is configured, as for a self-hosted server."""

_BY_STATUS: Final = {
    400: Reason.BAD_REQUEST,
    401: Reason.NOT_AUTHORISED,
    402: Reason.OUT_OF_QUOTA,
    403: Reason.NOT_AUTHORISED,
    404: Reason.NOT_FOUND,
    408: Reason.TIMEOUT,
    409: Reason.SERVER_ERROR,
    413: Reason.TOO_LARGE,
    425: Reason.SERVER_ERROR,
    429: Reason.RATE_LIMITED,
}
_BY_CODE: Final = {
    "insufficient_quota": Reason.OUT_OF_QUOTA,
    "context_length_exceeded": Reason.TOO_LARGE,
    "string_above_max_length": Reason.TOO_LARGE,
    "content_filter": Reason.REFUSED,
    "content_policy_violation": Reason.REFUSED,
}
_TOO_LONG_WORDS = ("maximum context length", "maximum input length", "too many tokens", "context size")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits for one response.

    Attributes:
        timeout_seconds: Timeout of a call, from connecting to the last byte; also the maximum wait for a free slot.
        tries: Maximum number of calls.
        wait_max_seconds: Maximum total wait between calls.
    """

    timeout_seconds: float
    tries: int = 1
    wait_max_seconds: float = 0.0


class Provider:
    """One provider with its connections and breakers; one object per process, thread-safe.

    Chat and embeddings have separate breakers because their models fail independently; they share the concurrency
    limit.

    Args:
        base_url: Base URL up to and including `/v1`.
        allowed: Allowed hosts, including the base URL's.
        slots: Maximum number of concurrent calls.
        vectors_max_bytes: Maximum size of a response with vectors.
        breaker: Creates a closed breaker.
        backoff: Wait times between attempts.
        sleep: Sleep function, in seconds.
        now: Clock in seconds since 1970, for `Retry-After` dates.

    Raises:
        Misconfigured: The base URL is invalid or its host isn't allowed.
    """

    def __init__(  # noqa: PLR0913 - one limit or rule each, by name
        self,
        base_url: str,
        api_key: str,
        allowed: egress.Allowed,
        *,
        slots: int = 4,
        vectors_max_bytes: int = 32 * MIB,
        breaker: Callable[[], Breaker] = lambda: Breaker(failures=5, open_seconds=30),
        backoff: Backoff | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Clock = time.time,
    ) -> None:
        _check(base_url, allowed)
        self._http = egress.client(
            allowed,
            timeout_seconds=60,
            answer_max_bytes=vectors_max_bytes,
            less_by_path={_CHAT_PATH: CHAT_ANSWER_MAX_BYTES},
            connections=slots,
        )
        self._openai = openai.OpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            http_client=self._http,
            # Passed explicitly, so that no environment variable can replace the key or the headers.
            default_headers={"Authorization": f"Bearer {api_key}"},
        )
        # Accessed here because the package imports these lazily, which isn't thread-safe.
        self._chats = self._openai.chat.completions.with_raw_response
        self._embeddings = self._openai.embeddings.with_raw_response
        self._slots = Slots(slots)
        self._breakers = {"chat": breaker(), "vectors": breaker()}
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._now = now

    @classmethod
    def from_settings(cls, settings: Settings) -> Provider:
        """Create the provider from the settings.

        Raises:
            Misconfigured: The settings are invalid.
        """
        url = settings.provider_url
        key = settings.openai_api_key
        hosts = settings.llm_hosts or frozenset({urlsplit(url).hostname or ""})
        return cls(
            url,
            key.get_secret_value() if key else NO_KEY,
            egress.Allowed(frozenset(host.lower() for host in hosts), settings.llm_private_addresses),
            slots=settings.llm_concurrency,
            vectors_max_bytes=_vectors_max_bytes(settings.embed_batch_memories, settings.embedding_dimensions),
            breaker=lambda: Breaker(settings.llm_breaker_failures, settings.llm_breaker_seconds),
        )

    def close(self) -> None:
        """Close the connections; the object is unusable afterwards."""
        self._openai.close()

    def health(self) -> dict[str, str]:
        """Return the state of each breaker, `closed`, `open` or `half_open`, by `chat` and `vectors`."""
        return {name: breaker.state for name, breaker in self._breakers.items()}

    def open_seconds(self, purpose: str) -> float:
        """Return the seconds for which the breaker of `chat` or `vectors` stays open; 0 unless it is open."""
        return self._breakers[purpose].open_seconds

    def chat(
        self,
        model: str,
        messages: Sequence[PromptMessage],
        *,
        schema: Mapping[str, Any],
        tokens_max: int,
        patience: Patience,
    ) -> Reply:
        """Call a chat model for a JSON response that follows a schema.

        Args:
            model: The model's name at the provider.
            schema: JSON schema of the response.
            tokens_max: Maximum tokens of the response.

        Raises:
            ProviderFailed: There was no response, or it doesn't follow the protocol.
        """

        def ask() -> Reply:
            raw = self._chats.create(
                model=model,
                messages=cast("Any", list(messages)),
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)},
                },
                max_completion_tokens=tokens_max,
                timeout=patience.timeout_seconds,
            )
            return responses.read_chat(
                raw.http_response.content, sum(tokens(message["content"]) for message in messages)
            )

        return self._run("chat", ask, patience)

    def vectors(
        self, model: str, texts: Sequence[str], *, dimensions: int | None, patience: Patience
    ) -> tuple[Sequence[Vector], Usage]:
        """Call an embedding model; return the vectors as received and in the received order, and the usage.

        Args:
            model: The model's name at the provider.
            texts: Non-empty texts.
            dimensions: Requested dimensions; None omits the parameter.

        Raises:
            ProviderFailed: There was no response, or it doesn't follow the protocol.
        """

        def ask() -> tuple[Sequence[Vector], Usage]:
            raw = self._embeddings.create(
                model=model,
                input=list(texts),
                encoding_format="base64",
                dimensions=dimensions if dimensions is not None else openai.omit,
                timeout=patience.timeout_seconds,
            )
            return responses.read_vectors(raw.http_response.content, sum(map(tokens, texts)))

        return self._run("vectors", ask, patience)

    def _run(self, purpose: str, ask: Callable[[], T], patience: Patience) -> T:
        breaker = self._breakers[purpose]
        retries = Retries(patience.tries, patience.wait_max_seconds, self._backoff, self._sleep)

        def one_try() -> T:
            return self._slots.run(lambda: breaker.run(lambda: self._asked(ask)), patience.timeout_seconds)

        return retries.run(one_try)

    def _asked(self, ask: Callable[[], T]) -> T:
        """Make one call, translating failures into `ProviderFailed`.

        The failure is raised outside the handler, so that the original error, which may quote a text, isn't attached as
        its context.
        """
        try:
            return ask()
        except ProviderFailed:
            raise
        except egress.HostRefused as error:
            failure = ProviderFailed(Reason.HOST_REFUSED, str(error))
        except egress.AnswerRefused as error:
            failure = ProviderFailed(Reason.GARBAGE, str(error))
        except openai.APIStatusError as error:
            failure = _by_status(error, self._now())
        except (openai.APITimeoutError, httpx2.TimeoutException):
            failure = ProviderFailed(Reason.TIMEOUT)
        except (openai.APIConnectionError, httpx2.TransportError):
            failure = ProviderFailed(Reason.UNREACHABLE)
        raise failure


def _vectors_max_bytes(texts: int, dimensions: int) -> int:
    """Return the maximum size of a response with a batch's vectors, which are plain numbers at some servers."""
    return max(MIB, texts * max(dimensions, LARGEST_DIMENSIONS) * NUMBER_BYTES)


def _by_status(error: openai.APIStatusError, now: float) -> ProviderFailed:
    status = error.status_code
    reason = _BY_CODE.get(error.code or "") or _BY_STATUS.get(status)
    if reason is None:
        reason = Reason.SERVER_ERROR if status >= 500 else Reason.BAD_REQUEST if status >= 400 else Reason.REDIRECTED
    if reason is Reason.BAD_REQUEST and any(words in str(error).lower() for words in _TOO_LONG_WORDS):
        reason = Reason.TOO_LARGE
    requested_wait = retry_after_seconds(error.response.headers, now) if status == 429 or status >= 500 else None
    return ProviderFailed(reason, "", status, requested_wait)


def _check(base_url: str, allowed: egress.Allowed) -> None:
    try:
        check_http_url(base_url)
    except ValueError as error:
        raise Misconfigured(f"EBBING_OPENAI_BASE_URL {error}") from None
    try:
        allowed.check_host(urlsplit(base_url).hostname or "")
    except egress.HostRefused as refused:
        raise Misconfigured(f"EBBING_OPENAI_BASE_URL: {refused}; add the host to EBBING_LLM_HOSTS") from None
