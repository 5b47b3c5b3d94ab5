"""Compute and change the strength of memories: uses, reviews, policies of forgetting."""
