"""Self-tests: their questions and parameters."""
