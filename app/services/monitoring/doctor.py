"""Diagnose the installation for `ebbing doctor`: each dependency's state, and the cause and remedy of each failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from app.clients.llm.resilience import ProviderFailed
from app.clients.redis.connection import RedisError, check_settings, connect
from app.domain.health_findings import Finding, attention, ok, trouble
from app.domain.operator_advice import advise
from app.errors import Misconfigured
from app.services.embedding import spaces
from app.services.ingest import witness
from app.services.monitoring import installation, probes
from app.services.monitoring.probes import Probe
from app.services.strength import dynamics_plugins
from app.services.tenants import budget
from app.settings import settings
from app.store.core import database, server_info
from app.store.tenants import tenants
from app.store.tiers import cold_segments

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
    """Yield the findings about workers and beat, for a service that can't be asked; none if Redis can't be reached."""
    if settings().redis_url is None:
        return
    try:
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
        yield trouble("postgresql", f"can't be used ({reason})", "check EBBING_DATABASE_URL, and run `ebbing migrate`")
        return
    yield ok("postgresql", f"version {server.version}")
    if server.pgvector is None:
        todo = "install it on the server, then run `ebbing migrate`"
        yield trouble("pgvector", "isn't installed in this database", todo)
    else:
        yield ok("pgvector", f"version {server.pgvector}")
    yield from (finding for finding in probes.readiness() if finding.code not in {"postgresql", "redis"})
    if not database.bypasses_row_security():
        yield ok(probes.ROLE, "the service's role can't bypass it")


def redis() -> Iterator[Finding]:
    """Check the Redis server, its version, and the settings that protect accepted data against loss."""
    try:
        client = connect()
        version = client.info("server")["redis_version"]
    except RedisError as error:
        yield trouble("redis", f"can't be used ({error})", "check EBBING_REDIS_URL")
        return
    yield ok("redis", f"version {version}")
    try:
        remarks = check_settings(client)
    except Misconfigured as error:
        yield trouble("redis_settings", str(error))
        return
    yield from (attention("redis_settings", remark) for remark in remarks)
    if not remarks:
        yield ok("redis_settings", "noeviction, append-only file")


def queue() -> Iterator[Finding]:
    """Check that Redis has this installation's identity mark, which shows that it wasn't replaced."""
    problem = witness.diagnose_queue()
    if problem is not None:
        what, _, todo = problem.partition("; ")
        yield trouble("redis", what, todo)


def cold_storage() -> Iterator[Finding]:
    """Check the configured cold store by a round trip with a probe object, and check that the master key is set."""
    from app.clients.object_store import StoreFailed, cold_store  # noqa: PLC0415 - heavy import, which may itself be broken

    config = settings()
    if config.cold_url is None and not config.home.is_dir():
        yield ok("cold_storage", "a folder in the home, created on first use")
        return
    try:
        store = cold_store()
        store.probe()
    except (Misconfigured, StoreFailed) as error:
        yield trouble("cold_storage", str(error), "check EBBING_COLD_URL, and the store's credentials")
        return
    yield ok("cold_storage", f"{store.name} accepts, returns and deletes objects")
    if config.master_key is None and config.database_url is not None:
        what = "EBBING_MASTER_KEY isn't set, so no memory can move to cold storage"
        yield attention("master_key", what, "set the same key for all processes")


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


def embedder_loads() -> Iterator[Finding]:
    """Check that the configured embedding model loads."""
    try:
        from app.clients.embedding.embedder import embedder  # noqa: PLC0415 - heavy import, which may itself be broken

        model = embedder()
    except Misconfigured as error:
        yield trouble("embedder", str(error))
    except Exception as error:  # noqa: BLE001 - any error becomes the finding
        yield trouble("embedder", f"can't be loaded ({type(error).__name__}: {error})", "install Ebbing again")
    else:
        where = "offline" if model.priced_as is None else "called at the provider"
        token_limit = getattr(model, "reads_tokens", None)
        cut = f", reads the first {token_limit} tokens of a memory" if token_limit else ""
        yield ok("embedder", f"{model.model}, {model.dimensions} dimensions, {where}{cut}")


def reranker_loads() -> Iterator[Finding]:
    """Check that the configured reranker, if any, loads."""
    try:
        from app.clients.llm.model_clients import model_clients  # noqa: PLC0415 - possibly heavy, and may itself be broken

        model = model_clients.reranker
    except Exception as error:  # noqa: BLE001 - any error becomes the finding
        yield trouble("reranker", str(error) or type(error).__name__)
        return
    where = "in the process" if model is None or model.priced_as is None else "called at the provider"
    yield ok("reranker", f"{model.model}, {where}" if model else "none: searches return their own order")


def dynamics() -> Iterator[Finding]:
    """Check that the forgetting models installed as plugins load and pass their checks."""
    try:
        loaded = dynamics_plugins.load()
    except Misconfigured as error:
        yield trouble("dynamics", str(error))
    else:
        yield ok("dynamics", f"plugins: {', '.join(loaded)}" if loaded else "no plugins")


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


def models() -> Iterator[Finding]:
    """Check the model provider that this shell configures, the prices of its models, and the budget limits.

    Whether the service's own provider answers is known only to the service.
    """
    config = settings()
    if not config.has_provider:
        return
    if not config.provider_host:
        yield trouble("models", "EBBING_OPENAI_BASE_URL isn't an http(s) address such as https://host/v1")
        return
    names = budget.list_models(config)
    unpriced = [model for model in names if model not in config.prices]
    prices = f"no price in EBBING_PRICES for {', '.join(unpriced)}" if unpriced else "prices are known"
    yield ok("models", f"{', '.join(names)} at {config.provider_host}; {prices}")
    limits = {name: limit for name, limit in asdict(budget.settings_limits(config)).items() if limit is not None}
    remarks = budget.list_warnings(config)
    yield from (trouble("budget", remark) for remark in remarks)
    if not limits:
        yield attention("budget", "the cost of models has no limit", "set EBBING_BUDGET_TOKENS or EBBING_BUDGET_COST")
    elif not remarks:
        yield ok("budget", ", ".join(f"{name} {limit:,} a day" for name, limit in limits.items()))


PROBES: Final[tuple[tuple[Probe, tuple[str, ...]], ...]] = (
    (embedder_loads, ()),
    (reranker_loads, ()),
    (models, ()),
    (dynamics, ()),
    (postgresql, ("postgresql",)),
    (embedding_spaces, ("postgresql", "schema")),
    (missing_dynamics, ("postgresql", "schema")),
    (cold_keys, ("postgresql", "schema")),
    (cold_storage, ()),
    (redis, ("redis",)),
    (queue, ("postgresql", "schema", "redis")),
)
"""Probes in the order of the report, each with the stores that it requires."""
