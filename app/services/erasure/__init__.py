"""Erase a subject's memories from every store, report on the erasure, and replay it after a restore."""
