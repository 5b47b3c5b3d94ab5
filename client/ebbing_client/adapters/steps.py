"""Run the same sequence of calls with the blocking client or the asyncio client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from ebbing_client import operations
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.call import Call, encode
from ebbing_client.client import Ebbing
from ebbing_client.errors import DeadlinePassed
from ebbing_client.methods import Sends
from ebbing_client.results import Memory

T = TypeVar("T")

KEPT_TAG: Final = "explicitly_saved"
"""Tag that the default policy protects from decay and merging (`protection.never_forget_tags`)."""
WAIT_SECONDS: Final = 20
WRITE_LIMIT: Final = 100
NAMES_LIMIT: Final = 100
DELETE_LIMIT: Final = 1_000
_POLL_SECONDS: Final = 0.25
_POLLS: Final = 240


@dataclass(frozen=True)
class Pause:
    """A pause between two calls, in seconds."""

    seconds: float


Steps: TypeAlias = Generator["Call[Any] | Pause", Any, T]
"""Generator that yields calls and pauses, receives the result of each call, and returns a result at the end."""


def run(client: Sends, steps: Steps[T]) -> T:
    """Send the calls with a blocking client and return the result."""
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                else:
                    answer = client.send(step)
            except Exception as error:  # noqa: BLE001, PERF203 - the steps decide about every error
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # the value that the generator returns


async def run_async(client: Ebbing | AsyncEbbing, steps: Steps[T]) -> T:
    """Send the calls without blocking and return the result; a blocking client sends them in a thread."""
    if isinstance(client, Ebbing):
        return await asyncio.to_thread(run, client, steps)
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    answer = await client.send(step)
            except Exception as error:  # noqa: BLE001, PERF203 - the steps decide about every error
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # the value that the generator returns


def write(bodies: Sequence[Mapping[str, Any]]) -> Steps[list[str]]:
    """Store memories and wait until lists and reads have them; return their ids.

    Raises:
        DeadlinePassed: The service accepted the memories, but didn't store them within about 80 seconds.
    """
    ids: list[str] = []
    for part in split(bodies, WRITE_LIMIT):
        added = yield operations.write(encode(part), operations.new_key(), wait=WAIT_SECONDS, timeout=2 * WAIT_SECONDS)
        if not added.is_searchable:
            yield from _wait_until_stored(added.ids[-1])
        ids += added.ids
    return ids


def _wait_until_stored(memory_id: str) -> Steps[None]:
    """Wait for the last memory of a request, which is stored in one transaction with the others."""
    for _ in range(_POLLS):
        memory = yield operations.get(memory_id)
        if memory.status != "pending":
            return
        yield Pause(_POLL_SECONDS)
    raise DeadlinePassed("the service accepted the memories, but hasn't stored them yet: see its ingest backlog")


def list_page(
    filters: Mapping[str, Any], cursor: str | None = None, limit: int = operations.PAGE_LIMIT
) -> Steps[tuple[list[Memory], str | None]]:
    """Return a page of `GET /v1/memories`, and the cursor of the next page."""
    params = operations.list_params({**filters, "limit": max(1, min(limit, operations.PAGE_LIMIT))})
    page = yield operations.page("/v1/memories", "memories", params, cursor, None)
    return [operations.read_memory(item) for item in page.items], page.next_cursor


def list_named(external_ids: Iterable[str]) -> Steps[dict[str, Memory]]:
    """Return stored memories by their external ids; unknown ones are left out."""
    found: dict[str, Memory] = {}
    for part in split(list(dict.fromkeys(external_ids)), NAMES_LIMIT):
        memories, _ = yield from list_page({"external_ids": part}, limit=len(part))
        found |= {str(memory.external_id): memory for memory in memories}
    return found


def delete_named(external_ids: Sequence[str]) -> Steps[int]:
    """Delete memories by their external ids and return their number; unknown ones are ignored."""
    deleted = 0
    for part in split(external_ids, DELETE_LIMIT):
        deleted += yield from _delete({"external_ids": part})
    return deleted


def delete_ids(ids: Sequence[str]) -> Steps[int]:
    """Delete memories by their ids and return their number; unknown ones are ignored."""
    deleted = 0
    for part in split(ids, DELETE_LIMIT):
        deleted += yield from _delete({"ids": part})
    return deleted


def delete_thread(thread: str) -> Steps[int]:
    """Delete all memories of a thread and return their number."""
    return (yield from _delete({"thread": thread}))


def _delete(body: Mapping[str, Any]) -> Steps[int]:
    # A repetition deletes nothing more, only its count is lower.
    answer = yield operations.call("POST", "/v1/memories/delete", json=body, is_repeatable=True)
    return int(answer["deleted"])


def split(values: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """Yield the values in parts of at most this size."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def missing_package(module: str, extra: str) -> ImportError:
    """Return the error for an adapter whose framework isn't installed."""
    return ImportError(f"{module} isn't installed: pip install 'ebbing-client[{extra}]'")
