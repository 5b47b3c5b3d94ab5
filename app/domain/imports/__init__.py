"""Readers of other products' files: each yields memories, links and named faults, one record at a time."""
