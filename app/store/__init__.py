"""All SQL, one module a table family; functions take a connection and never commit."""
