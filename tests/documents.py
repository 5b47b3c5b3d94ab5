"""Extract sections and shell commands from the documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^```(bash|console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Return the sections of a page by heading, without their subsections; fails on a duplicate heading."""
    _, *parts = _HEADING.split(_hidden(text))
    named = list(zip(parts[::2], (part.replace("\0", "#") for part in parts[1::2]), strict=True))
    found = dict(named)
    assert len(found) == len(named), "duplicate heading"
    return found


def commands(text: str) -> Iterator[list[str]]:
    """Yield every command of a page's shell blocks as words, without prefixes such as `FOO=bar` or `exec`."""
    for language, block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "console" and not line.startswith("$ "):
                continue  # output of the command
            yield from _commands_of(line.removeprefix("$ "))


def _hidden(text: str) -> str:
    """Mask the `#` in code blocks, so that shell comments aren't parsed as headings."""
    return _BLOCK.sub(lambda block: block.group().replace("#", "\0"), text)


def _commands_of(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;()"):
            while words and (re.fullmatch(r"\w+=.*", words[0]) or words[0] == "exec"):
                words.pop(0)  # FOO=bar ebbing …
            if words:
                yield [Path(words[0]).name, *words[1:]]
            words = []
        else:
            words.append(word)
