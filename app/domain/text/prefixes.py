"""Look up the query and passage prefixes that an embedding model was trained with."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

_SEARCHING: Final = "Represent this sentence for searching relevant passages: "
_INSTRUCTION: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query"
_DIGEST_BYTES: Final = 4


class Prefixes(NamedTuple):
    """Prefixes of a query and of a document; empty for none."""

    query: str = ""
    document: str = ""

    @property
    def tag(self) -> str:
        """Component of the embedding space's name that identifies the document prefix; empty if there is none.

        Documents embedded with different prefixes cannot be compared. The query prefix affects no stored vector.
        """
        if not self.document:
            return ""
        return "prefix-" + hashlib.blake2b(self.document.encode(), digest_size=_DIGEST_BYTES).hexdigest()


FAMILIES: Final[tuple[tuple[str, Prefixes], ...]] = (
    (r"e5-.*instruct", Prefixes(f"{_INSTRUCTION}\nQuery: ")),
    (r"(multilingual-)?e5-", Prefixes("query: ", "passage: ")),
    (r"bge-(small|base|large)-en", Prefixes(_SEARCHING)),
    (r"bge-(small|base|large)-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001 - Chinese
    (r"mxbai-embed-", Prefixes(_SEARCHING)),
    (r"snowflake-arctic-embed-.*v2", Prefixes("query: ")),
    (r"snowflake-arctic-embed-", Prefixes(_SEARCHING)),
    (r"nomic-embed-text-", Prefixes("search_query: ", "search_document: ")),
    (r"stella_|stella-", Prefixes(f"{_INSTRUCTION}.\nQuery: ")),
    (r"qwen3-embedding-", Prefixes(f"{_INSTRUCTION}\nQuery:")),
    (r"embeddinggemma-", Prefixes("task: search result | query: ", "title: none | text: ")),
)
"""Prefixes of the model families, from the model cards. A pattern matches the start of a model's name without its
publisher; the first match wins. Models of other families (MiniLM, MPNet, GTE, BGE-M3, Jina, Granite, Potion) have
none."""


def family_prefixes(model: str) -> Prefixes:
    """Return the prefixes of a model's family, by the last part of its name or path; none for unknown families."""
    name = re.split(r"[/\\]", model.rstrip("/\\").lower())[-1]
    return next((prefixes for pattern, prefixes in FAMILIES if re.match(pattern, name)), Prefixes())
