"""Clients for external systems other than PostgreSQL: Redis, model providers, embedding models and cold storage."""
