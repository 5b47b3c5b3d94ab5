"""Compute vectors, choose a tenant's embedding space, and move tenants to another embedder."""
