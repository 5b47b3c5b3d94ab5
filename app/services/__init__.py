"""Use cases: each joins a rule to rows or to a client, and owns its transactions."""
