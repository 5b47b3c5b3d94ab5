"""Compute and change the strength of memories: uses, reviews, rebases and forgetting models."""
