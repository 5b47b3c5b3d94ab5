"""The plain alternative: FastAPI over exact cosine of pgvector, a common first implementation.

It embeds the query with the bundled word vectors, compares all memories and returns the nearest ten. It has no word
search, ranking, forgetting, uses, keys or tenants. `python -m ops.bench.floors.plain PORT` serves the table
`plain_memories`.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from fastapi import FastAPI
from granian.constants import Interfaces
from pydantic import BaseModel

from app.clients.embedding.embedder import embedder
from app.settings import settings
from ops.bench.floors.bare import serve

app = FastAPI()
_thread = threading.local()
_NEAREST = """
SELECT id, text, 1 - (embedding <=> CAST(%s AS vector)) FROM plain_memories
ORDER BY embedding <=> CAST(%s AS vector) LIMIT 10
"""


class SearchBody(BaseModel):
    """The body of a search."""

    query: str


def _connection() -> psycopg.Connection[Any]:
    """Return the connection of this thread."""
    if not hasattr(_thread, "connection"):
        url = settings().database_url
        _thread.connection = psycopg.connect(url.get_secret_value() if url else "", autocommit=True)
    connection: psycopg.Connection[Any] = _thread.connection
    return connection


@app.get("/healthz")
def healthz() -> dict[str, str]:
    """Respond that the server is running."""
    return {}


@app.post("/v1/search")
def search(asked: SearchBody) -> dict[str, Any]:
    """Return the nearest memories."""
    vector = str(embedder().embed_query(asked.query, {}).tolist())
    rows = _connection().execute(_NEAREST, (vector, vector)).fetchall()
    return {"results": [{"id": str(row[0]), "text": row[1], "score": row[2]} for row in rows]}


if __name__ == "__main__":
    serve("ops.bench.floors.plain:app", app, Interfaces.ASGI)
