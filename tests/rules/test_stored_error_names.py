"""The names under which errors are stored survive the renaming of classes.

Dead letters, failed jobs and nights record an error's name, and operators replay dead letters by it. A class that is
renamed declares its former name: `stored_name = "FormerName"`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

from app.domain.ingest.envelope import MalformedEnvelope
from app.errors import EbbingError, Invalid, Unreadable, stored_name

APP = Path(__file__).resolve().parents[2] / "app"
OUTSIDE = {"api", "cli", "dashboard", "mcp", "supervisor", "embedded"}
"""Packages whose errors reach no stored row."""
STORING = ("services/ingest/drain.py", "services/enrichment/stage_runner.py", "services/jobs/runner.py")
NAMES = {
    "AnswerRefused",
    "BacklogFull",
    "BadValue",
    "CodeRefused",
    "Conflict",
    "CursorGone",
    "CursorLost",
    "DamagedSegment",
    "DumpUnreadable",
    "EbbingError",
    "EmbedderUnavailable",
    "ExternalIdTaken",
    "FileRefused",
    "HostRefused",
    "Invalid",
    "LogInProviderFailed",
    "LogInRefused",
    "MalformedEnvelope",
    "Misconfigured",
    "Missing",
    "NightFailed",
    "NoAccess",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "NotesFolderFailed",
    "NotReplayed",
    "OverBudget",
    "Overtaken",
    "ProfileMissing",
    "ProviderAway",
    "ProviderFailed",
    "QueueReplaced",
    "RowsRefused",
    "SegmentLost",
    "StoreFailed",
    "TenantClosed",
    "TextChanged",
    "TokenRefused",
    "TooLarge",
    "Unavailable",
    "Unfit",
    "UnknownKey",
    "Unreadable",
    "Unusable",
    "UnusableSecret",
    "_FieldFault",
    "_OutOfTime",
}
"""Stored names. Add those of new classes; never change or remove one that a release has stored."""


def declared_names() -> dict[str, str]:
    """Return the stored name of each exception class of the service, by the class's name."""
    classes = [
        node
        for path in APP.rglob("*.py")
        if path.relative_to(APP).parts[0] not in OUTSIDE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    errors = {name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)}
    errors.add("RedisError")
    found: dict[str, str] = {}
    while new := [each for each in classes if each.name not in found and errors & set(base_names(each))]:
        found |= {each.name: declared_name(each) for each in new}
        errors |= {each.name for each in new}
    return found


def base_names(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        if isinstance(base, ast.Name | ast.Attribute):
            yield base.id if isinstance(base, ast.Name) else base.attr


def declared_name(node: ast.ClassDef) -> str:
    for each in node.body:
        match each:
            case (
                ast.AnnAssign(target=ast.Name("stored_name"), value=ast.Constant(str(name)))
                | ast.Assign(targets=[ast.Name("stored_name")], value=ast.Constant(str(name)))
            ):
                return name
    return node.name


def test_no_class_is_stored_under_a_new_name() -> None:
    assert set(declared_names().values()) == NAMES


def test_a_renamed_class_is_stored_under_its_former_name() -> None:
    class Renamed(EbbingError):
        stored_name = "Former"

    class Derived(Renamed):
        pass

    assert [stored_name(error) for error in (Renamed(), Derived(), Invalid(), ValueError())] == [
        "Former",
        "Derived",
        "Invalid",
        "ValueError",
    ]


def test_no_module_that_stores_reasons_names_errors_itself() -> None:
    for name in STORING:
        assert "type(error).__name__" not in (APP / name).read_text(), name


def test_the_reasons_of_unreadable_requests_are_those_that_the_runbook_lists() -> None:
    assert [stored_name(error) for error in (Unreadable(), Invalid(), MalformedEnvelope())] == [
        "Unreadable",
        "Invalid",
        "MalformedEnvelope",
    ]
