"""The settings' sources with a memory: pydantic-settings takes milliseconds to parse the same environment again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pydantic_settings import EnvSettingsSource

from app.secret_settings import SecretFiles
from app.settings import Settings

Source = Callable[[], dict[str, Any]]
_PREFIX = str(Settings.model_config["env_prefix"]).lower()


class RememberedSource:
    """A source of settings that parses equal variables once."""

    _parsed: ClassVar[dict[tuple[object, ...], dict[str, Any]]] = {}

    def __init__(self, source: EnvSettingsSource) -> None:
        """Read from this source, which has its variables already."""
        self._source = source

    def __call__(self) -> dict[str, Any]:
        given = sorted((name, value) for name, value in self._source.env_vars.items() if name.startswith(_PREFIX))
        key = type(self._source), *given
        if key not in self._parsed:
            self._parsed[key] = self._source()
        return dict(self._parsed[key])


def remember() -> None:
    """Let `Settings` read the environment and `.env` through `RememberedSource`."""

    def with_memory(
        settings_cls: type[Settings],
        init_settings: Source,
        env_settings: EnvSettingsSource,
        dotenv_settings: EnvSettingsSource,
        file_secret_settings: Source,
    ) -> tuple[Source, ...]:
        sources: list[Source] = []
        for source in (env_settings, dotenv_settings):
            sources += [SecretFiles(settings_cls, source), RememberedSource(source)]
        return init_settings, *sources, file_secret_settings

    Settings.settings_customise_sources = staticmethod(with_memory)  # type: ignore[method-assign,assignment]
