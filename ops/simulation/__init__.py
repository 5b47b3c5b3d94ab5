"""Figures about the hard simulated year that need no database."""
