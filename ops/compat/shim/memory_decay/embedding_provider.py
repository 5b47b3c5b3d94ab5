"""Name that the tests import; the test that uses it is left out, because it needs the original's own object."""

from __future__ import annotations

__all__ = ["GeminiEmbeddingProvider"]


class GeminiEmbeddingProvider:
    """Stand-in for the original's class."""
