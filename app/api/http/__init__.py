"""Authentication, request bodies, errors, idempotency, OpenAPI and metrics."""
