"""Summaries from the fake model: sentences of each memory in turn, in the third person, or false statements."""

from __future__ import annotations

import json
import re
from typing import Any

SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|$)", re.DOTALL)
LENGTHS = re.compile(r"between (\d+) and (\d+) characters")
TELLING = re.compile(r"\d|https?:|\b(?:not?|never|allergic|[A-Z][a-z]+)\b|n't\b")


def answer(messages: list[dict[str, Any]], lines: list[dict[str, Any]], mode: str) -> str:
    """Return the response text; in a mode other than `ok`, corrupted accordingly."""
    found = LENGTHS.search(messages[-1]["content"])
    most = int(found[2]) if found else 0
    kept = _kept(lines, most)
    days = sorted(line["said_on"] for line in lines)
    said: dict[str, Any] = {
        "summary": "\n".join(kept),
        "key_points": kept[:12],
        "original_ids": [line["id"] for line in lines],
        "time_span": f"{days[0]}/{days[-1]}",
    }
    text = json.dumps(_spoiled(said, most, mode))
    if mode == "long_answer":
        return text[:-1] + ', "x": "' + "x" * 200_000 + '"}'
    return "Sure! Here is your summary:" if mode == "not_json" else text


def _kept(lines: list[dict[str, Any]], most: int) -> list[str]:
    """Return the most informative sentences that fit, in their original order."""
    every = [
        (place, line.get("speaker"), sentence[0].strip())
        for place, line in enumerate(lines)
        for sentence in SENTENCE.finditer(line["text"])
        if sentence[0].strip()
    ]
    ranked = sorted(every, key=lambda each: (-len(TELLING.findall(each[2])) / (len(each[2]) + 20), each[0]))
    chosen: set[tuple[int, str | None, str]] = set()
    for each in ranked:
        if len("\n".join(_told(every, chosen | {each}))) <= most:
            chosen.add(each)
    return _told(every, chosen or {ranked[0]})


def _told(every: list[tuple[int, str | None, str]], chosen: set[tuple[int, str | None, str]]) -> list[str]:
    return [f"{speaker}: {text}" if speaker else text for _, speaker, text in every if (_, speaker, text) in chosen]


def _spoiled(said: dict[str, Any], most: int, mode: str) -> dict[str, Any]:
    summary, points, ids = said["summary"], said["key_points"], said["original_ids"]
    changes: dict[str, dict[str, Any]] = {
        "wrong_ids": {"original_ids": [*ids[:-1], "01234567"]},
        "wrong_count": {"original_ids": ids[:-1]},
        "swapped": {"original_ids": [*ids, ids[0]]},
        "extra_field": {"never_forget": True},
        "text_numbers": {"summary": 7},
        "invented_number": {"summary": f"{summary[: most - 10]} 98173"},
        "invented_name": {"summary": f"{summary[: most - 20]} and Zebulon"},
        "invented_link": {"summary": f"{summary[: most - 30]} https://evil.example"},
        "invented_date": {"summary": f"{summary[: most - 20]} on 31 December 1987"},
        "invented_point": {"key_points": [*points[:5], "Zebulon pays 98173 euros"]},
        "other_words": {"summary": "Kolme pientä porsasta rakensivat talonsa kauas metsän reunaan yhdessä syksyllä"},
        "denied": {"summary": "\n".join(_denied(line) for line in summary.split("\n"))},
        "too_long": {"summary": f"{summary} " * 9},
        "too_short": {"summary": points[0].split(".")[0][:20]},
        "empty": {"summary": " \n"},
        "no_points": {"key_points": []},
        "leaked": {"summary": f"{summary[: most - 20]} {ids[0]}"},
        "wrong_span": {"time_span": "1999-01-01/2001-01-01"},
    }
    said |= changes.get(mode, {})
    if mode == "missing_field":
        del said["time_span"]
    return said


def _denied(line: str) -> str:
    """Negate the line, or remove its negation."""
    bare = re.sub(r"\b(?:not|never|no) |n't\b", "", line)
    return bare if bare != line else re.sub(r"\b(?:is|was|are|has|have|had|do|did|will|can|I)\b", r"\g<0> not", line)
