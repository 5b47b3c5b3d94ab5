"""Redis: the stream, its backlog, memory limits and Lua scripts."""
