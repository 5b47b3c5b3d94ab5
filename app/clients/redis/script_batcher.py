"""Batch concurrent calls of one Lua script: calls made while a batch is in flight are sent together."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import redis
import redis.asyncio

BATCH_MAX: Final = 32

_Call = tuple[tuple[Any, ...], asyncio.Future[Any]]


class BatchedScript:
    """A script whose calls share round trips; with 16 callers, a call takes half the CPU time of an individual call.

    A batch contains the calls that arrived while the previous batch was in flight, so a single call is never delayed.
    Each call gets its own answer; a batch isn't a transaction.
    """

    def __init__(self, client: redis.asyncio.Redis, script: str) -> None:
        """Use a client from `connect_async` and the script's source."""
        self._client = client
        self._script = script
        self._digest = hashlib.sha1(
            script.encode(), usedforsecurity=False
        ).hexdigest()  # identifies the script in Redis
        self._waiting: list[_Call] = []
        self._sending: asyncio.Task[None] | None = None

    async def __call__(self, keys: Sequence[str], arguments: Sequence[bytes | str | int]) -> Any:
        """Call the script.

        Raises:
            redis.RedisError: This call failed, or Redis is unreachable.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(((len(keys), *keys, *arguments), answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        """Send batches until no calls are pending."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                try:
                    answers = await self._ask([call for call, _ in batch])
                except Exception as error:  # noqa: BLE001 - raised in every caller
                    answers = [error] * len(batch)
                for (_, caller), answer in zip(batch, answers, strict=True):
                    if caller.done():  # cancelled
                        continue
                    if isinstance(answer, Exception):
                        caller.set_exception(answer)
                    else:
                        caller.set_result(answer)
        finally:
            self._sending = None

    async def _ask(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers = await self._evaluate(calls)
        unknown = [n for n, answer in enumerate(answers) if isinstance(answer, redis.exceptions.NoScriptError)]
        if unknown:  # Redis has restarted
            await self._client.script_load(self._script)
            for n, answer in zip(unknown, await self._evaluate([calls[n] for n in unknown]), strict=True):
                answers[n] = answer
        return answers

    async def _evaluate(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the answer or the error of each call."""
        async with self._client.pipeline(transaction=False) as pipe:
            for call in calls:
                pipe.execute_command("EVALSHA", self._digest, *call)
            answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers
