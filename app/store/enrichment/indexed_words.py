"""Build the SQL that prepares a memory's text or a query for PostgreSQL's full-text parser.

ASCII characters are passed unchanged. Other text is composed (NFC), and full-width letters, ligatures and similar forms
become plain ones (NFKC). Text in scripts without spaces between words (Chinese, Japanese, Thai), and Korean text, whose
words have endings, is passed as single characters and as pairs of characters: a query of two characters then matches
within a sentence, and ranks adjacent characters highest. Accented text is passed with and without accents, so that the
exact spelling ranks above a similar one. Paths, addresses and code identifiers are passed whole and in parts: `nginx`
from `/etc/nginx.conf`, `user` from `getUserName`.
"""

from __future__ import annotations

from typing import Final

_FORMS: Final = r"[\uFB00-\uFB06\uFB50-\uFDFF\uFE70-\uFEFC\uFF00-\uFFEF]"
# Thai and Lao, Burmese, Khmer, kana and bopomofo, Han, Hangul
_SIGN: Final = (
    r"[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3005-\u3007\u3040-\u312F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF"
    r"\uAC00-\uD7AF\uF900-\uFAFF\U00020000-\U0003FFFF]"
)
# Latin, Greek, and the Cyrillic e with diaeresis; the Cyrillic short i is excluded, because it is a separate letter.
_ACCENTED: Final = r"[\u00C0-\u024F\u1E00-\u1EFF\u0386-\u03CE\u1F00-\u1FFF\u0401\u0451]"
_BARE: Final = r"[A-Za-z\u0391-\u03C9\u0415\u0435]"
_JOINED: Final = r"[/.@][A-Za-z]\w|[a-z][A-Z]"
_JOINT: Final = r"[/.@](?=[A-Za-z]\w)|(?<=[a-z])(?=[A-Z])"

# OFFSET 0 prevents the planner from merging the subqueries, so that each result is computed once.
_LEXEMES: Final = rf"""(
  SELECT to_tsvector(CAST(:language AS regconfig), concat_ws(' ', spaced,
    CASE WHEN spaced <> letters THEN concat_ws(' ',
      regexp_replace(letters, '({_SIGN}{_SIGN})', ' \1 ', 'g'),
      regexp_replace(regexp_replace(letters, '({_SIGN})({_SIGN}+)', ' \1 \2 ', 'g'), '({_SIGN}{_SIGN})', ' \1 ', 'g')
    ) END,
    CASE WHEN spaced ~ '{_JOINED}' THEN regexp_replace(spaced, '{_JOINT}', ' ', 'g') END,
    CASE WHEN exotic AND letters ~ '{_ACCENTED}' THEN
      normalize(regexp_replace(normalize(letters, NFD), '({_BARE})[\u0300-\u036F]+', '\1', 'g'), NFC)
    END
  ))
  FROM (SELECT {{text}} AS given OFFSET 0) AS said
  CROSS JOIN LATERAL (
    SELECT octet_length(given) <> length(given) AS exotic,
           CASE WHEN octet_length(given) = length(given) THEN given
                WHEN given ~ '{_FORMS}' THEN normalize(given, NFKC)
                WHEN given IS NFC NORMALIZED THEN given ELSE normalize(given, NFC) END AS letters OFFSET 0
  ) AS composed
  CROSS JOIN LATERAL (
    SELECT CASE WHEN exotic THEN regexp_replace(letters, '({_SIGN})', ' \1 ', 'g') ELSE letters END AS spaced OFFSET 0
  ) AS apart
)"""  # noqa: S608 - built from constants


# `_LEXEMES` reduced to the steps that affect ASCII text.
_ASCII_LEXEMES: Final = rf"""to_tsvector(CAST(:language AS regconfig), concat_ws(' ', {{text}},
    CASE WHEN {{text}} ~ '{_JOINED}' THEN regexp_replace({{text}}, '{_JOINT}', ' ', 'g') END))"""


def lexemes_sql(text: str) -> str:
    """Return SQL for the lexemes of a text as a tsvector; `:language` is the text search configuration.

    Args:
        text: SQL for the text, not null.
    """
    return _LEXEMES.format(text=text)


def ascii_lexemes_sql(text: str) -> str:
    """Return SQL for the lexemes of an ASCII text; it takes half the time of `lexemes_sql` to plan and execute.

    Args:
        text: SQL for the text, not null; the result contains this SQL several times.
    """
    return _ASCII_LEXEMES.format(text=text)
