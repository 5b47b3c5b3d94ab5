"""Contain all SQL, one module per table family; functions take a connection and never commit."""
