"""SQL for the state that strength is computed from, for uses and for reviews."""
