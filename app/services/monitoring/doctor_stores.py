"""Diagnose PostgreSQL, Redis and what they store, for `ebbing doctor` with the URLs of these servers.

Separate from `doctor`, because most shells have no such URL, and the drivers take half a second to import.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from app.clients.llm.resilience import ProviderFailed
from app.clients.redis.connection import RedisError, check_settings
from app.clients.redis.probing import probe_client
from app.domain.health_findings import Finding, attention, ok, trouble, webhook_findings
from app.domain.operator_advice import advise
from app.errors import Misconfigured
from app.services.embedding import spaces
from app.services.ingest import witness
from app.services.monitoring import installation, probes
from app.services.monitoring.probes import Probe
from app.services.security import encryption_keys, master_keys
from app.services.strength import dynamics_plugins
from app.services.tiers import vector_repair
from app.settings import settings
from app.store.core import database, server_info
from app.store.tenants import tenants
from app.store.tiers import cold_segments
from app.store.webhooks import turns

TENANTS_PER_PAGE: Final = 500


def examine() -> Iterator[Finding]:
    """Yield the findings of all probes, except probes whose stores have no URL or can't be reached."""
    config = settings()
    urls = {"postgresql": config.database_url, "redis": config.redis_url}
    unconfigured = [store for store, url in urls.items() if url is None]
    probe_round = probes.Round(*unconfigured, tolerated=(database.DatabaseError, Misconfigured, ProviderFailed))
    for probe, stores in PROBES:
        yield from probe_round.find(probe, *stores)


def examine_processes() -> Iterator[Finding]:
    """Yield the findings about workers and beat, if the API doesn't report them; none if Redis can't be reached."""
    if settings().redis_url is None:
        return
    try:
        probes.redis_memory()  # has a short timeout: fails soon without Redis
        here = installation.describe()
        yield from (advise(finding, here) for finding in probes.processes())
    except RedisError:
        return


def postgresql() -> Iterator[Finding]:
    """Check the PostgreSQL server, the server and pgvector versions, the schema, and the service role's permissions."""
    try:
        with database.shared() as tx:
            server = server_info.read_versions(tx)
    except database.DatabaseError as error:
        reason = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0]
        yield trouble(
            "postgresql", f"PostgreSQL can't be used ({reason})", "check EBBING_DATABASE_URL, and run `ebbing migrate`"
        )
        return
    yield ok("postgresql", f"version {server.version}")
    if server.pgvector is None:
        todo = "install it on the server, then run `ebbing migrate`"
        yield trouble("pgvector", "the extension pgvector isn't installed in this database", todo)
    else:
        yield ok("pgvector", f"version {server.pgvector}")
    yield from (finding for finding in probes.readiness() if finding.code not in {"postgresql", "redis"})
    if not database.bypasses_row_security():
        yield ok(probes.ROLE, "the service's role can't bypass it")


def redis() -> Iterator[Finding]:
    """Check the Redis server, its version, and the settings that protect accepted data against loss."""
    try:
        client = probe_client()
        version = client.info("server")["redis_version"]
    except RedisError as error:
        yield trouble("redis", f"Redis can't be used ({error})", "check EBBING_REDIS_URL")
        return
    yield ok("redis", f"version {version}")
    try:
        remarks = check_settings(client)
    except Misconfigured as error:
        what, _, todo = str(error).partition(": ")
        yield trouble("redis_settings", what, todo)
        return
    yield from (attention("redis_settings", *remark.split(": ", 1)) for remark in remarks)
    if not remarks:
        yield ok("redis_settings", "noeviction, append-only file")


def queue() -> Iterator[Finding]:
    """Check that Redis has this installation's identity mark, which shows that it wasn't replaced."""
    problem = witness.diagnose_queue()
    if problem is not None:
        what, _, todo = problem.partition("; ")
        yield trouble("redis", what, todo)


def master_key() -> Iterator[Finding]:
    """Check that no stored key is wrapped by an old master key; other probes report missing master keys."""
    configured = [key.key_id for key in encryption_keys.list_master_keys()]
    if not configured or settings().master_key is None or master_keys.find_missing():
        return  # `cold_storage` and `postgresql` report it
    counts = master_keys.count_wrapped()
    old = {key_id: number for key_id, number in counts.items() if key_id != configured[0]}
    todo = "run `ebbing master-key rotate`"
    for key_id, number in old.items():
        by = f"the old master key {key_id}" if key_id else "a master key that isn't recorded"
        yield attention("master_key", f"{number:,} keys of cold storage are wrapped by {by}", todo)
    if not old:
        unused = ", the other master keys wrap none" if len(configured) > 1 else ""
        number = counts.get(configured[0], 0)
        yield ok("master_key", f"{configured[0]} wraps all {number:,} keys of cold storage{unused}")


def archived_vectors() -> Iterator[Finding]:
    """Check that every archived vector has the PCA basis by which it was reduced."""
    broken = affected_tenants = 0
    after = ""
    while True:
        with database.shared() as tx:
            batch = tenants.list_tenants(tx, after, TENANTS_PER_PAGE)
        for tenant in batch:
            vectors = sum(group.memories for group in vector_repair.list_broken(tenant.tenant_id))
            broken += vectors
            affected_tenants += vectors > 0
        if len(batch) < TENANTS_PER_PAGE:
            break
        after = batch[-1].name
    if not broken:
        yield ok("archived_vectors", "each has its PCA basis")
        return
    owners = f"{affected_tenants:,} tenants" if affected_tenants > 1 else "one tenant"
    what = (
        f"{broken:,} archived memories of {owners} are found only by their words, because the PCA basis of their "
        "vectors is missing or damaged"
    )
    todo = (
        "wait for the next night, which computes these vectors again, or run `ebbing maintain archive` for the tenant"
    )
    yield attention("archived_vectors", what, todo)


def cold_keys() -> Iterator[Finding]:
    """Check that the key store holds the key of every record in cold storage."""
    lost = affected_tenants = 0
    after = ""
    while True:
        with database.shared() as tx:
            batch = tenants.list_tenants(tx, after, TENANTS_PER_PAGE)
        for tenant in batch:
            with database.tenant(tenant.tenant_id) as tx:
                without_key = cold_segments.without_key(tx, tenant.tenant_id)
            lost += without_key
            affected_tenants += without_key > 0
        if len(batch) < TENANTS_PER_PAGE:
            break
        after = batch[-1].name
    if not lost:
        yield ok("keys_of_cold_storage", "each text in cold storage has its key")
        return
    owners = f"{affected_tenants:,} tenants" if affected_tenants > 1 else "one tenant"
    what = (
        f"{lost:,} memories of {owners} can't be read out of cold storage: the key store (schema ebbing_keys) lacks "
        "their keys"
    )
    todo = "restore the newest dump of schema ebbing_keys (see ops/runbook.md); without a dump, these texts are lost"
    yield trouble("keys_of_cold_storage", what, todo)


def missing_dynamics() -> Iterator[Finding]:
    """Report forgetting models that are named by policies but aren't installed."""
    for name, count in dynamics_plugins.count_missing().items():
        what = (
            f"{count:,} tenants use the forgetting model {name!r}, which isn't installed: their memories aren't "
            "maintained until it is"
        )
        yield trouble("dynamics", what, dynamics_plugins.missing_remedy(name))


def embedding_spaces() -> Iterator[Finding]:
    """Check that every tenant's search space belongs to the configured embedder."""
    mismatch = spaces.count_other_spaces()
    if mismatch is None:
        yield ok("embedding_spaces", "all tenants are searched with the configured embedder")
    else:
        what = f"{mismatch.tenants:,} tenants are searched with an embedder other than {mismatch.model}"
        yield attention("embedding_spaces", what, spaces.REMEDY)


def webhooks() -> Iterator[Finding]:
    """Report webhooks that were disabled, or whose receivers fail."""
    with database.drain() as tx:
        states = turns.count_states(tx)
    findings = webhook_findings(states)
    yield from (replace(finding, command="ebbing webhooks list") for finding in findings)
    if states and not findings:
        yield ok("webhooks", f"{sum(states.values()):,}, none fails")


PROBES: Final[tuple[tuple[Probe, tuple[str, ...]], ...]] = (
    (postgresql, ("postgresql",)),
    (embedding_spaces, ("postgresql", "schema")),
    (missing_dynamics, ("postgresql", "schema")),
    (archived_vectors, ("postgresql", "schema")),
    (cold_keys, ("postgresql", "schema")),
    (master_key, ("postgresql", "schema")),
    (webhooks, ("postgresql", "schema")),
    (redis, ("redis",)),
    (queue, ("postgresql", "schema", "redis")),
)
"""Probes in the order of the report, each with the stores that it requires."""
