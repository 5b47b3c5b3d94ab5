"""Use cases: each combines domain rules with the store or a client, and owns its transactions."""
