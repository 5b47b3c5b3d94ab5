"""Store the decay clocks of tenants that memory-decay's API serves, and read their memories in its terms."""
