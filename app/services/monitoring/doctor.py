"""Diagnose every dependency for `ebbing doctor`: its state, the cause of a failure and the next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from app import heartbeats
from app.clients.llm.resilience import ProviderFailed
from app.clients.redis.redis import RedisError, check_settings, connect
from app.domain import health_findings
from app.errors import Misconfigured
from app.services.embedding import spaces
from app.services.monitoring import probes
from app.services.passing import is_passing
from app.services.strength import plugins
from app.services.tenants import budget
from app.settings import Settings
from app.store.core import database, inspection
from app.store.tenants import tenants
from app.store.tiers import cold

Level = Literal["ok", "warn", "fail"]

TENANTS: Final = 500
DEAD_SECONDS: Final = 30.0
"""Heartbeat silence after which a process counts as dead rather than slow."""


@dataclass(frozen=True)
class Finding:
    """The state of one dependency, with the remedy if it is unhealthy."""

    name: str
    level: Level
    detail: str


def postgresql() -> Iterator[Finding]:
    """Check the PostgreSQL server, the server and pgvector versions, the schema, and the service role's permissions."""
    try:
        with database.shared() as tx:
            server = inspection.server(tx)
    except database.DatabaseError as error:
        reason = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0]
        detail = f"can't be used ({reason}): check EBBING_DATABASE_URL, and run `ebbing migrate`"
        yield Finding("postgresql", "fail", detail)
        return
    yield Finding("postgresql", "ok", f"version {server.version}")
    if server.pgvector is None:
        detail = "isn't installed in this database: install it on the server, then run `ebbing migrate`"
        yield Finding("pgvector", "fail", detail)
    else:
        yield Finding("pgvector", "ok", f"version {server.pgvector}")
    for found in probes.dependencies():
        if found.name not in {"postgresql", "redis"}:
            yield Finding(found.name, "ok" if found.well else "fail", found.detail)
    if not database.bypasses_row_security():
        yield Finding("row-level security", "ok", "the service's role can't bypass it")


def redis() -> Iterator[Finding]:
    """Check the Redis server, its version, and the settings that protect accepted data against loss."""
    try:
        client = connect()
        version = client.info("server")["redis_version"]
    except RedisError as error:
        yield Finding("redis", "fail", f"can't be used ({error}): check EBBING_REDIS_URL")
        return
    yield Finding("redis", "ok", f"version {version}")
    try:
        remarks = check_settings(client)
    except Misconfigured as error:
        yield Finding("redis settings", "fail", str(error))
        return
    for remark in remarks:
        yield Finding("redis settings", "warn", remark)
    if not remarks:
        yield Finding("redis settings", "ok", "noeviction, append-only file")


def cold_storage(config: Settings) -> Iterator[Finding]:
    """Check the configured cold store by a round trip with a probe object, and check that the master key is set."""
    from app.clients.cold_store import StoreFailed, cold_store  # noqa: PLC0415 - heavy import, which may itself be broken

    if config.cold_url is None and not config.home.is_dir():
        yield Finding("cold storage", "ok", "a folder in the home, created on first use")
        return
    try:
        store = cold_store()
        store.probe()
    except (Misconfigured, StoreFailed) as error:
        yield Finding("cold storage", "fail", f"{error}: check EBBING_COLD_URL, and the store's credentials")
        return
    yield Finding("cold storage", "ok", f"{store.name} accepts, returns and deletes objects")
    if config.master_key is None and config.database_url is not None:
        detail = (
            "EBBING_MASTER_KEY isn't set, so no memory can move to cold storage: set the same key for all processes"
        )
        yield Finding("master key", "warn", detail)


def cold_keys() -> Iterator[Finding]:
    """Check that the key store holds the key of every record in cold storage."""
    lost = tenants_with = 0
    after = ""
    try:
        while True:
            with database.shared() as tx:
                some = tenants.page(tx, after, TENANTS)
            for each in some:
                with database.tenant(each.tenant_id) as tx:
                    missing = cold.without_key(tx, each.tenant_id)
                lost += missing
                tenants_with += missing > 0
            if len(some) < TENANTS:
                break
            after = some[-1].name
    except database.DatabaseError:
        return  # already reported by another check
    if not lost:
        yield Finding("keys of cold storage", "ok", "each text in cold storage has its key")
        return
    whose = f"{tenants_with:,} tenants" if tenants_with > 1 else "one tenant"
    detail = (
        f"{lost:,} memories of {whose} can't be read out of cold storage: the key store (schema ebbing_keys) lacks "
        "their keys: restore its newest dump, as ops/runbook.md says; where there is none, their texts are lost"
    )
    yield Finding("keys of cold storage", "fail", detail)


def processes() -> Iterator[Finding]:
    """Report the heartbeat age of each lane's worker and of beat."""
    try:
        ages = heartbeats.ages()
    except Exception as error:
        if not is_passing(error):
            raise
        return  # already reported by another check
    for name, seconds in ages.items():
        yield process(name, seconds)


def process(source: str, silent_seconds: float | None) -> Finding:
    """Rate the heartbeat age of a lane's worker or of beat; None means that it never sent a heartbeat."""
    name = source if source == heartbeats.BEAT else f"lane {source}"
    start = f"start `{health_findings.command(source)}`"
    if silent_seconds is None:
        return Finding(name, "fail", f"no heartbeat yet: {start}")
    if silent_seconds >= health_findings.SILENT_SECONDS:
        level: Level = "fail" if silent_seconds > DEAD_SECONDS else "warn"
        return Finding(name, level, f"silent for {silent_seconds:.0f} s: {start}")
    return Finding(name, "ok", f"last heartbeat {silent_seconds:.0f} s ago")


def embedder_loads() -> Finding:
    """Check that the configured embedding model loads."""
    try:
        from app.clients.embedding.embedder import embedder  # noqa: PLC0415 - heavy import, which may itself be broken

        model = embedder()
    except Misconfigured as error:
        return Finding("embedder", "fail", str(error))
    except Exception as error:  # noqa: BLE001 - any error becomes the finding
        detail = f"doesn't load ({type(error).__name__}: {error}): install Ebbing again"
        return Finding("embedder", "fail", detail)
    where = "offline" if model.priced_as is None else "called at the provider"
    reads = getattr(model, "reads_tokens", None)
    cut = f", reads the first {reads} tokens of a memory" if reads else ""
    return Finding("embedder", "ok", f"{model.model}, {model.dimensions} dimensions, {where}{cut}")


def reranker_loads() -> Finding:
    """Check that the configured reranker, if any, loads."""
    try:
        from app.clients.llm.reranker import reranker  # noqa: PLC0415 - possibly heavy import, which may itself be broken

        model = reranker()
    except Exception as error:  # noqa: BLE001 - any error becomes the finding
        return Finding("reranker", "fail", str(error) or type(error).__name__)
    if model is None:
        return Finding("reranker", "ok", "none: searches return their own order")
    where = "in the process" if model.priced_as is None else "called at the provider"
    return Finding("reranker", "ok", f"{model.model}, {where}")


def dynamics() -> Finding:
    """Check that the forgetting models installed as plugins load and pass their checks."""
    try:
        loaded = plugins.load()
    except Misconfigured as error:
        return Finding("dynamics", "fail", str(error))
    return Finding("dynamics", "ok", f"plugins: {', '.join(loaded)}" if loaded else "no plugins")


def missing_dynamics() -> Iterator[Finding]:
    """Report forgetting models that policies name but that aren't installed."""
    try:
        found = plugins.missing()
    except database.DatabaseError:
        return  # already reported by another check
    for name, naming in found.items():
        detail = f"policies of {naming:,} tenants name {name!r}, whose memories stay unchanged until it is installed"
        yield Finding("dynamics", "fail", f"{detail}: {plugins.remedy(name)}")


def embedding_spaces() -> Iterator[Finding]:
    """Check that every tenant is searched in the configured embedder's space."""
    try:
        found = spaces.elsewhere()
    except (database.DatabaseError, Misconfigured, ProviderFailed):
        return  # already reported by another check
    if found is None:
        yield Finding("embedding spaces", "ok", "all tenants are searched with the configured embedder")
        return
    detail = f"{found.tenants:,} tenants are searched with an embedder other than {found.model}: {spaces.REMEDY}"
    yield Finding("embedding spaces", "warn", detail)


def models(config: Settings) -> Iterator[Finding]:
    """Check the configured model provider, the prices of its models, and the budget limits."""
    if not config.has_provider:
        yield Finding("provider", "ok", "none configured, none required: rules rate memories offline")
        return
    host = config.provider_host
    if not host:
        yield Finding("provider", "fail", "EBBING_OPENAI_BASE_URL isn't an http(s) address such as https://host/v1")
        return
    asked = budget.models(config)
    unpriced = [model for model in asked if model not in config.prices]
    prices = f"no price in PRICES for {', '.join(unpriced)}" if unpriced else "prices are known"
    yield Finding("provider", "ok", f"{', '.join(asked)} at {host}; {prices}")
    yield from _budget(config)


def _budget(config: Settings) -> Iterator[Finding]:
    limits = {name: limit for name, limit in asdict(budget.operators_limits(config)).items() if limit is not None}
    remarks = budget.remarks(config)
    for remark in remarks:
        yield Finding("budget", "fail", remark)
    if not limits:
        yield Finding(
            "budget", "warn", "the cost of models has no limit: set EBBING_BUDGET_TOKENS or EBBING_BUDGET_COST"
        )
    elif not remarks:
        yield Finding("budget", "ok", ", ".join(f"{name} {limit:,} a day" for name, limit in limits.items()))
