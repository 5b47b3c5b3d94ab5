"""Diagnose this shell's installation for `ebbing doctor`: each part's state, and the cause and remedy of each failure.

Modules are imported by the probe that needs them, because a short command shouldn't wait for drivers and frameworks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib import metadata
from typing import Final
from urllib.parse import urlsplit

from app.domain.health_findings import Finding, attention, exposed_secret_finding, ok, trouble
from app.errors import Misconfigured
from app.secret_files import list_cloud_files
from app.secret_settings import list_exposed, list_files
from app.settings import Settings, settings

DYNAMICS_GROUP: Final = "ebbing.dynamics"
"""Entry points of forgetting models; `dynamics_plugins` loads them, but is slow to import."""


def examine() -> Iterator[Finding]:
    """Yield the findings of all probes; those of the stores only if this shell has the URL of one."""
    for probe in PROBES:
        yield from probe()
    if settings().database_url is not None or settings().redis_url is not None:
        from app.services.monitoring import doctor_stores  # noqa: PLC0415 - drivers that most shells don't need

        yield from doctor_stores.examine()


def examine_processes() -> Iterator[Finding]:
    """Yield the findings about workers and beat, if the API doesn't report them; none without the URL of Redis."""
    if settings().redis_url is not None:
        from app.services.monitoring import doctor_stores  # noqa: PLC0415 - as above

        yield from doctor_stores.examine_processes()


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


def embedder_loads() -> Iterator[Finding]:
    """Check that the configured embedding model loads."""
    try:
        from app.clients.embedding.embedder import embedder  # noqa: PLC0415 - heavy import, which may itself be broken

        model = embedder()
    except Misconfigured as error:
        yield trouble("embedder", str(error))
    except Exception as error:  # noqa: BLE001 - any error becomes the finding
        yield trouble(
            "embedder", f"the embedder can't be loaded ({type(error).__name__}: {error})", "install Ebbing again"
        )
    else:
        where = "offline" if model.priced_as is None else "called at the provider"
        token_limit = getattr(model, "reads_tokens", None)
        cut = f", reads the first {token_limit} tokens of a memory" if token_limit else ""
        yield ok("embedder", f"{model.model}, {model.dimensions} dimensions, {where}{cut}")


def reranker_loads() -> Iterator[Finding]:
    """Check that the configured reranker, if any, loads."""
    if settings().reranker == "none":
        yield ok("reranker", "none: results aren't reordered")
        return
    try:
        from app.clients.llm.model_clients import model_clients  # noqa: PLC0415 - possibly heavy, and may itself be broken

        model = model_clients.reranker
    except Exception as error:  # noqa: BLE001 - any error becomes the finding
        yield trouble("reranker", str(error) or type(error).__name__)
        return
    where = "in the process" if model is None or model.priced_as is None else "called at the provider"
    yield ok("reranker", f"{model.model}, {where}" if model else "none")


def dynamics() -> Iterator[Finding]:
    """Check that the forgetting models installed as plugins load and pass their checks."""
    if not (settings().dynamics_files or metadata.entry_points(group=DYNAMICS_GROUP)):
        yield ok("dynamics", "no plugins")
        return
    from app.services.strength import dynamics_plugins  # noqa: PLC0415 - slow to import

    try:
        loaded = dynamics_plugins.load()
    except Misconfigured as error:
        yield trouble("dynamics", str(error))
    else:
        yield ok("dynamics", f"plugins: {', '.join(loaded)}")


def models() -> Iterator[Finding]:
    """Check the model provider that this shell configures, the prices of its models, and the budget limits.

    Whether the service's own provider answers is known only to the service.
    """
    config = settings()
    if not config.has_provider:
        return
    from app.services.tenants import budget  # noqa: PLC0415 - slow to import

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


def secret_files() -> Iterator[Finding]:
    """Check that not every user of this machine may read the files that `…_FILE` variables name."""
    exposed = list_exposed(Settings)
    yield from (exposed_secret_finding(variable, str(path)) for variable, path in exposed)
    if not exposed and (files := [*list_files(Settings), *list_cloud_files()]):
        yield ok("secret_files", f"{len(files)} in use, none readable by all users")


def log_ins() -> Iterator[Finding]:
    """Check that the provider by which people log in to the dashboard answers, if one is set."""
    if settings().oidc_issuer is None:
        return
    from app.clients.oidc_provider import LogInProviderFailed  # noqa: PLC0415 - slow to import
    from app.services.security import log_in  # noqa: PLC0415 - as above

    host = urlsplit(settings().oidc_issuer or "").hostname
    try:
        log_in.check_provider()
    except LogInProviderFailed as failure:
        todo = "check EBBING_OIDC_ISSUER, EBBING_OIDC_HOSTS and the network; API keys still open the dashboard"
        yield attention("log_in_provider", f"{host}, by which people log in to the dashboard, fails: {failure}", todo)
    else:
        yield ok("log_in_provider", f"{host} answers")


PROBES: Final = (embedder_loads, reranker_loads, models, dynamics, cold_storage, secret_files, log_ins)
"""Probes in the order of the report."""
