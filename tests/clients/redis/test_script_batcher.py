"""Script calls that share a round trip: each caller gets its own result or its own error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from app.clients.redis.script_batcher import BATCH_MAX, BatchedScript
from tests.waiting import PATIENCE_SECONDS

# Counts its calls and returns its argument, or fails if the argument is `fail`.
SCRIPT = """
if ARGV[1] == 'fail' then return redis.error_reply('ERR as asked') end
redis.call('INCR', KEYS[1])
return ARGV[1]
"""
KEY = "ebbing-test:batched"


def with_script(url: str, use: Callable[[redis.asyncio.Redis, BatchedScript], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        client = redis.asyncio.Redis.from_url(url, protocol=2, socket_connect_timeout=PATIENCE_SECONDS)
        try:
            return await use(client, BatchedScript(client, SCRIPT))
        finally:
            await client.aclose()

    return asyncio.run(opened())


def test_each_of_many_callers_gets_its_own_answer(redis_url: str) -> None:
    async def use(client: redis.asyncio.Redis, script: BatchedScript) -> None:
        many = BATCH_MAX * 2 + 3
        answers = await asyncio.gather(*(script([KEY], [n]) for n in range(many)))
        assert answers == [str(n).encode() for n in range(many)]
        assert await client.get(KEY) == str(many).encode()

    with_script(redis_url, use)


def test_an_error_is_its_own_callers_alone(redis_url: str) -> None:
    async def use(_: redis.asyncio.Redis, script: BatchedScript) -> None:
        answers = await asyncio.gather(*(script([KEY], [word]) for word in ("a", "fail", "b")), return_exceptions=True)
        assert [answers[0], answers[2]] == [b"a", b"b"]
        assert isinstance(answers[1], redis.ResponseError)

    with_script(redis_url, use)


def test_a_redis_that_forgot_the_script_is_told_again(redis_url: str) -> None:
    async def use(client: redis.asyncio.Redis, script: BatchedScript) -> None:
        assert await script([KEY], ["before"]) == b"before"
        await client.script_flush()
        answers = await asyncio.gather(script([KEY], ["one"]), script([KEY], ["two"]))
        assert list(answers) == [b"one", b"two"]
        assert await client.get(KEY) == b"3"

    with_script(redis_url, use)


def test_a_caller_that_gives_up_takes_nobody_along(redis_url: str) -> None:
    async def use(_: redis.asyncio.Redis, script: BatchedScript) -> None:
        gone = asyncio.ensure_future(script([KEY], ["gone"]))
        stays = asyncio.ensure_future(script([KEY], ["stays"]))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == b"stays"
        assert await script([KEY], ["later"]) == b"later"

    with_script(redis_url, use)


def test_every_caller_hears_that_redis_is_away() -> None:
    async def use(_: redis.asyncio.Redis, script: BatchedScript) -> None:
        answers = await asyncio.gather(*(script([KEY], [n]) for n in range(3)), return_exceptions=True)
        assert all(isinstance(answer, redis.ConnectionError) for answer in answers)
        with pytest.raises(redis.ConnectionError):
            await script([KEY], ["again"])

    with_script("redis://127.0.0.1:1/0", use)
