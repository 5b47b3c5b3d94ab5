"""Rules for the Redis login of the service: the commands that it may run, on which keys and channels.

Celery's keys and channels begin with the same prefix as the service's own, so one pattern covers all of them. Commands
that read or delete keys of other applications, change the server or stop it (`KEYS`, `FLUSHALL`, `CONFIG`, `DEBUG`,
`SHUTDOWN`) aren't listed and are therefore refused, also inside scripts.
"""

from __future__ import annotations

from typing import Final

KEYS: Final = "~ebbing:*"
CHANNELS: Final = "resetchannels &ebbing:*"
WORKERS_CHANNEL: Final = "ebbing:{{s0}}:celery:/{database}.celery.pidbox"
"""Channel to which Celery's workers subscribe as a pattern, which Redis only permits if a rule has the same pattern."""
COMMANDS: Final = (
    # connections, transactions, scripts
    *("auth", "hello", "ping", "select", "client|setname", "client|setinfo", "info", "time"),
    *("multi", "exec", "discard", "watch", "unwatch", "eval", "evalsha", "script|load", "script|exists"),
    # keys and strings
    *("del", "exists", "expire", "pexpire", "pttl", "ttl", "type", "unlink", "get", "mget", "set", "setex", "setnx"),
    # hashes, lists, sets
    *("hdel", "hget", "hgetall", "hincrby", "hlen", "hmget", "hset", "hsetnx"),
    *("blpop", "brpop", "llen", "lpop", "lpush", "lrange", "lrem", "rpop", "rpush"),
    *("sadd", "scard", "sismember", "smembers", "srem"),
    # sorted sets, streams, channels
    *("zadd", "zcard", "zmscore", "zrange", "zrangebyscore", "zrem", "zremrangebyrank", "zremrangebyscore"),
    *("zrevrangebyscore", "zscore", "xadd", "xdel", "xinfo", "xlen", "xrange", "xrevrange"),
    *("psubscribe", "publish", "punsubscribe", "subscribe", "unsubscribe"),
)


SETINFO: Final = "+client|setinfo"
MAINT_NOTIFICATIONS: Final = "+client|maint_notifications"
"""Rules for subcommands that redis-py calls when it connects; it ignores the error if they are refused."""


def rules_for(version: tuple[int, int], database: int = 0) -> str:
    """Return `service_rules` as a server of this version accepts them.

    From version 7.0 on, Redis refuses to start with a rule for a subcommand that it doesn't have; `CLIENT SETINFO`
    exists from 7.2 on. Versions before 7.0 accept any rule, and log each refused call, so they get both rules.
    """
    rules = service_rules(database).split()
    if version < (7, 0):
        rules.append(MAINT_NOTIFICATIONS)
    elif version < (7, 2):
        rules.remove(SETINFO)
    return " ".join(rules)


def service_rules(database: int = 0) -> str:
    """Return the rules of the service's login, without its password, for `user` and `ACL SETUSER`.

    Args:
        database: Number of the logical database that the service uses.
    """
    channel = WORKERS_CHANNEL.format(database=database)
    return " ".join([KEYS, CHANNELS, f"&{channel}", *(f"+{command}" for command in COMMANDS)])
