"""Operations on tiers, holds, erasures, exports, merges, policies and backups, and the clock."""

from __future__ import annotations

import io
import json
import time
from typing import Any, Final
from zipfile import ZipFile

from app.domain.policy.policy import Policy
from tests.life.life import MANY, Difference, World
from tests.life.model import KnownErasure, Model, seconds
from tests.life.reads import list_all

MOVES: Final = {"archive": ("active", "archived"), "cold": ("archived", "cold"), "delete": ("cold", "deleted")}
GRACE_DAYS: Final = (0, 0, 5, 10)
ALIKE: Final = "the old boat lies in the harbour and waits for rain while fishermen drink tea and mend their nets, {}"
SETTLED_DAYS: Final = 8
THRESHOLDS: Final = (0.03, 0.11, 0.11, 0.4)
LOWER: Final = ("active", "archived", "cold", "deleted")


def advance(world: World) -> None:
    """Move the clock on, and carry out what has come due."""
    world.advance(world.chance.choice((1, 2, 5, 8, 20, 45)))
    finish_due(world)


def finish_due(world: World) -> None:
    """Carry out the erasures whose grace period is over, each person's deletions by a night."""
    world.place.work()
    for person in world.people:
        world.place.erase_due(person.tenant)
        now = time.time()
        for erasure in list(person.model.erasures.values()):
            if erasure.status == "grace" and erasure.erase_after <= now:
                person.model.finish(erasure)
                world.count_outcome(f"erasure {erasure.status} after its grace")
    world.settle()


def move(world: World) -> None:
    """Start one kind of maintenance by hand; the pure decision says which memories it moves."""
    kind = world.chance.choice(("sweep", *MOVES))
    if kind == "delete":  # deletes by the decision of the last sweep, without one of its own
        world.call("POST", "/v1/maintenance/sweep", 202, json={})
        world.settle()
    world.learn_chances()
    wanted = {memory.id: world.model.decide(memory, time.time()) for memory in world.model.visible().values()}
    world.call("POST", f"/v1/maintenance/{kind}", 202, json={})
    world.settle()
    if kind == "sweep":
        check_wanted(world, wanted)
        return
    source, target = MOVES[kind]
    for memory in list(world.model.visible().values()):
        if memory.tier == source and LOWER.index(wanted[memory.id]) >= LOWER.index(target):
            world.count_outcome(f"moved to {target}")
            if target == "deleted":
                world.model.fade(memory)
            else:
                memory.tier = target


def check_wanted(world: World, wanted: dict[str, str]) -> None:
    rows = world.api.service.rows(
        "SELECT memory_id::text, wanted_tier FROM memory_state JOIN memories USING (tenant_id, memory_id) "
        "WHERE tenant_id = %s AND deleted_at IS NULL AND made_by = 'caller'",
        world.self.tenant.tenant_id,
    )
    held = {memory.id for memory in world.model.visible().values() if world.model.held(memory)}
    differing = {one: (tier, wanted.get(one)) for one, tier in rows if wanted.get(one) != tier and one not in held}
    if differing:  # of held memories, an earlier decision stays, which moves look at again
        raise Difference(f"a sweep decided otherwise (service, model): {differing}")


def restore(world: World) -> None:
    """Restore a memory, at once from the archive, by a job from cold storage."""
    tier = world.chance.choice(("active", "archived", "archived", "cold", "cold"))
    picked = world.pick(tier=tier)
    if picked:
        [memory] = picked
        answer = world.call("POST", f"/v1/memories/{memory.id}/restore", 202 if tier == "cold" else 200)
        if tier != "cold" and answer.json()["tier"] != "active":
            raise Difference(f"a restored memory is {answer.json()['tier']}")
        world.model.restore(memory, time.time())
        world.count_outcome(f"restored from {tier}")
        world.settle()


def hold(world: World) -> None:
    """Place a hold on some memories or on a subject."""
    if len(world.model.holds) >= 3:
        return
    picked = world.pick(number=2)
    scope: dict[str, Any] = {"subject": world.chance.choice(("ann", "bob"))}
    if picked and world.chance.random() < 0.7:
        scope = {"ids": [each.id for each in picked]}
    made = world.call("POST", "/v1/privacy/holds", 201, json={"reason": "dispute", **scope}).json()
    world.model.holds[made["id"]] = scope


def release(world: World) -> None:
    """Release a hold; the erasures that waited for it go on at once."""
    if not world.model.holds:
        return
    hold_id = world.chance.choice(list(world.model.holds))  # in order of placement: ids differ from run to run
    world.call("POST", f"/v1/privacy/holds/{hold_id}/release", json={})
    del world.model.holds[hold_id]
    world.place.work()
    for erasure in list(world.model.erasures.values()):
        if erasure.status == "held":
            world.model.finish(erasure)
            world.count_outcome(f"erasure {erasure.status} after a release")
    world.settle()


def delete(world: World) -> None:
    """Delete one memory: it is gone at once, and erased after its grace period; a hold refuses."""
    picked = world.pick()
    if not picked:
        return
    [memory] = picked
    if world.model.held(memory):
        world.call("DELETE", f"/v1/memories/{memory.id}", 409)
        return
    made = world.call("DELETE", f"/v1/memories/{memory.id}", 202).json()
    after = seconds(made["erase_after"])
    world.model.erasures[made["erasure_id"]] = KnownErasure(
        made["erasure_id"], {"ids": [memory.id]}, after, is_deletion=True
    )
    again = world.call("DELETE", f"/v1/memories/{memory.id}", 202).json()
    if again["erasure_id"] != made["erasure_id"]:
        raise Difference("a repeated deletion made another erasure")
    world.settle()


def erase(world: World) -> None:
    """Request an erasure by subject, thread or ids; it hides at once, and without grace it is carried out now."""
    if sum(each.status in {"grace", "held"} and not each.is_deletion for each in world.model.erasures.values()) >= 2:
        return
    days = world.chance.choice(GRACE_DAYS)
    scope: dict[str, Any] = {"subject": world.chance.choice(("ann", "bob", "carol", "dave"))}
    picked = world.pick(number=2)
    if world.chance.random() < 0.6 and picked:
        scope = {"ids": [each.id for each in picked]}
    elif world.chance.random() < 0.2:
        scope = {"thread": "quay"}
    asked = {"filter": scope} if "thread" in scope else scope
    made = world.call(
        "POST", "/v1/privacy/erasures", 202, json={**asked, "kind": "gdpr", "grace_days": days, "reason": "asked"}
    ).json()
    erasure = KnownErasure(made["id"], scope, seconds(made["erase_after"]))
    hidden = [each for each in world.model.visible().values() if erasure.matches(each)]
    world.model.erasures[made["id"]] = erasure
    if days == 0:
        world.place.work()
        world.model.finish(erasure)
    world.settle()
    for memory in world.chance.sample(hidden, min(2, len(hidden))):
        world.call("GET", f"/v1/memories/{memory.id}", 404)


def cancel(world: World) -> None:
    """Cancel an erasure in its grace period: what no other erasure hides is back as it was."""
    waiting = [each for each in world.model.erasures.values() if each.status == "grace"]
    if not waiting:
        return
    erasure = world.chance.choice(waiting)
    before = world.model.visible()
    world.call("POST", f"/v1/privacy/erasures/{erasure.id}/cancel")
    active = world.model.relations()
    erasure.status = "cancelled"
    back = {memory_id: memory for memory_id, memory in world.model.visible().items() if memory_id not in before}
    taken = {each.fields["external_id"] for each in before.values()} - {None}
    for memory in back.values():
        if memory.fields["external_id"] in taken:
            memory.fields["external_id"] = None
            world.count_outcome("external id in use after a cancellation")
    world.count_outcome("memories back after a cancellation" if back else "cancellation without memories")
    for pair in sorted(world.model.relations() - active, reverse=True):
        world.model.supersessions[pair] = "hidden"
        world.model.supersessions[pair] = "rejected" if world.model.against(*pair) else "active"
    world.settle()


def export(world: World) -> None:
    """Export a subject's data, which is all that the model has about the subject, hidden memories too."""
    subject = world.chance.choice(("ann", "bob", "carol"))
    asked = world.call("POST", "/v1/privacy/exports", 202, json={"subject": subject}).json()
    world.settle()
    archive = world.call("GET", f"/v1/privacy/exports/{asked['id']}/file").content
    with ZipFile(io.BytesIO(archive)) as opened:
        names = opened.namelist()
        lines = opened.read("memories.jsonl").splitlines() if "memories.jsonl" in names else []
    found = [json.loads(line)["memory"] for line in lines]
    everything = [each for each in world.model.memories.values() if not each.is_lost]
    lost = world.model.memories.keys() - {each.id for each in everything}
    sent = [each for each in found if each["made_by"] == "caller" and each["memory_id"] not in lost]
    own = {each["memory_id"]: each["text"] for each in sent}
    wanted = {each.id: each.fields["text"] for each in everything if each.fields["subject"] == subject}
    world.count_outcome("export with memories" if own else "empty export")
    if own != wanted:
        raise Difference(f"an export of {subject} has {own}, the model {wanted}")


def change_policy(world: World) -> None:
    """Change how memories fade, and which keep chances protect them; the present strengths stay."""
    parameters = {"base_per_day": world.chance.choice((0.05, 0.1, 0.2))}
    changed: dict[str, Any] = {"forgetting": {"profile": "spec", "parameters": parameters}}
    thresholds = [world.chance.choice(THRESHOLDS) for _ in range(2)]
    if world.model.eras[-1][2].protection.salience_above is None:
        changed |= {"protection": {"keep_chance_above": thresholds[0]}}
        changed |= {"tiers": {"deleted_keep_chance_below": thresholds[1]}}
    made = world.call("PUT", "/v1/policy", json={"policy": changed}).json()
    if made["changes"]:
        body = world.api.service.one(
            "SELECT body::text FROM policies WHERE tenant_id = %s AND version = %s",
            world.self.tenant.tenant_id,
            made["version"],
        )
        world.model.eras.append((made["version"], seconds(made["effective_at"]), Policy.load_stored(body)))
    world.settle()


def consolidate(world: World) -> None:
    """Propose merges, mostly after sending similar memories with ids of days ago, and letting these days pass."""
    if world.chance.random() < 0.7 and len(world.model.memories) < MANY:
        subject, codes = world.chance.choice(("ann", "bob", "carol")), [world.word() for _ in range(6)]
        given = [{"text": ALIKE.format(code), "subject": subject} for code in codes]
        ids = world.api.service.send(world.self.tenant.tenant_id, *given, days=SETTLED_DAYS)
        for memory_id, code, each in zip(ids, codes, given, strict=True):
            world.learn(str(memory_id), code, each, time.time())
        world.settle()
        world.advance(SETTLED_DAYS)
        finish_due(world)
        tenant_id = world.self.tenant.tenant_id
        world.api.service.rows("DELETE FROM consolidation_marks WHERE tenant_id = %s", tenant_id)
    world.call("POST", "/v1/maintenance/consolidate", 202, json={})
    world.settle()


def decide_merge(world: World) -> None:
    """Approve, reject or undo a merge, and learn from its lineage which memories it has taken or given back."""
    merges = world.call("GET", "/v1/consolidation/merges", params={"limit": 100}).json()["merges"]
    open_merges = [each for each in merges if each["status"] in {"waiting", "done"}]
    if not open_merges:
        return
    merge = world.chance.choice(open_merges)
    at = f"/v1/consolidation/merges/{merge['id']}"
    if merge["status"] == "done":
        undone = world.call("POST", f"{at}/undo", 200, 409)
        world.settle()
        world.count_outcome(f"merge undone: {undone.status_code}")
        if undone.status_code == 200:
            take_tiers(world, {"archived": {"active"}})
    elif world.chance.random() < 0.8:
        world.call("POST", f"{at}/approve", 202)
        world.settle()
        take_tiers(world, {"active": {"archived"}})
    else:
        world.call("POST", f"{at}/reject")


def take_tiers(world: World, allowed: dict[str, set[str]]) -> None:
    """Take the tiers of memories from the service, if they have changed in a way that the operation may cause."""
    tiers = {each["id"]: each["tier"] for each in list_all(world, "/v1/memories", "memories")}
    for memory in world.model.visible().values():
        tier = tiers[memory.id]
        if tier != memory.tier:
            if tier not in allowed.get(memory.tier, set()) or (tier == "archived" and world.model.held(memory)):
                raise Difference(f"a merge has moved {memory.id} from {memory.tier} to {tier}")
            lineage = world.call("GET", f"/v1/memories/{memory.id}/lineage").json()
            if not lineage["merged_into"]:
                raise Difference(f"memory {memory.id} has moved to {tier} without a merge")
            world.count_outcome(f"merges moved to {tier}")
            memory.tier = tier


def back_up(world: World) -> None:
    """Copy the data of the installation, and the model with it."""
    world.backup = world.place.back_up()
    for person in world.people:
        person.former = [(person.model.copy(), dict(person.counted))]


def restore_backup(world: World) -> None:
    """Restore the copy: all is as it was then, but for what was erased or asked to be erased since."""
    if world.backup is None:
        return
    backup, world.backup = world.backup, None
    days = world.place.days - backup.days
    world.place.restore(backup)
    for person in world.people:
        [(model, counted)] = person.former
        since = person.model
        model.shift(days)
        person.model, person.counted = model, {key: at - days * 86_400 for key, at in counted.items()}
        person.requests = []
        lose_texts(world, model, since)
        replay(world, model, since)
        for erasure in model.erasures.values():
            if erasure.status == "grace":  # the key store's copy of a request has the dates of its day, as JSON
                world.self = person
                shown = world.call("GET", f"/v1/privacy/erasures/{erasure.id}").json()
                erasure.erase_after = seconds(shown["erase_after"])
    finish_due(world)


def lose_texts(world: World, model: Model, since: Model) -> None:
    """Mark the memories that are in cold storage in the copy, and whose keys were destroyed since."""
    for memory in model.memories.values():
        later = since.memories.get(memory.id)
        if memory.tier == "cold" and (later is None or later.thaws != memory.thaws):
            memory.is_lost = True
            world.count_outcome("text lost with its key")


def replay(world: World, model: Model, since: Model) -> None:
    """Let the copy's model know what the key store knows: erasures, requests and holds since the copy was made."""
    known = {each.id for each in model.erasures.values() if each.status == "verified"}
    erased = [each for each in since.erasures.values() if each.status in {"verified", "held"} and each.id not in known]
    model.later_holds = since.holds.keys() - model.holds.keys()
    model.holds = dict(since.holds) | model.holds
    model.erased_before = {memory_id for memory_id, _ in since.gone}.difference(each.id for each in since.faded)
    model.accepted = since.accepted
    for erasure in erased:
        model.erasures.pop(erasure.id, None)  # the replay of one that finds nothing here isn't listed
        model.finish(erasure)
        if erasure.status == "held":
            model.erasures[erasure.id] = erasure
    model.later_holds, model.erased_before = set(), set()
    for erasure in since.erasures.values():
        if erasure.status == "grace":
            model.erasures[erasure.id] = erasure
    model.gone += [each for each in since.gone if each[0] not in model.memories and each not in model.gone]
    world.count_outcome("erased since the backup" if erased else "nothing erased since the backup")
