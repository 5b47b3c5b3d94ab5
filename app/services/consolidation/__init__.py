"""Merge similar memories, write and refresh summaries, and record which memory supersedes which."""
