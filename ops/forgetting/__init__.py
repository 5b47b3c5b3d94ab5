"""Measure what is still found after a year of forgetting, for each method and share of memories kept."""
