"""The provider of models, by OpenAI's protocol: what is sent, what comes back, and what its failures are called.

The `openai` package makes the requests; it is told everything and decides nothing: no tries of its own, no
redirects, no environment. Answers are read from their bytes (`answers.py`), since the package would hand on
whatever came. No error of it leaves this module: its message may quote what was sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import openai

from app.clients.llm import answers, outbound
from app.clients.llm.answers import Reply, Usage, Vector
from app.clients.llm.resilience import (
    RETRY_AFTER_MAX_SECONDS,
    Backoff,
    Breaker,
    Clock,
    ProviderFailed,
    Reason,
    Retries,
    Slots,
)
from app.domain.salience.scoring import Message, tokens
from app.errors import Misconfigured
from app.settings import MIB, Settings

ANSWER_MAX_BYTES: Final = 64 * MIB
"""Largest answer, which is one with 2048 vectors of some 3,000 dimensions as numbers."""
NO_KEY: Final = "none"
"""Sent as the key where there is none, as to a server of one's own."""

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
    """How long a caller waits for one answer.

    Attributes:
        timeout_seconds: Longest time of one call, from connecting to the last byte; a turn among others is waited
            for as long at most.
        tries: Most calls for one answer.
        wait_max_seconds: Longest wait between them, in all.
    """

    timeout_seconds: float
    tries: int = 1
    wait_max_seconds: float = 0.0


class Provider:
    """One provider, its open connections and its state of health; one object a process, used by many threads.

    Chats and vectors have a breaker each, since their models fail apart; they share the limit on calls at once.

    Args:
        base_url: Where it is, up to and with `/v1`.
        api_key: Its key.
        allowed: Hosts that may be asked, the base URL's among them.
        slots: Calls at once.
        breaker: Makes a closed breaker.
        backoff: Waits between tries.
        sleep: Waits so many seconds.
        now: Seconds since 1970, for a `Retry-After` that is a date.

    Raises:
        Misconfigured: The base URL isn't one, or its host isn't among the allowed.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        allowed: outbound.Allowed,
        *,
        slots: int = 4,
        breaker: Callable[[], Breaker] = lambda: Breaker(failures=5, open_seconds=30),
        backoff: Backoff | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Clock = time.time,
    ) -> None:
        _check(base_url, allowed)
        self._http = outbound.client(allowed, timeout_seconds=60, answer_max_bytes=ANSWER_MAX_BYTES, connections=slots)
        self._openai = openai.OpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            http_client=self._http,
            # Given here, neither can come from the environment.
            default_headers={"Authorization": f"Bearer {api_key}"},
        )
        # The package imports these at their first use, which would be that of several threads at once.
        self._chats = self._openai.chat.completions.with_raw_response
        self._embeddings = self._openai.embeddings.with_raw_response
        self._slots = Slots(slots)
        self._breakers = {"chat": breaker(), "vectors": breaker()}
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._now = now

    @classmethod
    def from_settings(cls, settings: Settings) -> Provider:
        """The provider that the settings name.

        Raises:
            Misconfigured: They name one that can't be.
        """
        url = settings.provider_url
        key = settings.openai_api_key
        hosts = settings.llm_hosts or frozenset({urlsplit(url).hostname or ""})
        return cls(
            url,
            key.get_secret_value() if key else NO_KEY,
            outbound.Allowed(frozenset(host.lower() for host in hosts), settings.llm_private_addresses),
            slots=settings.llm_concurrency,
            breaker=lambda: Breaker(settings.llm_breaker_failures, settings.llm_breaker_seconds),
        )

    def close(self) -> None:
        """Close its connections; it can't be used afterwards."""
        self._openai.close()

    def health(self) -> dict[str, str]:
        """The state of each breaker: `closed`, `open` or `half_open`, by `chat` and `vectors`."""
        return {name: breaker.state for name, breaker in self._breakers.items()}

    def chat(
        self,
        model: str,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any],
        tokens_max: int,
        patience: Patience,
    ) -> Reply:
        """What a chat model answers, as JSON by a schema.

        Args:
            model: Its name at the provider.
            messages: The chat.
            schema: JSON schema of the answer.
            tokens_max: Most tokens of the answer.
            patience: How long to wait.

        Raises:
            ProviderFailed: There was no answer, or none in the protocol's shape.
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
            return answers.read_chat(raw.http_response.content, sum(tokens(message["content"]) for message in messages))

        return self._run("chat", ask, patience)

    def vectors(
        self, model: str, texts: Sequence[str], *, dimensions: int | None, patience: Patience
    ) -> tuple[Sequence[Vector], Usage]:
        """Vectors of texts as they came, in the order they came, and what they cost.

        Args:
            model: Its name at the provider.
            texts: None of them empty.
            dimensions: Size to ask for; None asks for none.
            patience: How long to wait.

        Raises:
            ProviderFailed: There was no answer, or none in the protocol's shape.
        """

        def ask() -> tuple[Sequence[Vector], Usage]:
            raw = self._embeddings.create(
                model=model,
                input=list(texts),
                encoding_format="base64",
                dimensions=dimensions if dimensions is not None else openai.omit,
                timeout=patience.timeout_seconds,
            )
            return answers.read_vectors(raw.http_response.content, sum(map(tokens, texts)))

        return self._run("vectors", ask, patience)

    def _run(self, purpose: str, ask: Callable[[], T], patience: Patience) -> T:
        breaker = self._breakers[purpose]
        retries = Retries(patience.tries, patience.wait_max_seconds, self._backoff, self._sleep)

        def one_try() -> T:
            return self._slots.run(lambda: breaker.run(lambda: self._asked(ask)), patience.timeout_seconds)

        return retries.run(one_try)

    def _asked(self, ask: Callable[[], T]) -> T:
        """What was answered, or the failure under our own name.

        It is raised outside of the handler, so that the error it stands for, which may quote a text, doesn't
        travel along as its context.
        """
        try:
            return ask()
        except ProviderFailed:
            raise
        except outbound.HostRefused as error:
            failure = ProviderFailed(Reason.HOST_REFUSED, str(error))
        except outbound.AnswerRefused as error:
            failure = ProviderFailed(Reason.GARBAGE, str(error))
        except openai.APIStatusError as error:
            failure = _by_status(error, self._now())
        except (openai.APITimeoutError, httpx2.TimeoutException):
            failure = ProviderFailed(Reason.TIMEOUT)
        except (openai.APIConnectionError, httpx2.TransportError):
            failure = ProviderFailed(Reason.UNREACHABLE)
        raise failure


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """How long an answer asks to be left alone, 0 to `RETRY_AFTER_MAX_SECONDS`; None where it doesn't say.

    Args:
        headers: Of the answer, names in any case: `retry-after-ms`, or `retry-after` in seconds or as a date.
        now: Seconds since 1970.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        given = headers.get(name, "").strip()
        try:
            seconds = float(given) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), RETRY_AFTER_MAX_SECONDS)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return min(max(moment - now, 0.0), RETRY_AFTER_MAX_SECONDS)


def _by_status(error: openai.APIStatusError, now: float) -> ProviderFailed:
    status = error.status_code
    reason = _BY_CODE.get(error.code or "") or _BY_STATUS.get(status)
    if reason is None:
        reason = Reason.SERVER_ERROR if status >= 500 else Reason.BAD_REQUEST if status >= 400 else Reason.REDIRECTED
    if reason is Reason.BAD_REQUEST and any(words in str(error).lower() for words in _TOO_LONG_WORDS):
        reason = Reason.TOO_LARGE
    asked = retry_after_seconds(error.response.headers, now) if status == 429 or status >= 500 else None
    return ProviderFailed(reason, "", status, asked)


def _check(base_url: str, allowed: outbound.Allowed) -> None:
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
        raise Misconfigured("OPENAI_BASE_URL isn't an http(s) address without user and query, such as https://host/v1")
    try:
        allowed.check_host(parts.hostname)
    except outbound.HostRefused as refused:
        raise Misconfigured(f"OPENAI_BASE_URL: {refused}; name it in LLM_HOSTS") from None
