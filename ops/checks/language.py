"""Check the language of what people read: docstrings, comments, command help, pages and documents.

The check finds only what a pattern can find. The rules themselves are in CONTRIBUTING: a concrete subject, an active
verb, and the term that an engineer would search for.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("app", "workers", "ops", "migrations", "examples", "client")
GENERATED: Final = ("ops/schema.md",)
HELP_ARGUMENTS: Final = ("help", "short_help", "summary", "description")
CLAUSE: Final = re.compile(r"(?:What|Whatever|Whether|Who|Whom|Whose|Whoever|How|Where)\b")
PATTERNS: Final = {
    "household word": re.compile(
        r"\b(?:anew|nevertheless|whoever|somebody|(?:is|are|was|were) told|tells of|goes on|went on|lets? go|"
        r"looks after|sees to|has its say|takes up|(?:is|was) heard of|lies (?:in|at|with)|stands (?:in|at|beside))\b",
        re.IGNORECASE,
    ),
    "clause without a noun": re.compile(
        r"\b(?:what|whatever|who|whom|whoever) (?:[a-z']+ ){0,6}(?:of|by|from|for|to|with|in|on|about)(?=[.;:)])",
        re.IGNORECASE,
    ),
    "'else' as a joint": re.compile(r"[,;] else(?=[ ,.;])", re.IGNORECASE),
}
_TAGS: Final = re.compile(r"\{[%{#].*?[%}#]\}|<[^>]+>")
_CODE_SPAN: Final = re.compile(r"`[^`]*`")

Line = tuple[int, str]


def check_file(path: Path, root: Path = ROOT) -> list[str]:
    """Return one line for each finding in a file: its place, its kind and the text."""
    text = path.read_text()
    where = path.relative_to(root)
    found: list[tuple[int, str, str]] = []
    if path.suffix == ".py":
        nodes = list(ast.walk(ast.parse(text)))
        lines = [*_comments(text), *_help_texts(nodes)]
        for number, docstring in _docstrings(nodes):
            if CLAUSE.match(docstring):
                found.append((number, "docstring that begins with a clause", docstring.splitlines()[0]))
            lines += [(number + place, line) for place, line in enumerate(docstring.splitlines())]
        found += [
            (node.lineno, "name without an object", f"def {node.name}")
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "of"
        ]
    else:
        lines = list(_document_lines(text))
    for number, line in lines:
        prose = _CODE_SPAN.sub("", line)
        found += [(number, kind, line.strip()) for kind, pattern in PATTERNS.items() if pattern.search(prose)]
    return [f"{where}:{number}: {kind}: {line}" for number, kind, line in sorted(found)]


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[Line]:
    """Yield the docstrings of the module, its classes and functions, and those below attributes and constants."""
    for node in nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Expr) and (docstring := _string(statement.value)):
                yield statement.lineno, docstring


def _comments(text: str) -> Iterator[Line]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _help_texts(nodes: Iterable[ast.AST]) -> Iterator[Line]:
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg in HELP_ARGUMENTS and (help_text := _string(node.value)):
            yield node.value.lineno, help_text


def _string(node: ast.expr) -> str:
    """Return the value of a string constant, or an empty string for any other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _document_lines(text: str) -> Iterator[Line]:
    """Yield the lines of a document or template, without examples, tags and expressions."""
    is_example = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_example = not is_example
        elif not is_example:
            yield number, _TAGS.sub(" ", line)


def find_files(root: Path = ROOT) -> list[Path]:
    """Return the files with texts for people, tests excepted."""
    found = list(root.glob("*.md"))
    for folder in CODE:
        found += [path for path in (root / folder).rglob("*") if path.suffix in (".py", ".md", ".html")]
    return sorted(path for path in found if str(path.relative_to(root)) not in GENERATED)


def main(paths: list[str]) -> int:
    """Print the findings in these files, or in all; return 1 if there are any."""
    files = [Path(path).resolve() for path in paths] or find_files()
    found = [line for path in files if path.exists() for line in check_file(path)]
    print("\n".join(found) or "language: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
