"""What the documents show to be typed: the shell blocks of a page, as commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^```(bash|console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The parts of a page by their headings, without those below; no heading may be there twice."""
    _, *parts = _HEADING.split(_hidden(text))
    named = list(zip(parts[::2], (part.replace("\0", "#") for part in parts[1::2]), strict=True))
    found = dict(named)
    assert len(found) == len(named), "a heading is there twice"
    return found


def commands(text: str) -> Iterator[list[str]]:
    """Every command of a page's shell blocks, as words, without what stands before it (`FOO=bar`, `exec`)."""
    for language, block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "console" and not line.startswith("$ "):
                continue  # what the command answers
            yield from _commands_of(line.removeprefix("$ "))


def _hidden(text: str) -> str:
    """The same, with the comments of shell blocks so that they are no headings."""
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
