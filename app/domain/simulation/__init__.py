"""Simulate a year of conversations, apply simpler forgetting policies, and measure which facts a search still finds."""
