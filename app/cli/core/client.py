"""HTTP client of the Ebbing API, used by the commands and the demo."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Final, Self

import httpx2

from app.cli.core.connection import ApiConnection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.waiting import WaitingLine, waiting_for
from app.errors import FieldError
from app.system import running_home

Json = dict[str, Any]

TIMEOUT_SECONDS: Final = 60.0
CONNECT_TIMEOUT_SECONDS: Final = 3.0
HEALTH_TIMEOUT_SECONDS: Final = 5.0
FIRST_WAIT_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 30.0
RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})


class ApiRefusal(CommandFailure):
    """Error response of the API, with its `status`, the invalid fields and the complete `body`."""

    def __init__(self, message: str, code: Code, *, status: int, errors: tuple[FieldError, ...], body: Json) -> None:
        super().__init__(message, code)
        self.status = status
        self.errors = errors
        self.body = body


class Unreachable(CommandFailure):
    """The API doesn't answer: the state, the next step, and the command for it if there is one."""

    def __init__(self, what: str, todo: str, command: str = "") -> None:
        super().__init__(f"{what}: {todo}{f': `{command}`' if command else ''}", Code.UNREACHABLE)
        self.what, self.todo, self.command = what, todo, command


class Answer(Json):
    """JSON object of a response. A field that the response lacks is an error of one line instead of a `KeyError`."""

    def __init__(self, fields: Json, url: str) -> None:
        super().__init__(fields)
        self._url = url

    def __missing__(self, name: str) -> Any:
        raise CommandFailure(describe_stranger(self._url, f"no field `{name}`"))


@dataclass(frozen=True)
class ApiResponse:
    """Status and JSON of a successful call.

    Attributes:
        body: Empty if the response had no content.
        request_id: Id of this call. For a repeated ingest request, `body["request_id"]` is that of the first call.
    """

    status: int
    body: Json
    request_id: str = ""


class Api:
    """Client for one API address; every call sends the key.

    With `patience_seconds`, calls are retried for that long while the API is unreachable or overloaded (429, 502,
    503, 504). The wait follows `Retry-After`, or else exponential backoff. A call that isn't safe to repeat is
    retried only if no connection was established, or after a response that invites another attempt: 429, or a 503
    of the API with `Retry-After`. A 502 or 504 comes from a proxy and doesn't tell whether the API performed the call.
    """

    def __init__(
        self, place: ApiConnection, *, patience_seconds: float = 0, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.place = place
        self._patience_seconds = patience_seconds
        # Proxy variables of the environment don't apply to a local API.
        self._client = httpx2.Client(
            base_url=place.url,
            timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS),
            trust_env=not place.is_here,
            # Loading certificates takes 30 ms; a plain connection needs none.
            verify=place.url.startswith("https:"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def add(
        self, body: bytes, idempotency_key: str, *, wait_seconds: int = 0, media_type: str = "application/x-ndjson"
    ) -> ApiResponse:
        """Send memories as NDJSON, or messages as JSON; `body["ids"]` of the response has their ids in order."""
        headers = {"Content-Type": media_type, "Idempotency-Key": idempotency_key}
        if wait_seconds:
            headers["Prefer"] = f"wait={wait_seconds}"
        return self.call("POST", "/v1/memories", content=body, headers=headers)

    def search(self, query: str, **filters: object) -> Json:
        """Search memories; filters that are None, [] or () are omitted."""
        filters = {name: value for name, value in filters.items() if value not in (None, [], ())}
        return self.call("POST", "/v1/search", json={"query": query, **filters}, safe=True).body

    def stats(self) -> Json:
        """Return the tenant's statistics."""
        return self.call("GET", "/v1/stats").body

    def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int | Sequence[str]] | None = None,
        safe: bool = False,
        with_key: bool = True,
    ) -> ApiResponse:
        """Send a request, with the retries described on the class.

        Args:
            safe: True if repeating a POST, PUT or PATCH does no harm.
            with_key: Send the API key.

        Raises:
            ApiRefusal: The API answered with an error.
            CommandFailure: The API can't be reached, or a key is required and none is configured.
        """
        sent_headers = dict(headers or {})
        if with_key:
            sent_headers["Authorization"] = f"Bearer {self._key()}"
        repeatable = safe or method in {"GET", "DELETE"} or "Idempotency-Key" in sent_headers
        query = dict(params) if params else None
        request = self._client.build_request(
            method, path, json=json, content=content, headers=sent_headers, params=query
        )
        response = self._send(request, repeatable=repeatable)
        return ApiResponse(response.status_code, self._decode(response), response.headers.get("X-Request-Id", ""))

    def upload(self, path: str, pieces: Iterable[bytes], params: Mapping[str, str | int]) -> ApiResponse:
        """Stream a file as the body of a POST request; raises like `call`. A failed upload isn't repeated."""
        headers = {"Authorization": f"Bearer {self._key()}", "Content-Type": "application/octet-stream"}
        request = self._client.build_request("POST", path, content=pieces, headers=headers, params=dict(params))
        self._require_service()
        try:
            with waiting_for(f"uploading to {self.place.url}"):
                response = self._client.send(request)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None
        if not response.is_success:
            raise self._parse_refusal(response)
        return ApiResponse(response.status_code, self._decode(response), response.headers.get("X-Request-Id", ""))

    def save(self, path: str, file: BinaryIO) -> int:
        """Stream a response body into a file and return its size in bytes; raises like `call`."""
        return sum(file.write(piece) for piece in self.stream(path))

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield a response body in pieces; raises like `call`."""
        self._require_service()
        headers = {"Authorization": f"Bearer {self._key()}"}
        try:
            with waiting_for(f"downloading {path}"), self._client.stream("GET", path, headers=headers) as response:
                if not response.is_success:
                    response.read()
                    raise self._parse_refusal(response)
                yield from response.iter_bytes()
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None

    def page(self, path: str) -> str:
        """Return the text of a page that requires the key; raises like `call`."""
        return self.fetch(path).text

    def fetch(self, path: str) -> httpx2.Response:
        """Return the response to a request for a page that requires the key; raises like `call`."""
        headers = {"Authorization": f"Bearer {self._key()}"}
        return self._send(self._client.build_request("GET", path, headers=headers), repeatable=True)

    def _send(self, request: httpx2.Request, *, repeatable: bool) -> httpx2.Response:
        with waiting_for(f"waiting for {self.place.url}: {request.method} {request.url.path}") as line:
            return self._send_patiently(request, line, repeatable=repeatable)

    def _send_patiently(self, request: httpx2.Request, line: WaitingLine, *, repeatable: bool) -> httpx2.Response:
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            wait: float | None = None
            try:
                self._require_service()
                response = self._client.send(request)
            except Unreachable as error:
                failure: CommandFailure = error
                is_retryable = True
            except httpx2.TransportError as error:
                failure = self._unreachable(error)
                is_retryable = repeatable or isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            else:
                if response.is_success:
                    return response
                failure = refusal = self._parse_refusal(response)
                is_retryable = _is_retryable(refusal, response, repeatable=repeatable)
                wait = _retry_after(response)
            wait = _pause(tries) if wait is None else min(wait, LONGEST_WAIT_SECONDS)
            if not is_retryable or time.monotonic() + wait - began > self._patience_seconds:
                raise failure
            line.retitle(f"{failure}; trying again")
            time.sleep(wait)

    def _key(self) -> str:
        if self.place.key:
            return self.place.key
        where = (
            "set EBBING_API_KEY, or set EBBING_HOME to the folder that `ebbing run` uses"
            if self.place.is_here
            else "set EBBING_API_KEY"
        )
        raise CommandFailure(f"no API key for {self.place.url}: {where}", Code.NOT_ALLOWED)

    def _require_service(self) -> None:
        """Raise `Unreachable` if the address or the key is that of a home whose service doesn't run."""
        home = self.place.home
        if home is not None and not running_home.is_running(home):
            what = f"no service runs in {home}"
            raise Unreachable(what, "start it with `ebbing run`, or give another address with --url or EBBING_API_URL")

    def _unreachable(self, error: httpx2.TransportError) -> Unreachable:
        if isinstance(error, httpx2.ReadTimeout):
            return self._describe_silence()
        reason = "timed out" if isinstance(error, httpx2.TimeoutException) else _describe_transport(error)
        what = f"the API at {self.place.url} can't be reached ({reason})"
        if self.place.home is not None:  # its supervisor starts the API again
            return Unreachable(what, f"read in its log why it doesn't run: {self.place.home / 'logs' / 'api.log'}")
        return Unreachable(what, "start it with `ebbing run`, or give its address with --url or EBBING_API_URL")

    def _describe_silence(self) -> Unreachable:
        """Return the failure of a call that wasn't answered in time, after asking whether the API answers at all."""
        seconds = self._client.timeout.read or 0
        try:
            self._client.get("/healthz", timeout=HEALTH_TIMEOUT_SECONDS)
        except httpx2.TransportError:
            what = f"the API at {self.place.url} hangs: it hasn't answered for {seconds:g} s"
            pid = self.place.home and running_home.find_process(self.place.home, "api")
            if pid:
                return Unreachable(what, "end its process, which is started again at once", f"kill -KILL {pid}")
            return Unreachable(what, "restart it")
        what = f"the API at {self.place.url} answers, but not to this request within {seconds:g} s"
        return Unreachable(what, "find out with `ebbing doctor` what delays it, then repeat the command")

    def _decode(self, response: httpx2.Response) -> Json:
        if not response.content:
            return {}
        try:
            found = response.json(object_hook=partial(Answer, url=self.place.url))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CommandFailure(describe_stranger(self.place.url, "no JSON object"))
        return found

    def _parse_refusal(self, response: httpx2.Response) -> ApiRefusal:
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        problem = problem if isinstance(problem, dict) else {}
        errors = tuple(
            FieldError(str(item.get("field", "")), str(item.get("message", "")), item.get("value"), item.get("limit"))
            for item in problem.get("errors") or []
            if isinstance(item, dict)
        )
        title, detail = problem.get("title") or response.reason_phrase, problem.get("detail")
        parts = [f"{response.status_code} {title}"]
        if errors:
            parts.append("; ".join(map(str, errors)))
        elif detail and detail != title:
            parts.append(str(detail))
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            parts.append("check EBBING_API_KEY, or the key in the home of `ebbing run`")
        message = ": ".join(parts)
        if call_id := problem.get("call_id") or problem.get("request_id"):  # earlier versions have only the latter
            message += f" (call ID {call_id})"  # the service log has details under this id
        status = response.status_code
        return ApiRefusal(message, _code(status), status=status, errors=errors, body=problem)


def pages(api: Api, path: str, noun: str, params: Mapping[str, str | int] | None = None) -> Iterator[Json]:
    """Yield all entries of a paginated list."""
    cursor: str | None = None
    while True:
        page_params = dict(params or {}) | ({"cursor": cursor} if cursor else {})
        answer = api.call("GET", path, params=page_params).body
        yield from answer[noun]
        cursor = answer.get("next_cursor")
        if not cursor:
            return


def describe_stranger(url: str, difference: str) -> str:
    """Return the error message for an address whose response differs from Ebbing's in this way."""
    return f"{url} doesn't answer like Ebbing ({difference}): check the address and port, and the service's version"


def _describe_transport(error: httpx2.TransportError) -> str:
    """Return the reason of a failed connection without the error number."""
    return re.sub(r"^\[Errno \S+\] ", "", str(error)) or "no answer"


def _is_retryable(refusal: ApiRefusal, response: httpx2.Response, *, repeatable: bool) -> bool:
    """Return whether a call may be sent again after this response; see the class `Api`."""
    if repeatable:
        return refusal.status in RETRYABLE_STATUSES
    is_from_api = str(refusal.body.get("type", "")).startswith("urn:ebbing:problem:")
    return refusal.status == 429 or (refusal.status == 503 and is_from_api and _retry_after(response) is not None)


def _retry_after(response: httpx2.Response) -> float | None:
    try:
        return max(float(response.headers["Retry-After"]), 0.0)
    except (KeyError, ValueError):
        return None


def _pause(tries: int) -> float:
    """Return the backoff in seconds: exponential with jitter, so that clients don't retry in step."""
    longest = min(FIRST_WAIT_SECONDS * 2.0 ** (tries - 1), 5.0)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def _code(status: int) -> Code:
    if status in {401, 403}:
        return Code.NOT_ALLOWED
    return Code.UNREACHABLE if status in RETRYABLE_STATUSES - {429} else Code.FAILED
