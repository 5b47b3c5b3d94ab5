"""Secrets in files: every secret setting has a `…_FILE` variable, read as the other sources are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.cli.core.connection import find_connection, load_settings
from app.cli.core.errors import CommandFailure
from app.secret_files import MAX_BYTES
from app.secret_settings import list_exposed, list_variables
from app.settings import Settings, settings
from app.supervisor.service_children import service_children

SECRET = "a secret as long as the longest lower limit demands"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in list_variables(Settings):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def put(folder: Path, text: str = f"{SECRET}\n", name: str = "secret", mode: int = 0o600) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("variable", list_variables(Settings))
@pytest.mark.parametrize("lower", [False, True])
def test_each_secret_setting_can_be_in_a_file(
    variable: str, lower: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{variable}_FILE"
    secret = {"EBBING_REDIS_URL": f"redis://{SECRET}"}.get(
        variable, f"postgresql://{SECRET}" if variable.endswith("DATABASE_URL") else SECRET
    )
    monkeypatch.setenv(name.lower() if lower else name, put(folder, f"{secret}\n"))
    found = getattr(Settings(), variable.removeprefix("EBBING_").lower())
    assert found.get_secret_value() == secret


def test_the_secret_settings_are_those_that_a_log_must_not_show() -> None:
    assert {"EBBING_DATABASE_URL", "EBBING_OWNER_DATABASE_URL", "EBBING_REDIS_URL", "EBBING_API_KEY"} < set(
        list_variables(Settings)
    )
    assert {"EBBING_METRICS_TOKEN", "EBBING_OPENAI_API_KEY", "EBBING_MASTER_KEY", "EBBING_OTHER_MASTER_KEYS"} < set(
        list_variables(Settings)
    )


@pytest.mark.parametrize(
    ("text", "secret"), [(f"{SECRET}\r\n", SECRET), (f" {SECRET}\n\n", f" {SECRET}\n"), (SECRET, SECRET)]
)
def test_only_one_newline_is_removed(text: str, secret: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "secret"
    path.write_bytes(text.encode())
    monkeypatch.setenv("EBBING_MASTER_KEY_FILE", str(path))
    key = Settings().master_key
    assert key is not None
    assert key.get_secret_value() == secret


def test_a_secret_given_twice_is_refused_unless_one_of_them_is_empty(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_REDIS_URL_FILE", put(folder, "redis://from-file"))
    monkeypatch.setenv("EBBING_REDIS_URL", "redis://elsewhere")
    with pytest.raises(SettingsError, match="EBBING_REDIS_URL and EBBING_REDIS_URL_FILE are both set"):
        Settings()
    monkeypatch.setenv("EBBING_REDIS_URL", "")
    assert str(Settings().redis_url) == "**********"
    monkeypatch.setenv("EBBING_REDIS_URL_FILE", "")
    monkeypatch.setenv("EBBING_REDIS_URL", "redis://elsewhere")
    given = Settings().redis_url
    assert given is not None
    assert given.get_secret_value() == "redis://elsewhere"


def test_the_environment_precedes_the_env_file_with_and_without_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dotenv = folder / ".env"
    dotenv.write_text(f"EBBING_REDIS_URL_FILE={put(folder, 'redis://from-file')}\n")
    found = Settings().redis_url
    assert found is not None
    assert found.get_secret_value() == "redis://from-file"
    monkeypatch.setenv("EBBING_REDIS_URL", "redis://from-environment")
    found = Settings().redis_url
    assert found is not None
    assert found.get_secret_value() == "redis://from-environment"
    monkeypatch.delenv("EBBING_REDIS_URL")
    dotenv.write_text("EBBING_REDIS_URL=redis://from-dotenv\n")
    monkeypatch.setenv("EBBING_REDIS_URL_FILE", put(folder, "redis://from-file"))
    found = Settings().redis_url
    assert found is not None
    assert found.get_secret_value() == "redis://from-file"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "can't be read (No such file or directory)"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff\xfe" * 20, "isn't UTF-8"),
        (b"x" * (MAX_BYTES + 1), f"has more than {MAX_BYTES} bytes"),
    ],
)
def test_an_unusable_file_is_refused_with_its_name_and_the_reason(
    content: bytes | None, reason: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "secret"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("EBBING_METRICS_TOKEN_FILE", str(path))
    with pytest.raises(SettingsError) as caught:
        Settings()
    assert str(caught.value) == f"EBBING_METRICS_TOKEN_FILE: {path} {reason}"
    settings.cache_clear()
    with pytest.raises(CommandFailure, match="EBBING_METRICS_TOKEN_FILE"):
        load_settings()


def test_limits_hold_for_secrets_in_files_and_their_errors_do_not_show_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_MASTER_KEY_FILE", put(folder, "too short"))
    with pytest.raises(ValidationError, match="master_key") as caught:
        Settings()
    assert "too short" not in str(caught.value.errors(include_url=False, include_input=False))


def test_a_file_that_everybody_may_read_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = put(folder), put(folder, name="public", mode=0o644)
    monkeypatch.setenv("EBBING_MASTER_KEY_FILE", private)
    (folder / ".env").write_text(f"EBBING_REDIS_URL_FILE={public}\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY_FILE", public)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID_FILE", private)
    assert list_exposed(Settings) == [
        ("EBBING_REDIS_URL_FILE", Path(public)),
        ("AWS_SECRET_ACCESS_KEY_FILE", Path(public)),
    ]


def test_commands_that_only_call_the_api_read_their_key_from_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_API_KEY_FILE", put(folder, "ebb_in_a_file\n"))
    assert find_connection().key == "ebb_in_a_file"
    monkeypatch.setenv("EBBING_API_KEY", "ebb_other")
    with pytest.raises(CommandFailure, match="are both set"):
        find_connection()
    monkeypatch.delenv("EBBING_API_KEY")
    (folder / ".env").write_text("EBBING_API_KEY=ebb_dotenv\n")
    assert find_connection().key == "ebb_in_a_file"


def test_children_of_the_supervisor_get_each_secret_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBING_REDIS_URL_FILE", put(folder, "redis://from-file"))
    monkeypatch.setenv("EBBING_DATABASE_URL_FILE", put(folder, "postgresql://from-file", "database"))
    monkeypatch.setenv("EBBING_OWNER_DATABASE_URL_FILE", put(folder, "postgresql://owner", "owner"))
    monkeypatch.setenv("EBBING_MASTER_KEY_FILE", put(folder, name="master"))
    monkeypatch.setenv("EBBING_METRICS_TOKEN_FILE", put(folder, name="token"))
    service = service_children(Settings(port=0), folder / "home", ["ingest"])
    names = {name for name in service.children[-1].program.environment if name.endswith("_FILE")}
    assert names & {f"{variable}_FILE" for variable in list_variables(Settings)} == {"EBBING_METRICS_TOKEN_FILE"}
    assert service.children[-1].program.environment["EBBING_MASTER_KEY"] == SECRET
    assert (service.database_url, service.owner_database_url) == ("postgresql://from-file", "postgresql://owner")
