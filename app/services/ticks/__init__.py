"""Decay by ticks: advance decay time on request, independently of real time (memory-decay's API)."""
