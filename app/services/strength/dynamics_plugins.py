"""Load third-party forgetting models: packages with the entry point `ebbing.dynamics`, and the operator's own files.

Plugins are loaded once at process start, before any work. An invalid plugin prevents the start: an error found only at
night in a worker would leave a tenant's memories unprocessed until morning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final

import structlog

from app.domain.dynamics.custom import CustomParameters, custom
from app.domain.dynamics.profiles import PROFILES, Profile
from app.domain.dynamics.proving import Unfit, register
from app.errors import Misconfigured
from app.services.transient_errors import is_transient
from app.settings import settings
from app.store.core import database
from app.store.tenants import policies

GROUP: Final = "ebbing.dynamics"
PARTS: Final = 2

log = structlog.get_logger(__name__)

_loaded: dict[str, str] = {}


def load() -> dict[str, str]:
    """Load every plugin and register it for policies. Idempotent.

    Returns:
        The origin of each plugin, by name.

    Raises:
        Misconfigured: A plugin is invalid; the message names the plugin and the reason.
    """
    for name, origin, make in _find_plugins():
        if _loaded.get(name) == origin:
            continue
        try:
            register(name, make())
        except Exception as error:
            reason = str(error) if isinstance(error, Unfit) else f"{type(error).__name__}: {error}"
            raise Misconfigured(f"the dynamics {name!r} ({origin}) can't be used: {reason}") from error
        _loaded[name] = origin
    return dict(_loaded)


def check_plugins() -> None:
    """Load every plugin, and log the error if one is invalid.

    Raises:
        Misconfigured: A plugin is invalid.
    """
    try:
        load()
    except Misconfigured as error:
        log.critical("misconfigured", what=str(error))
        raise


def count_missing() -> dict[str, int]:
    """Count the tenants whose policies name a forgetting model that isn't installed, by model."""
    with database.drain() as tx:
        return {name: tenants for name, tenants in policies.count_profiles(tx).items() if name not in PROFILES}


def announce_plugins() -> None:
    """Log the loaded plugins, and the missing plugins, which leave their tenants' memories unprocessed."""
    for name, origin in _loaded.items():
        log.info("dynamics_loaded", name=name, origin=origin)
    try:
        missing = count_missing()
    except Exception as error:
        if not is_transient(error):
            raise
        log.warning("dynamics_unknown", error=type(error).__name__)
        return
    for name, tenants in missing.items():
        log.error("dynamics_missing", name=name, tenants=tenants, remedy=missing_remedy(name))


def missing_remedy(name: str) -> str:
    """Return instructions for a missing model."""
    return f"install the package that brings the dynamics {name!r}, or name its file in EBBING_DYNAMICS_FILES"


def forget() -> None:
    """Unregister all plugins, for tests."""
    for name in _loaded:
        del PROFILES[name]
    _loaded.clear()


def _find_plugins() -> Iterator[tuple[str, str, Callable[[], Profile]]]:
    """Yield the name, the origin and a factory of the profile for each plugin."""
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        package = entry.dist.name if entry.dist is not None else "no package"
        yield entry.name, f"{entry.value} of {package}", partial(_load_package, entry)
    for name, path in settings().dynamics_files.items():
        yield name, str(path), partial(_load_file, name, path)


def _load_package(entry: metadata.EntryPoint) -> Profile:
    """Return the profile of an entry point.

    The entry point names a profile, a pair of a model and its parameters, or a function that returns one of them.
    """
    target = entry.load()
    result = target() if callable(target) and not isinstance(target, type) else target
    if isinstance(result, Profile):
        return result
    if isinstance(result, tuple) and len(result) == PARTS:
        model, parameters = result
        return Profile(model, parameters)
    raise Unfit(f"its entry point must be a Profile, (model, parameters) or a function returning one, not {target!r}")


def _load_file(name: str, path: Path) -> Profile:
    if not path.is_file():
        raise Unfit("there is no such file")
    module_name = f"ebbing_dynamics_{name}"
    spec = util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise Unfit("it isn't a Python file: its name must end in .py")
    module = util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    compute: Any = getattr(module, "compute_decay", None)
    if not callable(compute):
        raise Unfit("it has no function compute_decay(activation, impact, stability, mtype, params)")
    return Profile(custom(name, compute), CustomParameters)
