"""The world outside PostgreSQL: the stream in Redis, embedders and other providers."""
