"""Run a tenant's nightly maintenance, step by step."""
