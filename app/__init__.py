"""Ebbing: the service. Knows nothing of `workers`."""
