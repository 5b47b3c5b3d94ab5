"""The API as the command line and the demo use it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Self

import httpx

from app.cli.core.failures import Code, Failure
from app.cli.core.place import Place

Json = dict[str, Any]

TIMEOUT_SECONDS: Final = 60.0
CONNECT_TIMEOUT_SECONDS: Final = 3.0
FIRST_WAIT_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 30.0
PASSING: Final = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class FieldProblem:
    """What the API says is wrong with one field."""

    field: str
    message: str
    value: object = None
    limit: object = None

    def __str__(self) -> str:
        numbers = [
            f"{name} {found}" for name, found in (("value", self.value), ("limit", self.limit)) if found is not None
        ]
        return f"{self.field}: {self.message}" + (f" ({', '.join(numbers)})" if numbers else "")


class Refused(Failure):
    """The API's answer is an error: `status`, what is wrong with which field, and all of its `body`."""

    def __init__(self, message: str, code: Code, *, status: int, errors: tuple[FieldProblem, ...], body: Json) -> None:
        super().__init__(message, code)
        self.status = status
        self.errors = errors
        self.body = body


@dataclass(frozen=True)
class Answer:
    """Status and JSON of a call that went well; `body` is empty where the answer was."""

    status: int
    body: Json


class Api:
    """Calls of the API at one place, each with the key.

    With `patience_seconds`, a call is repeated while the API is away or asks to wait (429, 503), as long as
    it says or with growing pauses, until so many seconds are over. A call that isn't safe to repeat is
    repeated only where it can't have arrived.
    """

    def __init__(self, place: Place, *, patience_seconds: float = 0) -> None:
        self.place = place
        self._patience_seconds = patience_seconds
        # A proxy of the environment is for other machines.
        self._client = httpx.Client(
            base_url=place.url,
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
            trust_env=not place.is_here,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def add(
        self, body: bytes, idempotency_key: str, *, wait_seconds: int = 0, media_type: str = "application/x-ndjson"
    ) -> Answer:
        """Send memories as NDJSON, or messages as JSON; `body["ids"]` has their ids in order."""
        headers = {"Content-Type": media_type, "Idempotency-Key": idempotency_key}
        if wait_seconds:
            headers["Prefer"] = f"wait={wait_seconds}"
        return self.call("POST", "/v1/memories", content=body, headers=headers)

    def search(self, query: str, **filters: object) -> Json:
        """Search; filters that are None or empty are left out."""
        given = {name: value for name, value in filters.items() if value not in (None, [], ())}
        return self.call("POST", "/v1/search", json={"query": query, **given}, safe=True).body

    def stats(self) -> Json:
        """The tenant's numbers."""
        return self.call("GET", "/v1/stats").body

    def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int] | None = None,
        safe: bool = False,
        with_key: bool = True,
    ) -> Answer:
        """One call, repeated as said above.

        Args:
            safe: It may be repeated although it is a POST.
            with_key: Show the key; without one there, the call isn't made.

        Raises:
            Refused: The API answered with an error.
            Failure: It can't be reached, or there is no key.
        """
        given = dict(headers or {})
        if with_key:
            given["Authorization"] = f"Bearer {self._key()}"
        repeatable = safe or method in {"GET", "DELETE"} or "Idempotency-Key" in given
        query = dict(params) if params else None
        request = self._client.build_request(method, path, json=json, content=content, headers=given, params=query)
        response = self._send(request, repeatable=repeatable)
        return Answer(response.status_code, self._decoded(response))

    def save(self, path: str, file: BinaryIO) -> int:
        """Write what a path answers to a file, as it comes. Returns its bytes; raises as `call` does."""
        given = {"Authorization": f"Bearer {self._key()}"}
        size = 0
        try:
            with self._client.stream("GET", path, headers=given) as response:
                if not response.is_success:
                    response.read()
                    raise self._refused(response)
                for piece in response.iter_bytes():
                    size += file.write(piece)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        return size

    def page(self, path: str) -> str:
        """A page that needs a key, as it is; raises as `call` does."""
        given = {"Authorization": f"Bearer {self._key()}"}
        return self._send(self._client.build_request("GET", path, headers=given), repeatable=True).text

    def _send(self, request: httpx.Request, *, repeatable: bool) -> httpx.Response:
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            wait: float | None = None
            try:
                response = self._client.send(request)
            except httpx.TransportError as error:
                failure: Failure = self._unreachable(error)
                passing = repeatable or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            else:
                if response.is_success:
                    return response
                failure = self._refused(response)
                passing = response.status_code in PASSING
                wait = _retry_after(response)
            wait = _pause(tries) if wait is None else min(wait, LONGEST_WAIT_SECONDS)
            if not passing or time.monotonic() + wait - began > self._patience_seconds:
                raise failure
            time.sleep(wait)

    def _key(self) -> str:
        if self.place.key:
            return self.place.key
        where = (
            "set EBBING_API_KEY, or EBBING_HOME to the home of `ebbing run`"
            if self.place.is_here
            else "set EBBING_API_KEY"
        )
        raise Failure(f"there is no API key for {self.place.url}: {where}", Code.NOT_ALLOWED)

    def _unreachable(self, error: httpx.TransportError) -> Failure:
        reason = "it doesn't answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or "no answer"
        return Failure(
            f"the API at {self.place.url} can't be reached ({reason}): start it with `ebbing run`, "
            "or name it with --url or EBBING_API_URL",
            Code.UNREACHABLE,
        )

    def _decoded(self, response: httpx.Response) -> Json:
        if not response.content:
            return {}
        try:
            found = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Failure(f"{self.place.url} doesn't answer like Ebbing's API: is it another program's port?")
        return found

    def _refused(self, response: httpx.Response) -> Refused:
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        problem = problem if isinstance(problem, dict) else {}
        errors = tuple(
            FieldProblem(str(item.get("field", "")), str(item.get("message", "")), item.get("value"), item.get("limit"))
            for item in problem.get("errors") or []
            if isinstance(item, dict)
        )
        title, detail = problem.get("title") or response.reason_phrase, problem.get("detail")
        parts = [f"{response.status_code} {title}"]
        if errors:
            parts.append("; ".join(map(str, errors)))
        elif detail and detail != title:
            parts.append(str(detail))
        if response.status_code == httpx.codes.UNAUTHORIZED:
            parts.append("check EBBING_API_KEY, or the key in the home of `ebbing run`")
        if problem.get("request_id"):
            parts.append(f"request {problem['request_id']}")  # the log has more of it
        status = response.status_code
        return Refused(": ".join(parts), _code(status), status=status, errors=errors, body=problem)


def pages(api: Api, path: str, noun: str, params: Mapping[str, str | int] | None = None) -> Iterator[Json]:
    """Every entry of a list that is given in pages."""
    cursor: str | None = None
    while True:
        given = dict(params or {}) | ({"cursor": cursor} if cursor else {})
        answer = api.call("GET", path, params=given).body
        yield from answer.get(noun, [])
        cursor = answer.get("next_cursor")
        if not cursor:
            return


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(float(response.headers["Retry-After"]), 0.0)
    except (KeyError, ValueError):
        return None


def _pause(tries: int) -> float:
    """Growing pauses with some chance in them, so that many callers don't come back together."""
    longest = min(FIRST_WAIT_SECONDS * 2.0 ** (tries - 1), 5.0)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads callers, no secret


def _code(status: int) -> Code:
    if status in {401, 403}:
        return Code.NOT_ALLOWED
    return Code.UNREACHABLE if status in PASSING - {429} else Code.FAILED
