"""Importance, reinforcement, reviews and forgetting curves."""
