"""A test or fixture that leaves `EBBING_` variables changed fails by name, and the next test runs as if it hadn't."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest

from tests.environment_guard import EnvironmentGuard

HELPERS = """
import os
import pytest


def seen():
    return sorted(name for name in os.environ if name.startswith("EBBING_GUARDED"))


"""
LEFT_OUT = ("cacheprovider", "faulthandler", "unraisableexception", "threadexception")
OPTIONS = ["--import-mode=importlib", "-q", "-s", *(f"-pno:{plugin}" for plugin in LEFT_OUT)]


@dataclass
class Outcomes:
    """Plugin of pytest that keeps the failures by test and phase."""

    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.failed:
            self.failures[name, report.when] = report.longreprtext
        elif report.when == "call":
            self.passed.append(name)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Outcomes]:
    """Run tests, given as text, with the guard."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_guarded(text: str) -> Outcomes:
        file = tmp_path / "test_guarded.py"
        file.write_text(HELPERS + dedent(text), encoding="utf-8")
        outcomes = Outcomes()
        # The folder is its own root with its own configuration: otherwise all folders above would be collected.
        places = ["-c", os.devnull, f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}"]
        pytest.main([*OPTIONS, *places, str(file)], [EnvironmentGuard(), outcomes])
        sys.modules.pop(file.stem, None)  # otherwise the next run would import this one's tests
        return outcomes

    return run_guarded


def test_a_test_that_leaves_a_variable_fails_and_the_next_runs_without_it(run: Callable[[str], Outcomes]) -> None:
    outcomes = run(
        """
        def test_1_leaves(): os.environ["EBBING_GUARDED"] = "secret"
        def test_2_runs(): assert seen() == []
        """
    )
    [(failed, message)] = outcomes.failures.items()
    assert failed == ("test_1_leaves", "teardown")
    assert "test_guarded.py::test_1_leaves leaves EBBING_GUARDED changed" in message
    assert "secret" not in message
    assert outcomes.passed == ["test_1_leaves", "test_2_runs"]


def test_a_variable_that_a_test_removes_returns(
    run: Callable[[str], Outcomes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_GUARDED_BEFORE", "1")
    outcomes = run(
        """
        def test_1_removes(): del os.environ["EBBING_GUARDED_BEFORE"]
        def test_2_runs(): assert seen() == ["EBBING_GUARDED_BEFORE"]
        """
    )
    assert list(outcomes.failures) == [("test_1_removes", "teardown")]
    assert outcomes.passed == ["test_1_removes", "test_2_runs"]


@pytest.mark.parametrize("scope", ["function", "module"])
def test_a_fixture_that_does_not_undo_its_change_is_named(run: Callable[[str], Outcomes], scope: str) -> None:
    outcomes = run(
        f"""
        @pytest.fixture(scope="{scope}")
        def leaving(): os.environ["EBBING_GUARDED"] = "1"
        def test_1_uses(leaving): assert seen() == ["EBBING_GUARDED"]
        """
    )
    [(failed, message)] = outcomes.failures.items()
    assert failed == ("test_1_uses", "teardown")
    assert f"the {scope} fixture leaving of test_guarded.py leaves EBBING_GUARDED changed" in message


def test_a_fixture_of_the_session_may_not_keep_a_variable(run: Callable[[str], Outcomes]) -> None:
    outcomes = run(
        """
        @pytest.fixture(scope="session")
        def standing():
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("EBBING_GUARDED", "1")
                yield
        def test_1_uses(standing): pass
        def test_2_uses_too(standing): assert seen() == []
        """
    )
    [(failed, message)] = outcomes.failures.items()
    assert failed == ("test_1_uses", "setup")
    assert "the session fixture standing of test_guarded.py leaves EBBING_GUARDED changed" in message
    assert outcomes.passed == ["test_2_uses_too"]


def test_what_fixtures_undo_passes(run: Callable[[str], Outcomes]) -> None:
    outcomes = run(
        """
        @pytest.fixture(scope="module")
        def lent():
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("EBBING_GUARDED_LENT", "1")
                yield
        @pytest.fixture
        def through_monkeypatch(monkeypatch): monkeypatch.setenv("EBBING_GUARDED", "1")
        def test_1_both(lent, through_monkeypatch): assert seen() == ["EBBING_GUARDED", "EBBING_GUARDED_LENT"]
        def test_2_lent(lent): assert seen() == ["EBBING_GUARDED_LENT"]
        def test_3_removes(lent, monkeypatch): monkeypatch.delenv("EBBING_GUARDED_LENT")
        """
    )
    assert outcomes.failures == {}
    assert outcomes.passed == ["test_1_both", "test_2_lent", "test_3_removes"]
    assert "EBBING_GUARDED_LENT" not in os.environ


def test_a_test_that_configures_logging_fails_by_name(run: Callable[[str], Outcomes]) -> None:
    outcomes = run("""
        import structlog

        def test_configures():
            structlog.configure(cache_logger_on_first_use=True)

        def test_next():
            assert not structlog.get_config()["cache_logger_on_first_use"]
    """)
    assert list(outcomes.failures) == [("test_configures", "teardown")]
    assert "app.logs.configure" in outcomes.failures["test_configures", "teardown"]
    assert outcomes.passed == ["test_configures", "test_next"]
