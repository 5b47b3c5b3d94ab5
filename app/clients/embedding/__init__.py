"""Embedding models, in this process or at a provider."""
