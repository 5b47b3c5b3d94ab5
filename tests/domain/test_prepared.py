"""Types for msgspec are prepared at import: two threads that prepared one concurrently would crash the process."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("prepared")  # so that the sources are parsed once

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for folder in ("app", "workers") for path in (ROOT / folder).rglob("*.py"))
# This module prepares its type later, in one thread at a time.
LATER = ROOT / "app/api/http/request_body.py"
PLAIN = {"dict", "list", "str"}

READ_BY_MANY = """
import importlib, sys, threading
from app.clients.llm import responses

body = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}'
sys.setswitchinterval(1e-6)
for _ in range(300):
    importlib.reload(responses)
    together = threading.Barrier(4)
    def read():
        together.wait()
        responses.read_chat(body, 1)
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def read_shapes(tree: ast.Module) -> Iterator[str]:
    """Yield the names of types that are passed to msgspec where it decodes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = [each.value for each in node.keywords if each.arg == "type"]
        if node.func.attr == "convert":
            given += node.args[1:2]
        elif node.func.attr != "decode":
            continue
        names = {each.id for shape in given for each in ast.walk(shape) if isinstance(each, ast.Name)}
        yield from names - PLAIN - {"msgspec"}


def prepared_shapes(tree: ast.Module) -> set[str]:
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    made = [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call)]
    calls = {
        ast.unparse(each.target) for each in made if each.value and ast.unparse(each.value).startswith("precompile(")
    }
    return calls | {
        each.name
        for each in classes
        if any(isinstance(by, ast.Name) and by.id == "precompile" for by in each.decorator_list)
    }


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def test_what_is_read_without_a_decoder_is_prepared() -> None:
    prepared = set().union(*map(prepared_shapes, trees().values()))
    read = {(str(path.relative_to(ROOT)), name) for path, tree in trees().items() for name in read_shapes(tree)}
    assert len(read) > 5
    assert {each for each in read if each[1] not in prepared} == {
        ("app/clients/llm/responses.py", "shape"),
        ("app/dashboard/sessions.py", "shape"),
        # The faults of a body are listed after a decoder of its module has refused it.
        ("app/domain/ingest/bodies.py", "MemoryIn"),
        ("app/domain/ingest/body_faults.py", "kind"),
        ("app/domain/imports/records.py", "MemoryIn"),  # a job's worker reads records in one thread
        ("app/mcp/tool.py", "self"),  # a tool prepares its types when it is declared
    }
    assert {"_Chat", "_Embeddings"} <= prepared, "the types passed to `responses._decoded`"
    assert {"Session", "LogInAttempt"} <= prepared, "the types passed to `sessions._unseal`"


def test_decoders_are_made_with_their_modules() -> None:
    late = {
        str(path.relative_to(ROOT))
        for path, tree in trees().items()
        if path != LATER
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name != "precompile"
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "Decoder"
        if node.args  # without a type, there is nothing to prepare
    }
    assert late == set()


@pytest.mark.slow
def test_answers_are_read_by_several_threads_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ_BY_MANY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
