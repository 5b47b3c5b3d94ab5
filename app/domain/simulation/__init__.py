"""Simulate a year of conversations, forget by simpler baselines, and measure which facts a search still finds."""
