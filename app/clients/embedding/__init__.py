"""Embedders in the process and of providers."""
