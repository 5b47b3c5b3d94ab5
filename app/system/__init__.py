"""Processes of the operating system: how one ends with its parent, and which ones a home's service has."""
