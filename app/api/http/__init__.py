"""HTTP plumbing: authentication, request bodies, errors, idempotency, OpenAPI and metrics."""
