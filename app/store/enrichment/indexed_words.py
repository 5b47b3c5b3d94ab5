"""Build the SQL that prepares a memory's text or a query for PostgreSQL's full-text parser.

ASCII text is passed unchanged. Other text is composed (NFC), and full-width letters, ligatures and similar forms become
plain ones (NFKC). Scripts without spaces between words (Chinese, Japanese, Thai), and Korean with its endings, are
passed as single characters and as pairs: a query of two characters finds them within a sentence, and matches best where
they are adjacent. Accented text is also passed without accents, so that the exact spelling ranks above a similar one.
Parts of paths, addresses and code identifiers are passed in addition to the whole: nginx of `/etc/nginx.conf`, user of
`getUserName`.
"""

from __future__ import annotations

from typing import Final

_FORMS: Final = r"[\uFB00-\uFB06\uFB50-\uFDFF\uFE70-\uFEFC\uFF00-\uFFEF]"
# Thai and Lao, Burmese, Khmer, kana and bopomofo, Han, Hangul
_SIGN: Final = (
    r"[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3005-\u3007\u3040-\u312F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF"
    r"\uAC00-\uD7AF\uF900-\uFAFF\U00020000-\U0003FFFF]"
)
# Latin and Greek. Of Cyrillic only the e, because short i is a letter of its own.
_ACCENTED: Final = r"[\u00C0-\u024F\u1E00-\u1EFF\u0386-\u03CE\u1F00-\u1FFF\u0401\u0451]"
_BARE: Final = r"[A-Za-z\u0391-\u03C9\u0415\u0435]"
_JOINED: Final = r"[/.@][A-Za-z]\w|[a-z][A-Z]"
_JOINT: Final = r"[/.@](?=[A-Za-z]\w)|(?<=[a-z])(?=[A-Z])"

# OFFSET 0 keeps each step a separate subquery, so that its result is computed once.
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


# What remains of `_LEXEMES` for ASCII text.
_ASCII_LEXEMES: Final = rf"""to_tsvector(CAST(:language AS regconfig), concat_ws(' ', {{text}},
    CASE WHEN {{text}} ~ '{_JOINED}' THEN regexp_replace({{text}}, '{_JOINT}', ' ', 'g') END))"""


def lexemes_sql(text: str) -> str:
    """Return SQL for the lexemes of a text as a tsvector; `:language` is the text search configuration.

    Args:
        text: SQL for the text, not null.
    """
    return _LEXEMES.format(text=text)


def ascii_lexemes_sql(text: str) -> str:
    """Return SQL for the same lexemes as `lexemes_sql` of an ASCII text, which takes half the time to plan and execute.

    Args:
        text: SQL for the text, not null; it is repeated.
    """
    return _ASCII_LEXEMES.format(text=text)
