"""`Ebbing.local`: errors before a service starts. Chapter 10 of the fundamentals starts one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ebbing_client import Ebbing, LocalServiceError, local


def missing(_: str) -> None:
    raise PackageNotFoundError


def test_a_local_service_needs_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "distribution", missing)
    with pytest.raises(LocalServiceError, match="needs the package `ebbing`"):
        Ebbing.local(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_an_unusable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "distribution", lambda _: None)
    (tmp_path / "file").touch()
    with pytest.raises(LocalServiceError, match=r"can't be started in .*file"):
        Ebbing.local(tmp_path / "file")
