"""Make vectors, choose the embedding space of a tenant, and move tenants to another embedder."""
