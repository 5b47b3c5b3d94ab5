"""Erase a person's memories from every store, report it, and repeat it after a restore."""
