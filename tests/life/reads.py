"""Reads whose answers must equal the model's, as operations of their own and as checks of everything."""

from __future__ import annotations

import time
from typing import Any, Final

from app.store.core import database
from app.store.memories import tenant_counts
from tests.life.life import Difference, World
from tests.life.model import Remembered, seconds
from tests.life.tier_rules import chance_of_salience
from tests.privacy import traces

STRENGTH_TOLERANCE: Final = 2e-3
CHANCE_TOLERANCE: Final = 1e-6
MOMENT_TOLERANCE: Final = 60.0
OWN: Final = ("subject", "thread", "speaker", "role", "external_id", "kind", "tags")
FOREIGN: Final[tuple[tuple[str, str, dict[str, Any] | None], ...]] = (
    ("GET", "", None),
    ("GET", "/why", None),
    ("GET", "/history", None),
    ("GET", "/lineage", None),
    ("PATCH", "", {"text": "mine"}),
    ("POST", "/touch", {}),
    ("POST", "/restore", None),
    ("DELETE", "", None),
)


def search(world: World) -> None:
    """Search for a memory's own word: it is among the results unless it is hidden, superseded or archived."""
    model = world.model
    memory = world.chance.choice(list(model.memories.values())) if model.memories else None
    if memory is None:
        return
    visible = model.visible()
    reinforce = world.chance.random() < 0.6
    session = world.word()
    tiers = world.chance.choice((["active"], ["active"], ["active", "archived"]))
    asked = {"query": memory.code, "limit": 100, "reinforce": reinforce, "session": session, "tiers": tiers}
    asked["roles"] = [None, "user", "assistant"]
    results = world.call("POST", "/v1/search", json=asked).json()["results"]
    superseded = {older for _, older in model.relations()}
    for result in results:
        check_known(world, result["id"], result["text"])
        if result["id"] in model.memories and result["tier"] not in tiers:
            raise Difference(f"a search in {tiers} returned a memory of the tier {result['tier']}")
        if result["id"] in superseded:
            raise Difference(f"a search returned the superseded memory {result['id']}")
    is_found = memory.id in {each["id"] for each in results}
    if memory.id in visible and memory.tier in tiers and memory.id not in superseded and not is_found:
        raise Difference(f"a search for {memory.code} in {tiers} lacks {memory.id}")
    if reinforce and results:
        world.place.work()
        best = max(result["score"] for result in results)
        for result in results:  # a listed archived memory isn't used
            if result["score"] >= best and result["tier"] == "active" and result["id"] in visible:
                world.count_use(visible[result["id"]], session)
        world.settle()


def recall(world: World) -> None:
    """Recall for a message: nothing hidden, foreign or superseded, and no use."""
    picked = world.pick()
    word = picked[0].code if picked else "boat"
    asked = {"messages": [f"what about {word} and the boat?"], "least": 0}
    superseded = {older for _, older in world.model.relations()}
    for result in world.call("POST", "/v1/recall", json=asked).json()["memories"]:
        check_known(world, result["id"], result["text"])
        if result["id"] in superseded:
            raise Difference(f"a recall returned the superseded memory {result['id']}")


def check_known(world: World, memory_id: str, text: str) -> None:
    """Check that a read may return this memory: a visible one with its text, or a summary without words of others."""
    visible = world.model.visible()
    if memory_id in visible:
        memory = visible[memory_id]
        if memory.tier != "cold" and text != memory.fields["text"]:
            raise Difference(f"memory {memory_id} has the text {text!r}, the model {memory.fields['text']!r}")
        return
    if memory_id in world.model.memories or memory_id in dict(world.model.gone):
        raise Difference(f"the hidden or erased memory {memory_id} is returned")
    check_summary(world, memory_id, text)


def check_summary(world: World, memory_id: str, text: str) -> None:
    """Check that a memory that no caller sent is this tenant's summary, without words of what is hidden or gone."""
    made_by = world.api.service.rows(
        "SELECT made_by FROM memories WHERE tenant_id = %s AND memory_id = %s", world.self.tenant.tenant_id, memory_id
    )
    if made_by != [("consolidation",)]:
        raise Difference(f"a read returned {memory_id}, which this tenant never sent ({made_by})")
    if found := world.model.words_to_hide().intersection(text.replace(",", " ").replace(".", " ").split()):
        raise Difference(f"the summary {memory_id} has words of hidden or erased memories: {sorted(found)}")


def read_one(world: World) -> None:
    """Read one memory, its history and the decision about its tier; or an erased one, which nobody finds."""
    model = world.model
    if model.gone and world.chance.random() < 0.2:
        memory_id, _ = world.chance.choice(model.gone)
        world.call("GET", f"/v1/memories/{memory_id}", 404)
        world.call("GET", f"/v1/memories/{memory_id}/history", 404)
        return
    if not model.memories:
        return
    memory = world.chance.choice(list(model.memories.values()))
    if model.hiding(memory):
        for method, path, body in FOREIGN[:6]:
            world.call(method, f"/v1/memories/{memory.id}{path}", 404, **({} if body is None else {"json": body}))
        return
    name = world.chance.choice([memory.id, *memory.aliases])
    check_fields(world, memory, world.call("GET", f"/v1/memories/{name}").json())
    why = world.call("GET", f"/v1/memories/{name}/why").json()
    check_why(world, memory, why)
    events = world.call("GET", f"/v1/memories/{name}/history", params={"limit": 100}).json()["history"]
    if events[-1]["kind"] != "accepted" or (
        len(events) < 100
        and sum(each["kind"] in {"use", "restored"} for each in events)
        < memory.uses - sum(each["kind"] == "restored" for each in events)
    ):
        raise Difference(f"the history of {memory.id} has {[each['kind'] for each in events]}, uses {memory.uses}")


def check_why(world: World, memory: Remembered, why: dict[str, Any]) -> None:
    """Compare the explained decision, its keep chance and its holds with the model."""
    world.learn_chances()
    wanted = world.model.decide(memory, time.time())
    if why["wanted"] != wanted or bool(why["holds"]) != world.model.held(memory):
        raise Difference(f"why says {why['wanted']} for {memory.id} by {why['rule']}, the model {wanted}")
    shown = why["numbers"]["keep_chance"]
    chance = chance_of_salience(why["numbers"]["salience"]) if memory.is_rated_by_caller else memory.keep_chance
    if (shown is None) != (chance is None) or abs((shown or 0) - (chance or 0)) > CHANCE_TOLERANCE:
        raise Difference(f"why shows the keep chance {shown} of {memory.id}, the model has {chance}")


def check_fields(world: World, memory: Remembered, shown: dict[str, Any]) -> None:
    """Compare a memory as the service returns it with the model."""
    model, now = world.model, time.time()
    wanted: dict[str, Any] = {name: memory.fields[name] for name in OWN}
    wanted |= {"id": memory.id, "tier": memory.tier, "access_count": memory.uses, "made_by": "caller"}
    wanted |= {"multiplier": round(float(memory.state.multiplier[0]), 6)}
    got = {name: shown[name] for name in wanted} | {"multiplier": round(shown["multiplier"], 6)}
    if memory.tier != "cold":
        wanted |= {"text": memory.fields["text"], "metadata": memory.fields["metadata"]}
        got |= {"text": shown["text"], "metadata": shown["metadata"]}
    if "supersedes" in shown:
        relations = model.relations()
        wanted |= {"supersedes": {older for newer, older in relations if newer == memory.id}}
        wanted |= {"superseded_by": {newer for newer, older in relations if older == memory.id}}
        got |= {name: set(shown[name]) for name in ("supersedes", "superseded_by")}
    if got != wanted:
        differing = {name: (got[name], wanted[name]) for name in wanted if got[name] != wanted[name]}
        raise Difference(f"memory {memory.id} (service, model): {differing}")
    strength = float(model.strength(memory, now).strength[0])
    if abs(shown["strength"] - strength) > STRENGTH_TOLERANCE:
        raise Difference(f"memory {memory.id} has the strength {shown['strength']}, the model {strength}")
    if abs(seconds(shown["created_at"]) - memory.accepted_at) > MOMENT_TOLERANCE:
        raise Difference(f"memory {memory.id} was accepted {shown['created_at']}, the model {memory.accepted_at}")


def ask_as_stranger(world: World) -> None:
    """The other tenant's memory doesn't exist for this one, whatever the request."""
    stranger = next(each for each in world.people if each is not world.self)
    if not stranger.model.memories:
        return
    memory_id = world.chance.choice(sorted(stranger.model.memories))
    for method, path, body in FOREIGN:
        world.call(method, f"/v1/memories/{memory_id}{path}", 404, **({} if body is None else {"json": body}))
    world.call("POST", "/v1/observations", 202, json={"ids": [memory_id]})
    world.settle()


def list_all(world: World, path: str, name: str) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    found: list[dict[str, Any]] = []
    given: dict[str, Any] = {"limit": 100}
    while True:
        page = world.call("GET", path, params=given).json()
        found += page[name]
        if not page["next_cursor"]:
            return found
        given["cursor"] = page["next_cursor"]


def check_everything(world: World) -> None:
    """Compare every list and count of both tenants with their models."""
    for person in world.people:
        world.self = person
        visible = person.model.visible()
        listed = list_all(world, "/v1/memories", "memories")
        own = {each["id"]: each for each in listed if each["made_by"] == "caller"}
        if own.keys() != visible.keys():
            only = own.keys() - visible.keys(), visible.keys() - own.keys()
            raise Difference(f"listed but not in the model: {only[0]}, in the model but not listed: {only[1]}")
        for memory_id, memory in visible.items():
            check_fields(world, memory, own[memory_id])
        summaries = [each for each in listed if each["made_by"] != "caller"]
        for each in summaries:
            check_summary(world, each["id"], each["text"])
        check_counts(world, [each["tier"] for each in summaries])
        check_lists(world)


def check_counts(world: World, summary_tiers: list[str]) -> None:
    """Compare the statistics with the model's memories and the listed summaries, and with the rows."""
    stats = world.call("GET", "/v1/stats").json()
    wanted = {tier: count + summary_tiers.count(tier) for tier, count in world.model.counts().items()}
    if stats["memories"] != wanted:
        raise Difference(f"the statistics count {stats['memories']}, the model {wanted}")
    if any(stats["pending"].values()) or stats["dead_letters"]:
        raise Difference(f"work is left over: {stats['pending']}, dead letters: {stats['dead_letters']}")
    with database.tenant(world.self.tenant.tenant_id) as tx:
        drift = tenant_counts.measure_drift(tx, world.self.tenant.tenant_id)
    if drift != tenant_counts.NONE:
        raise Difference(f"the counters differ from the rows by {drift}")


def check_lists(world: World) -> None:
    """Compare links, holds, erasures and jobs with the model."""
    model, visible = world.model, world.model.visible()
    rows = world.api.service.rows(
        "SELECT memory_id::text, other_id::text, kind FROM links WHERE tenant_id = %s AND source = 'caller'",
        world.self.tenant.tenant_id,
    )
    shown = {
        (each["from"], each["to"], each["kind"])
        for each in list_all(world, "/v1/links", "links")
        if each["source"] == "caller"
    }
    hot = {memory_id for memory_id, memory in visible.items() if memory.tier != "cold"}  # links move with the text
    wanted = {link for link in model.links if link[0] in hot and link[1] in visible}
    if shown != wanted or not shown <= set(rows):
        raise Difference(f"links only in the service: {shown - wanted}, only in the model: {wanted - shown}")
    placed = {each["id"] for each in list_all(world, "/v1/privacy/holds", "holds") if each["released_at"] is None}
    if placed != model.holds.keys():
        raise Difference(f"holds {placed}, the model {model.holds.keys()}")
    erasures = {each["id"]: each["status"] for each in list_all(world, "/v1/privacy/erasures", "erasures")}
    differing = {
        erasure.id: (erasures.get(erasure.id), erasure.status)
        for erasure in model.erasures.values()
        if not erasure.is_deletion and erasures.get(erasure.id) != erasure.status
    }
    if differing:
        raise Difference(f"erasures (service, model): {differing}")
    if failed := world.api.service.rows("SELECT kind, error FROM jobs WHERE status = 'failed' AND kind <> 'approve'"):
        raise Difference(f"failed jobs: {failed}")


def check_remains(world: World, since: dict[int, int]) -> None:
    """Verify the audit chains, and that no word of what was erased since the last check is left anywhere."""
    for place, person in enumerate(world.people):
        world.self = person
        verified = world.call("GET", "/v1/privacy/audit/verify").json()
        if not verified["well"]:
            raise Difference(f"the audit chain is broken: {verified}")
        kept = {code for each in person.model.memories.values() for code in each.codes}
        kept |= {each.code for each in person.model.faded}  # in summaries that outlive them
        names = (each.fields["external_id"] for each in person.model.memories.values())
        kept |= {name.split()[-1] for name in names if name}  # a new memory may have the name of a held one
        gone = {code for _, codes in person.model.gone[since.get(place, 0) :] for code in codes} - kept
        since[place] = len(person.model.gone)
        for code in sorted(gone)[:10]:
            found = traces.in_tables(world.api.service, code) + traces.in_redis(world.api.service.redis, code)
            if found := [each for each in found if not each.startswith("ebbing:idem")]:
                rows = [
                    world.api.service.rows(
                        f"SELECT to_jsonb(one) FROM {table} AS one WHERE one::text ILIKE %s",  # noqa: S608 - constants
                        f"%{code}%",
                    )
                    for table in ("memories", "memory_words")
                ]
                erased = [each for each in person.model.gone if code in each[1]]
                raise Difference(f"the word {code} of the erased memory {erased} is in {found}: {rows}")
