"""The short statement for ASCII text returns the lexemes of the full one."""

from __future__ import annotations

import re

import psycopg
import pytest

from app.store.enrichment.indexed_words import ascii_lexemes_sql, lexemes_sql

TEXTS = (
    "",
    "Have you seen Ann's keys?",
    "nginx writes to /etc/nginx.conf and ann@example.org",
    "call getUserName, then parseHTTPResponse_v2",
    "3.5 km in 20 min - don't (ever) stop_here",
    "a.b.C/d @x /y9 z.Z \\ ' \" % $1 :language",
    "\t\n\x01\x7f",
)


@pytest.mark.parametrize("language", ["english", "german", "simple"])
def test_ascii_text_has_the_same_lexemes_in_both_statements(database_url: str, language: str) -> None:
    statement = re.sub(r":language\b", "%(language)s", f"SELECT {lexemes_sql('given')}, {ascii_lexemes_sql('given')}")
    with psycopg.connect(database_url) as connection:
        for text in TEXTS:
            asked = f"{statement} FROM (SELECT CAST(%(text)s AS text) AS given) AS asked"
            row = connection.execute(asked.encode(), {"language": language, "text": text}).fetchone()
            assert row is not None
            assert row[0] == row[1], text
