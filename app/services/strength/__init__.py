"""Compute and change the strength of memories, and load the policies and forgetting models that determine it."""
