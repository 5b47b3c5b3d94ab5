"""Let each secret setting come from a file, for `app.settings`."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from app import secret_files
from app.secret_files import SUFFIX

PREFIX: Final = "EBBING_"

log = structlog.get_logger(__name__)


def is_secret(field: FieldInfo) -> bool:
    """Return whether a setting is secret: its type is `SecretStr`."""
    return SecretStr in {field.annotation, *typing.get_args(field.annotation)}


def list_variables(settings: type[BaseSettings]) -> list[str]:
    """Return the variables of the secret settings, each of which may have the suffix `_FILE`."""
    return [PREFIX + name.upper() for name, field in settings.model_fields.items() if is_secret(field)]


class SecretFiles(PydanticBaseSettingsSource):
    """Settings source that reads secrets from files, whose paths are in the environment or a `.env` file."""

    def __init__(self, settings: type[BaseSettings], source: EnvSettingsSource) -> None:
        super().__init__(settings)
        self._variables = source.env_vars

    def list_files(self) -> Iterator[tuple[str, Path]]:
        """Yield the variable of each secret that is in a file, and the file."""
        for variable in list_variables(self.settings_cls):
            path = secret_files.find_file(self._variables, variable.lower())
            if path is not None:
                yield variable, path

    def __call__(self) -> dict[str, Any]:
        """Return the settings that are in files.

        Raises:
            SettingsError: A secret is given twice, or its file can't be used.
        """
        try:
            return {
                variable.removeprefix(PREFIX).lower(): secret_files.read(path, variable + SUFFIX)
                for variable, path in self.list_files()
            }
        except secret_files.UnusableSecret as error:
            raise SettingsError(str(error)) from None

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return no value: `__call__` reads all fields at once."""
        del field
        return None, field_name, False


class SecretFileSettings(BaseSettings):
    """Settings whose secrets may be in files."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - part of the hook
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read secret files before the source that names them; the environment and its files still precede `.env`."""
        sources = [source for source in (env_settings, dotenv_settings) if isinstance(source, EnvSettingsSource)]
        return init_settings, *(each for source in sources for each in (SecretFiles(settings_cls, source), source))


def list_files(settings: type[BaseSettings]) -> list[tuple[str, Path]]:
    """Return the variables that name a secret's file, with the files."""
    sources = (EnvSettingsSource(settings), DotEnvSettingsSource(settings))
    return [
        (variable + SUFFIX, path) for source in sources for variable, path in SecretFiles(settings, source).list_files()
    ]


def list_exposed(settings: type[BaseSettings]) -> list[tuple[str, Path]]:
    """Return those of `list_files`, and of the cloud's files, that every user of this machine may read."""
    files = [*list_files(settings), *secret_files.list_cloud_files()]
    return [(variable, path) for variable, path in files if secret_files.is_exposed(path)]


def warn_of_exposed(settings: type[BaseSettings]) -> None:
    """Log a warning for each secret's file that every user of this machine may read."""
    for variable, path in list_exposed(settings):
        log.warning("secret_readable_by_all", variable=variable, path=str(path), remedy="chmod 400")
