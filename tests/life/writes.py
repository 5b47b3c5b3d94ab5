"""Operations that send, edit, use, link and supersede memories."""

from __future__ import annotations

import json
import time
from typing import Any, Final
from uuid import uuid4

from tests.life.life import KINDS, MANY, ROLES, SUBJECTS, TAGS, THREADS, Difference, World
from tests.life.model import Remembered

CLEARED: Final[dict[str, Any]] = {"tags": [], "metadata": {}}


def send(world: World, given: list[dict[str, Any]], codes: list[str], **options: Any) -> list[Remembered]:
    """Send memories in one of the forms of a request, and let the model learn them."""
    key = f"key {world.word()}"
    if world.chance.random() < 0.3 and len(given) > 1:
        options = {"content": "\n".join(map(json.dumps, given)), "headers": {"content-type": "application/x-ndjson"}}
    else:
        options = {"json": given[0] if len(given) == 1 else given, "headers": {}}
    options["headers"]["idempotency-key"] = key
    ids = world.call("POST", "/v1/memories", 202, **options).json()["ids"]
    world.self.requests = [*world.self.requests[-5:], (key, options, ids)]
    learned = [world.learn(*each) for each in zip(ids, codes, given, strict=True)]
    world.settle()
    return learned


def ingest(world: World) -> None:
    if len(world.model.memories) < MANY:
        code, given = world.new_memory()
        send(world, [given], [code])


def ingest_batch(world: World) -> None:
    if len(world.model.memories) < MANY:
        drawn = [world.new_memory() for _ in range(world.chance.randint(2, 6))]
        send(world, [given for _, given in drawn], [code for code, _ in drawn])


def ingest_chat(world: World) -> None:
    if len(world.model.memories) >= MANY:
        return
    codes = [world.word() for _ in range(2)]
    said = zip(("user", "assistant"), codes, strict=True)
    messages = [{"role": role, "content": f"so {code}"} for role, code in said]
    shared = {"subject": world.chance.choice(SUBJECTS), "thread": "harbour"}
    shared = {name: value for name, value in shared.items() if value}
    ids = world.call("POST", "/v1/memories", 202, json={"messages": messages, **shared}).json()["ids"]
    for memory_id, code, message in zip(ids, codes, messages, strict=True):
        world.learn(memory_id, code, {"text": message["content"], "role": message["role"], **shared})
    world.settle()


def repeat_request(world: World) -> None:
    """A repeated request has the first answer; another body under the same key is refused."""
    if not world.self.requests:
        return
    key, options, ids = world.chance.choice(world.self.requests)
    again = world.call("POST", "/v1/memories", 202, **options).json()["ids"]
    if again != ids:
        raise Difference(f"a repeated request returned {again}, first {ids}")
    world.call("POST", "/v1/memories", 409, 422, json={"text": "other"}, headers={"idempotency-key": key})
    world.settle()


def upsert(world: World) -> None:
    """Send a memory again under its external id: it is updated, and the new id is an alias."""
    known = [each for each in world.model.visible().values() if each.fields["external_id"] and not each.is_lost]
    if not known:
        return
    memory = world.chance.choice(known)
    code, given = world.new_memory()
    given |= {"external_id": memory.fields["external_id"]}
    [new_id] = world.call("POST", "/v1/memories", 202, json=given).json()["ids"]
    if world.model.held(memory):
        memory.fields["external_id"] = None
        world.count_outcome("external id of a held memory sent again")
        world.learn(new_id, code, given)
        world.settle()
        return
    world.count_outcome(f"external id sent again: {memory.tier}")
    was_subject = memory.fields["subject"]
    fields = {name: given.get(name) for name in memory.fields}
    memory.fields = fields | {name: given.get(name, empty) for name, empty in CLEARED.items()}
    memory.code = code
    memory.codes.append(code)
    memory.aliases.append(new_id)
    now = time.time()
    inputs: dict[str, float] = {name: given[name] for name in ("salience", "multiplier") if name in given}
    if given.get("kind") is not None:
        inputs["kind"] = KIND_NUMBERS[given["kind"]]
    memory.is_rated_by_caller |= "salience" in inputs
    world.model.change_inputs(memory, now, **inputs)
    world.model.restore(memory, now)
    memory.is_scored = False
    world.settle()
    if was_subject != fields["subject"]:
        drop_cross_subject(world, memory)


def edit(world: World) -> None:
    """Edit some fields; a hold refuses changes of content, cold storage all."""
    picked = world.pick()
    if not picked:
        return
    [memory] = picked
    code, text = world.text()
    choices: dict[str, Any] = {
        "text": text,
        "tags": world.chance.sample(TAGS, 1),
        "subject": world.chance.choice(SUBJECTS),
        "thread": world.chance.choice(THREADS),
        "role": world.chance.choice(ROLES),
        "kind": world.chance.choice(KINDS),
        "salience": world.chance.choice((0.0, 0.1, 0.9)),
        "multiplier": world.chance.choice((0.5, 1.0, 2.0)),
        "metadata": {"edit": code},
    }
    names = world.chance.sample(sorted(choices), world.chance.choice((1, 1, 2, 3)))
    changes = {name: choices[name] for name in names}
    content = changes.keys() - {"salience", "multiplier"}
    if (content and world.model.held(memory)) or memory.tier == "cold":
        world.call("PATCH", f"/v1/memories/{memory.id}", 409, json=changes)
        return
    world.call("PATCH", f"/v1/memories/{memory.id}", json=changes)
    now = time.time()
    world.count_outcome(f"edited: {memory.tier}")
    world.model.restore(memory, now)
    if "text" in changes:
        memory.code = code
        memory.codes.append(code)
    if "metadata" in changes:
        memory.codes.append(code)
    memory.fields |= {name: changes[name] for name in content}
    inputs: dict[str, float] = {name: changes[name] for name in ("salience", "multiplier") if name in changes}
    if "kind" in changes:
        inputs["kind"] = KIND_NUMBERS[changes["kind"] or "episodic"]
    memory.is_rated_by_caller |= "salience" in inputs
    world.model.change_inputs(memory, now, **inputs)
    if {"text", "thread", "role", "subject", "kind", "speaker"} & changes.keys():
        memory.is_scored = False
    world.settle()
    if "subject" in changes:
        drop_cross_subject(world, memory)


KIND_NUMBERS: Final = {"episodic": 0, "semantic": 1, "procedural": 2, "emotional": 3, "system": 4}


def drop_cross_subject(world: World, memory: Remembered) -> None:
    """Reject the supersessions between memories whose subjects differ now."""
    for pair, status in world.model.supersessions.items():
        if status == "active" and memory.id in pair:
            newer, older = (world.model.memories[each] for each in pair)
            if newer.fields["subject"] != older.fields["subject"]:
                world.model.supersessions[pair] = "rejected"


def touch(world: World) -> None:
    """Report a use of one memory; the answer has the effect."""
    picked = world.pick()
    if not picked:
        return
    [memory] = picked
    session = world.chance.choice(("one", world.word()))
    answer = world.call("POST", f"/v1/memories/{memory.id}/touch", json={"session": session}).json()
    world.count_use(memory, session)
    if answer["access_count"] != memory.uses:
        raise Difference(f"a touch returned {answer['access_count']} uses, the model {memory.uses}")
    fetch_cold(world, [memory])


def observe(world: World) -> None:
    """Report uses of several memories, one of them unknown."""
    picked = world.pick(number=2) or world.pick()
    session = world.chance.choice(("one", "two", world.word()))
    ids = [each.aliases[-1] if each.aliases and world.chance.random() < 0.5 else each.id for each in picked]
    world.call("POST", "/v1/observations", 202, json={"ids": [*ids, str(uuid4())], "session": session})
    world.place.work()
    for memory in picked:
        world.count_use(memory, session)
    fetch_cold(world, picked)


def fetch_cold(world: World, used: list[Remembered]) -> None:
    """Let the job that a use of cold memories starts fetch them."""
    world.settle()
    for memory in used:
        if memory.tier == "cold":
            world.model.restore(memory, time.time())


def link(world: World) -> None:
    if pair := world.pick(tier="active", number=2):
        one, other = pair
        kind = world.chance.choice(("next", "about"))
        world.call("POST", "/v1/links", json={"from": one.id, "to": other.id, "kind": kind})
        world.model.links[one.id, other.id, kind] = None


def unlink(world: World) -> None:
    visible = world.model.visible()
    known = [each for each in world.model.links if each[0] in visible and each[1] in visible]
    known = [each for each in known if visible[each[0]].tier != "cold"]
    if known:
        one, other, _ = world.chance.choice(known)
        world.call("DELETE", "/v1/links", params={"from": one, "to": other})
        world.model.links = {each: None for each in world.model.links if each[:2] != (one, other)}


def supersede(world: World) -> None:
    """Let one memory supersede another, by a request of its own."""
    pair = world.pick(number=2)
    if not pair:
        return
    newer, older = pair
    asked = {"memory": newer.id, "supersedes": older.id}
    if world.model.against(newer.id, older.id):
        world.call("POST", "/v1/supersessions", 409, json=asked)
        return
    world.call("POST", "/v1/supersessions", json=asked)
    world.model.supersessions[newer.id, older.id] = "active"


def supersede_in_request(world: World) -> None:
    """Send a memory that supersedes another one of the same subject."""
    picked = world.pick()
    if not picked or len(world.model.memories) >= MANY:
        return
    [older] = picked
    code, given = world.new_memory()
    given |= {"supersedes": older.fields["external_id"] or older.id}
    [newer] = send(world, [given], [code])
    same = newer.fields["subject"] == older.fields["subject"]
    world.model.supersessions[newer.id, older.id] = "active" if same else "rejected"


def decide_supersession(world: World) -> None:
    """Undo an active supersession, or approve a rejected one."""
    listed = world.call("GET", "/v1/supersessions", params={"limit": 100}).json()["supersessions"]
    pairs = {(each["memory"]["id"], each["superseded"]["id"]): each for each in listed if each.get("superseded")}
    if not pairs:
        return
    pair = world.chance.choice(sorted(pairs))
    found = pairs[pair]
    if found["status"] == "active":
        world.call("DELETE", f"/v1/supersessions/{found['id']}", 204)
        world.model.supersessions[pair] = "rejected"
    elif world.model.against(*pair):
        world.call("POST", f"/v1/supersessions/{found['id']}/approve", 409)
    else:
        world.call("POST", f"/v1/supersessions/{found['id']}/approve")
        world.model.supersessions[pair] = "active"
