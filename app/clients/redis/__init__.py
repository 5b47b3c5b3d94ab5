"""Redis: the ingest streams, their backlog, memory limits and Lua scripts."""
