"""What PostgreSQL's parser is given of a text, a memory's or a query's: the text, and what it would not see in it.

Text in ASCII is given as it is. Else it is composed (NFC), and full-width letters, ligatures and the like become plain
ones (NFKC). Scripts without blanks between words (Chinese, Japanese, Thai), and Korean with its endings, are given by
single characters and by pairs of them: 喝茶 is found in 我喜欢喝茶, and rather than where 喝 and 茶 stand apart. What has
accents is given without them too, so that an exact match counts double. Parts of paths, addresses and names in code are
given beside the whole: nginx of `/etc/nginx.conf`, user of `getUserName`.
"""

from __future__ import annotations

from typing import Final

_FORMS: Final = r"[\uFB00-\uFB06\uFB50-\uFDFF\uFE70-\uFEFC\uFF00-\uFFEF]"
_UNSPACED: Final = (  # Thai and Lao, Burmese, Khmer, kana and bopomofo, Han, Hangul
    r"[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3005-\u3007\u3040-\u312F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF"
    r"\uAC00-\uD7AF\uF900-\uFAFF\U00020000-\U0003FFFF]"
)
_ACCENTED: Final = r"[\u00C0-\u024F\u1E00-\u1EFF]"
_JOINED: Final = r"[/.@][A-Za-z]\w|[a-z][A-Z]"
_JOINT: Final = r"[/.@](?=[A-Za-z]\w)|(?<=[a-z])(?=[A-Z])"

# Each step is a subquery of its own, so that its columns are worked out once.
_LEXEMES: Final = rf"""(
  SELECT to_tsvector(CAST(:language AS regconfig), concat_ws(' ', spaced,
    CASE WHEN unspaced THEN regexp_replace(letters, '({_UNSPACED}{_UNSPACED})', ' \1 ', 'g') END,
    CASE WHEN unspaced THEN regexp_replace(
      regexp_replace(letters, '({_UNSPACED})({_UNSPACED}+)', ' \1 \2 ', 'g'), '({_UNSPACED}{_UNSPACED})', ' \1 ', 'g') END,
    CASE WHEN spaced ~ '{_JOINED}' THEN regexp_replace(spaced, '{_JOINT}', ' ', 'g') END,
    CASE WHEN exotic AND letters ~ '{_ACCENTED}' THEN
      normalize(regexp_replace(normalize(letters, NFD), '([A-Za-z])[\u0300-\u036F]+', '\1', 'g'), NFC) END
  ))
  FROM (
    SELECT exotic, unspaced, letters,
           CASE WHEN unspaced THEN regexp_replace(letters, '({_UNSPACED})', ' \1 ', 'g') ELSE letters END AS spaced
    FROM (
      SELECT exotic, letters, exotic AND letters ~ '{_UNSPACED}' AS unspaced
      FROM (
        SELECT exotic, CASE WHEN NOT exotic THEN given WHEN given ~ '{_FORMS}' THEN normalize(given, NFKC)
                            ELSE normalize(given, NFC) END AS letters
        FROM (SELECT given, octet_length(given) <> length(given) AS exotic FROM (SELECT {{text}} AS given OFFSET 0)
              AS a OFFSET 0) AS b OFFSET 0
      ) AS c OFFSET 0
    ) AS d OFFSET 0
  ) AS e
)"""


def lexemes(text: str) -> str:
    """SQL for the words of a text, a tsvector; `:language` is the text search configuration.

    Args:
        text: SQL for the text, not null.
    """
    return _LEXEMES.format(text=text)
