"""Connections, transactions, migrations and binary formats of PostgreSQL."""
