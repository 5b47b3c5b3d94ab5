"""Chapter 9: the examples in `ebbing COMMAND --help` run as written against the service.

Placeholders such as ID are replaced by things that exist. Commands that would ask for confirmation get `--yes`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from app.cli import app
from app.domain.policy.api_keys import SCOPES
from tests.cli.memories.test_import_page import write_files
from tests.fundamentals.service import Service
from tests.installation import make_tenant

NOT_HERE = {
    *("run", "demo", "simulate"),  # start servers of their own: tests/cli and tests/test_embedded.py
    *("api", "worker", "beat", "migrate"),  # are processes of this service
    *("doctor", "master-key"),  # tests/cli/service/test_doctor.py, test_master_key.py
}
ENDLESS = {"ebbing changes --follow"}  # until it is interrupted: tests/cli/memories/test_changes.py
DIRECT = {("keys", "bootstrap"), ("privacy", "replay")}  # need the database: tests/cli and tests/privacy
NO_SUCH_THING = {
    *(("consolidation", "*"), ("dead-letters", "*"), ("supersede", "*"), ("privacy", "*")),
    *(("webhooks", "*"), ("quarantine", "lift")),
    *(("keys", "revoke"), ("jobs", "cancel"), ("tenants", "*"), ("promote",), ("maintain", "notes")),
}
"""Commands whose examples name what only exists after days or failures, or is already done: 404 and 409 are answers."""
ALONE = {"erase", "privacy"}
"""Commands whose examples erase what others need."""
NO_HOST = "has a host name that can't be resolved"
REFUSED = {
    "ebbing webhooks create https://example.org/hook": NO_HOST,
    "ebbing webhooks create https://example.org/hook --type memory.deleted --cloudevents": NO_HOST,
    "ebbing webhooks update ID --receiver https://example.org/new": NO_HOST,
    "ebbing audit verify --anchor 1204:9f3c…": "anchor",
    "ebbing reembed --every-tenant --no-wait": "",
    "ebbing tenants delete ID": "isn't confirmed",
    "ebbing privacy extend ID --reason 'complex request' --months 1 --yes": "only for requests under the GDPR",
}
DUMPS = (("tenant.jsonl",), ("tenant.enc", "--key-file", "dump.key"))
FILES = {
    "memories.jsonl": '{"text": "Orla drinks mint tea", "subject": "orla", "external_id": "fact-1"}\n',
    "notes.txt": "The harbour is quiet in winter\n",
    "chat.json": '{"messages": [{"role": "user", "content": "Where do we meet?"}]}',
    "changes.json": '{"tiers": {"archived_below": 0.4}}',
    "slower.json": '{"tiers": {"archived_below": 0.2}}',
}


def examples(group: TyperGroup, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the examples of all commands, with the names of the command that shows them."""
    for name, command in group.commands.items():
        own = (*names, name)
        assert isinstance(command, TyperCommand | TyperGroup)
        if own[0] in NOT_HERE or own in DIRECT:
            continue
        if isinstance(command, TyperGroup):
            yield from examples(command, own)
        for line in (command.epilog or "").splitlines():
            if (example := line.strip().removeprefix("$ ")).startswith(("ebbing", "zcat", "tail")):
                yield own, example


ROOT = typer.main.get_command(app)
assert isinstance(ROOT, TyperGroup)
EXAMPLES = list(dict.fromkeys((names[0], example) for names, example in examples(ROOT)))


class Shop:
    """A tenant with memories, a link, a hold, an erasure and a job, and the ids for the examples' placeholders."""

    def __init__(self, service: Service, folder: Path) -> None:
        _, self.key = make_tenant(service.database_url, f"examples {folder.name}", SCOPES)
        self.folder, self.url = folder, service.url
        self.memories: list[str] = []
        self.cursor = self.key_id = ""
        write_files(folder)
        (folder / "export.zip").write_bytes((folder / "chatgpt.zip").read_bytes())
        for name, text in FILES.items():
            (folder / name).write_text(text)

    def prepare(self) -> None:
        self.run("policy", "set", "--set=record_searches=true", "--yes")
        self.run("ingest", str(self.folder / "memories.jsonl"), "--wait")
        (self.folder / "more.jsonl").write_text(
            '{"text": "Orla drinks green tea", "subject": "orla", "external_id": "fact-2"}\n'
            '{"text": "Ann sails on Mondays", "subject": "ann", "thread": "chat-17"}\n'
        )
        self.run("ingest", str(self.folder / "more.jsonl"), "--wait")
        found = self.run("search", "tea", "--json")
        self.memories = [each["id"] for each in json.loads(found)["results"]]
        self.run("maintain", "sweep", "--wait")
        self.cursor = json.loads(self.run("changes", "--json"))["next_cursor"]
        other = self.run("keys", "create", "another", "--scope", "ingest", "--json")  # its quarantine hides nothing
        self.key_id = json.loads(other)["key_id"]

    def run(self, *words: str) -> str:
        code, out, err = self.call(list(words))
        assert code == 0, (words, out, err)
        return out

    def call(self, words: list[str], given: str | None = None) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setenv("EBBING_API_URL", self.url)
            patch.setenv("EBBING_API_KEY", self.key)
            patch.setattr("app.logs.configure", lambda _: None)  # would keep the output of this command for all tests
            done = CliRunner().invoke(app, words, input=given, prog_name="ebbing")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, done.stderr

    def id_for(self, names: tuple[str, ...]) -> str:
        """Return the id that a command's placeholder stands for; one that doesn't exist for rare things."""
        match names[0]:
            case "jobs":
                return str(json.loads(self.run("jobs", "--json"))["jobs"][0]["id"])
            case "hold" if names[1] != "place":
                placed = self.run("hold", "place", "--subject", "ann", "--reason", "case 17", "--yes", "--json")
                return str(json.loads(placed)["id"])
            case "erase" | "export":
                nature = "erasure" if names[0] == "erase" else "access"
                return str(json.loads(self.run("privacy", "record", nature, "--law", "gdpr", "--json"))["request_id"])
            case "privacy":
                erased = self.run("erase", "--thread", "none", "--yes", "--json")
                return str(json.loads(erased)["erasure_id"])
            case _:
                return str(self.memories[0])


class Shops(NamedTuple):
    """Two tenants: the examples of erasures have one of their own."""

    usual: Shop
    erasing: Shop


@pytest.fixture(scope="module")
def shops(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Shops:
    made = Shops(*(Shop(service, tmp_path_factory.mktemp("examples")) for _ in Shops._fields))
    service.tick()
    for shop in made:
        shop.prepare()
    return made


@pytest.mark.parametrize("command", list(dict.fromkeys(name for name, _ in EXAMPLES)))
def test_its_examples_run(shops: Shops, command: str) -> None:
    shop = shops.erasing if command in ALONE else shops.usual
    if command in {"dump", "load"}:  # whichever runs first
        for name in DUMPS:
            (shop.folder / name[0]).unlink(missing_ok=True)
            if command == "load":
                shop.run("dump", *name)
    for example in [example for name, example in EXAMPLES if name == command and example not in ENDLESS]:
        names, words, given = _words(example)
        things = {"FROM": shop.memories[0], "TO": shop.memories[1], "NEWER": "fact-2", "OLDER": "fact-1"}
        things |= {"CURSOR": shop.cursor, "KEY_ID": shop.key_id, "DELIVERY": shop.memories[0]}
        written = [things.get(word) or (shop.id_for(names) if word == "ID" else word) for word in words]
        for place, word in enumerate(written):
            if word.endswith(".zip") and command != "import" and (shop.folder / word).exists():
                written[place] = f"{place}-{len(list(shop.folder.iterdir()))}-{word}"
        code, out, err = shop.call(written, given)
        if code and example in REFUSED:
            assert REFUSED[example] in err
        elif code and {(command, "*"), names[:2]} & NO_SUCH_THING:
            assert re.match(r"ebbing: (40[49] |no dead letter has the reason )", err), (example, out, err)
        else:
            assert code == 0, (example, out, err)


def _words(example: str) -> tuple[tuple[str, ...], list[str], str | None]:
    """Return the command's names, its words with `--yes` if it would ask, and its standard input."""
    before, _, rest = example.partition("ebbing ")
    words = shlex.split(re.split(r" (?:\||&&) ", rest)[0])
    command: object = ROOT
    names: list[str] = []
    while isinstance(command, TyperGroup) and len(names) < len(words) and words[len(names)] in command.commands:
        command = command.commands[words[len(names)]]
        names.append(words[len(names)])
    assert isinstance(command, TyperCommand | TyperGroup)
    options = {option for parameter in command.params for option in parameter.opts}
    if "--yes" in options and not {"--yes", "--dry-run"} & set(words):
        words.append("--yes")
    return tuple(names), words, '{"text": "Ann sails"}\n' if before else None
