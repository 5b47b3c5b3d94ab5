"""Importance, reinforcement, reviews and curves of forgetting."""
