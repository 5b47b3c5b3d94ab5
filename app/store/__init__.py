"""All SQL of the service, one module per table family; functions take a connection and never commit."""
