"""Routes for tenants, keys, dead letters, usage and health."""
