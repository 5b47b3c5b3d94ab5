"""The rules of the service's Redis login are the same in the product, in Compose and in the documentation."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from app import queues
from app.clients.redis import connection
from app.embedded.redis_access import (
    CHANNELS,
    COMMANDS,
    KEYS,
    MAINT_NOTIFICATIONS,
    SETINFO,
    WORKERS_CHANNEL,
    rules_for,
    service_rules,
)

ROOT = Path(__file__).parents[2]
DANGEROUS = {
    *("acl", "bgrewriteaof", "bgsave", "client", "cluster", "config", "debug", "failover", "flushall", "flushdb"),
    *("function", "keys", "latency", "migrate", "module", "monitor", "move", "object", "psync", "randomkey"),
    *("replicaof", "restore", "role", "save", "scan", "script", "shutdown", "slaveof", "slowlog", "sort", "swapdb"),
    *("sync", "xtrim", "rename", "dump", "copy"),
}


def test_no_command_of_an_administrator_is_allowed() -> None:
    assert not DANGEROUS & set(COMMANDS)
    assert {name for name in COMMANDS if "|" in name} == {
        "client|setname",
        "client|setinfo",
        "script|load",
        "script|exists",
    }


def test_every_command_of_the_scripts_is_allowed() -> None:
    scripts = "".join(path.read_text() for path in (Path(connection.__file__).parent / "scripts").glob("*.lua"))
    called = {name.lower() for name in re.findall(r"redis\.p?call\(\s*['\"](\w+)", scripts)}
    assert len(called) > 10
    assert called <= set(COMMANDS)


def test_all_keys_and_channels_begin_with_the_allowed_prefix() -> None:
    prefix = str(queues.broker_options()["global_keyprefix"])
    for name in (connection.PREFIX, prefix):
        assert name.startswith(KEYS.removeprefix("~").removesuffix("*"))
        assert name.startswith(CHANNELS.split("&")[1].removesuffix("*"))
    assert WORKERS_CHANNEL.format(database=0).startswith(prefix)


def test_no_version_of_redis_gets_a_rule_for_a_subcommand_that_it_would_refuse() -> None:
    def handshake(major: int, minor: int) -> list[str]:
        rules = rules_for((major, minor)).split()
        return [rule for rule in rules if rule in {SETINFO, MAINT_NOTIFICATIONS}]

    assert handshake(6, 2) == [SETINFO, MAINT_NOTIFICATIONS]
    assert handshake(7, 0) == []
    assert handshake(7, 2) == handshake(8, 0) == [SETINFO]
    assert rules_for((8, 0), 3) == service_rules(3)


def test_composes_redis_has_these_rules() -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["redis"]
    words = shlex.split(service["command"][2].replace("$$", "$"))
    login = words[words.index("--user") + 1 :]
    assert login[:4] == ["default", "reset", "on", ">$REDISCLI_AUTH"]
    assert login[4:] == service_rules().split()
    assert "--requirepass" not in words


def test_the_documented_command_sets_these_rules() -> None:
    text = (ROOT / "ops" / "deployment.md").read_text()
    found = re.search(r"```text\n(ACL SETUSER [^`]+)```", text)
    assert found is not None
    words = shlex.split(found[1].replace("\n", " ").replace(">", "\\>"))
    assert words[:6] == ["ACL", "SETUSER", "ebbing", "reset", "on", ">PASSWORD"]
    assert words[6:] == service_rules().split()
